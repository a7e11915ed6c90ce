"""A small file system for one test, which it can fill."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.setups import require


class SmallDisk:
    """A file system of its own for processes started by `command`, in a mount namespace that ends with the test."""

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self.directory = directory
        directory.mkdir()
        mount = f'mount -t tmpfs -o size={size_bytes} tmpfs "$0" && echo mounted && exec cat'
        self._holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._holder.stdout is not None
        self.is_there = self._holder.stdout.readline() == b"mounted\n"

    @property
    def command(self) -> list[str]:
        target = f"--target={self._holder.pid}"
        return ["nsenter", target, "--user", "--preserve-credentials", "--mount"]

    @property
    def ballast(self) -> Path:
        return Path(f"/proc/{self._holder.pid}/root{self.directory}/ballast")

    def fill(self, leave: int) -> None:
        """Write the ballast, so that so many bytes are left."""
        free = os.statvfs(self.ballast.parent)
        self.ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - leave))

    def close(self) -> None:
        self._holder.communicate()


@contextmanager
def small_disk(directory: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Yield a file system that is mounted at a new directory; skip the test where none can be made."""
    require("unshare", "nsenter")
    small = SmallDisk(directory, size_bytes)
    try:
        if not small.is_there:
            pytest.skip("a file system cannot be made here")
        yield small
    finally:
        small.close()
