"""A temporary data directory that is deleted when its last process has exited, even if it was killed.

A killed process deletes nothing, so a shell waits for EOF on a pipe and then deletes the directory. Every process that
was started with the directory holds the write end, so the brokers of a killed `barnabas up` can stop in order. A broker
of `barnabas up` that was restarted by hand does not hold it: the shell also waits for the processes that the lock files
name.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import gettempdir

SHELL = "/bin/sh"
NAME_BYTES = 8
# SIGCONT: a broker that was paused, and has lost its parent, ends only once it runs again.
DELETE_AT_END_OF_INPUT = """
read -r end
for lock in "$0"/*/.lock; do
  while kill -CONT "$(cat "$lock")"; do sleep 1; done
done
rm -rf -- "$0"
"""


def make_directory() -> tuple[str, int, subprocess.Popen[bytes]]:
    """Return the path of a new directory, the descriptor that keeps it, and the process that will delete it.

    OSError if the directory cannot be made or the shell not started. Nothing is left behind then, or at an interrupt.
    """
    path = os.path.join(gettempdir(), f"barnabas-{os.urandom(NAME_BYTES).hex()}")
    read, write = os.pipe()
    try:
        watching = subprocess.Popen(  # noqa: S603 - a fixed script, and a path made here
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
    try:
        os.mkdir(path, 0o700)  # last: an interrupt between two steps leaves no directory without its shell
    except BaseException:
        os.close(write)
        watching.wait()
        raise
    return path, write, watching


@contextmanager
def temporary_directory() -> Iterator[tuple[str, int]]:
    """Yield the path of a new directory, and a descriptor: the directory exists while a process holds it."""
    path, keeping, watching = make_directory()
    with watching:
        try:
            yield path, keeping
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(keeping)
