"""A temporary data directory that is deleted when its last process has ended, in whatever way.

A process that is killed deletes nothing. So a shell waits for the end of a pipe, and deletes the directory then. All
processes that use the directory hold the other end: the brokers of a `barnabas up` that is killed run until they have
stopped in order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import mkdtemp

SHELL = "/bin/sh"
DELETE_AT_END_OF_INPUT = 'read -r end; rm -rf -- "$0"'


def make_directory() -> tuple[str, int, subprocess.Popen[bytes]]:
    """Return the path of a new directory, the descriptor that keeps it, and the process that will delete it.

    OSError, and nothing is left behind, if it cannot be made or there is no shell.
    """
    path = mkdtemp(prefix="barnabas-")
    try:
        read, write = os.pipe()
        try:
            watching = subprocess.Popen(  # noqa: S603 - a fixed script, and a path that was made here
                [SHELL, "-c", DELETE_AT_END_OF_INPUT, path],
                cwd="/",
                stdin=read,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that the terminal's signals do not reach it
            )
        except BaseException:
            os.close(write)
            raise
        finally:
            os.close(read)
    except BaseException:
        os.rmdir(path)
        raise
    return path, write, watching


@contextmanager
def temporary_directory() -> Iterator[tuple[str, int]]:
    """Yield the path of a new directory, and a descriptor: it is kept while any process holds that."""
    path, keeping, watching = make_directory()
    with watching:
        try:
            yield path, keeping
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(keeping)
