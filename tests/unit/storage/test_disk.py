import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from storage.disk import AlreadyLocked, Buffer, OsDisk, OsFile, out_of_space, reason

DISK = OsDisk()
STRETCH = 128 * 1024
"""Smallest amount that Linux reads into the page cache and evicts at a time by default."""


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


def test_write_goes_to_its_offset(tmp_path: Path) -> None:
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.pwrite(memoryview(b"hello"), 3)
    file.pwrite(b"HE", 3)
    assert (tmp_path / "file").read_bytes() == b"\0\0\0HEllo"
    assert file.size() == 8


def test_reading_past_the_end_returns_what_is_there(tmp_path: Path) -> None:
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.pwrite(b"hello", 0)
    assert (file.pread(10, 3), file.pread(10, 5), file.pread(10, 50)) == (b"lo", b"", b"")


def test_nonblocking_read_returns_all_or_nothing(tmp_path: Path) -> None:
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.pwrite(b"hello", 0)
    assert file.pread_nowait(5, 0) in (b"hello", None)
    assert file.pread_nowait(6, 0) is None


def test_file_is_sent_to_a_socket_without_a_copy(tmp_path: Path) -> None:
    content = os.urandom(5_000_000)
    (tmp_path / "file").write_bytes(content)
    file = DISK.open_file(str(tmp_path / "file"))
    knows_cached = file.pread_nowait(1, 0) is not None
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        assert file.send_nowait(here.fileno(), 100_000, 7) == (100_000 if knows_cached else None)
        assert not knows_cached or there.recv(100_000, socket.MSG_WAITALL) == content[7:100_007]
        assert file.send_nowait(here.fileno(), 100, len(content) - 3) == (3 if knows_cached else None)
        assert file.send_nowait(here.fileno(), 100, len(content)) is None  # the page cache is empty
        if knows_cached:
            assert 0 < (file.send_nowait(here.fileno(), len(content), 0) or 0) < len(content)
            assert file.send_nowait(here.fileno(), len(content), 0) == 0
        there.close()
        assert file.send_nowait(here.fileno(), 1000, 0) is None
        here.close()
        assert file.send_nowait(here.fileno(), 1000, 0) is None


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="the system does not know what is in memory")
@pytest.mark.parametrize("missing", [0, 100_000, 4 << 20, (8 << 20) - STRETCH])
def test_range_partly_outside_the_page_cache_is_not_sent(
    tmp_path: Path, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The system decides which pages the cache holds: it may ignore a request to drop some, and drop others any time.
    # So the test simulates a system with all but one stretch of the file in memory.
    (tmp_path / "file").write_bytes(bytes(8 << 20))
    file = DISK.open_file(str(tmp_path / "file"))

    def preadv(_: int, buffers: list[bytearray], offset: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        if missing <= offset < missing + STRETCH:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return sum(map(len, buffers))

    monkeypatch.setattr(os, "preadv", preadv)
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        there.setblocking(False)
        assert file.send_nowait(here.fileno(), 8 << 20, 0) is None
        with pytest.raises(BlockingIOError):
            there.recv(1)
        if missing:
            assert file.send_nowait(here.fileno(), missing, 0), "what is before it could be sent"


def test_opening_a_missing_file_is_an_error_without_create(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DISK.open_file(str(tmp_path / "file"))
    DISK.open_file(str(tmp_path / "file"), create=True)
    assert DISK.file_size(str(tmp_path / "file")) == 0


def test_file_is_readable_until_its_last_reference_is_dropped(tmp_path: Path) -> None:
    before = descriptors()
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.pwrite(b"hello", 0)
    DISK.remove(str(tmp_path / "file"))
    assert file.pread(5, 0) == b"hello"
    assert descriptors() == before + 1
    del file
    assert descriptors() == before


def test_closing_twice_closes_once(tmp_path: Path) -> None:
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.close()
    other = DISK.open_file(str(tmp_path / "file"))
    file.close()
    assert other.pread(1, 0) == b""


@pytest.mark.parametrize("sync", [True, False])
def test_replacing_leaves_the_new_content_and_nothing_else(sync: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    DISK.replace_file(path, b"old and longer", sync)
    DISK.replace_file(path, b"new", sync)
    assert DISK.read_file(path) == b"new"
    assert DISK.list_dir(str(tmp_path)) == ["file"]


def test_regular_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    (tmp_path / "link").symlink_to("file")
    assert DISK.read_regular_file(str(tmp_path / "link"), 200_000) == b"x" * 200_000
    with pytest.raises(OSError, match="larger than 199999 bytes"):
        DISK.read_regular_file(str(tmp_path / "file"), 199_999)
    (tmp_path / "file").write_bytes(b"")
    assert DISK.read_regular_file(str(tmp_path / "file"), 0) == b""


def test_only_regular_files_are_read_as_such(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "link", tmp_path / "socket", "/dev/zero", "/dev/tty"):
            with pytest.raises(OSError, match="not a regular file"):
                DISK.read_regular_file(str(path), 1000)
    with pytest.raises(IsADirectoryError):
        DISK.read_regular_file(str(tmp_path), 1000)


def test_pipe_that_replaces_a_regular_file_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    before = os.stat(tmp_path / "file")
    monkeypatch.setattr(os, "stat", lambda _: before)
    with pytest.raises(OSError, match="not a regular file"):
        DISK.read_regular_file(str(tmp_path / "pipe"), 1000)


def test_removing_a_missing_file_is_no_error(tmp_path: Path) -> None:
    DISK.remove(str(tmp_path / "file"))
    DISK.remove_tree(str(tmp_path / "folder"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    DISK.remove_tree(str(tmp_path / "folder"))
    assert not DISK.exists(str(tmp_path / "folder"))


def test_second_lock_fails_with_the_pid_of_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = DISK.lock(path)
    with pytest.raises(AlreadyLocked) as refused:
        DISK.lock(path)
    assert refused.value.pid == os.getpid()
    lock.release()
    DISK.lock(path).release()


def test_lock_is_released_when_its_process_ends(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = "import sys; from storage.disk import OsDisk; lock = OsDisk().lock(sys.argv[1]); print(); input()"
    with subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(AlreadyLocked) as refused:
            DISK.lock(path)
        assert refused.value.pid == other.pid
        other.kill()
    DISK.lock(path).release()


@pytest.mark.parametrize(
    "call",
    [
        lambda file: file.pread(1, 0),
        lambda file: file.pread_nowait(1, 0),
        lambda file: file.pwrite(b"x", 0),
        lambda file: file.truncate(0),
        lambda file: file.sync(),
        lambda file: file.size(),
    ],
    ids=["pread", "pread_nowait", "pwrite", "truncate", "sync", "size"],
)
def test_a_closed_file_is_an_error_of_the_system(tmp_path: Path, call: Callable[[OsFile], object]) -> None:
    file = DISK.open_file(str(tmp_path / "file"), create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        call(file)


def test_a_directory_locked_as_apache_kafka_locks_it_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(AlreadyLocked) as refused:
            DISK.lock(path)
        assert refused.value.pid is None
        other.kill()


def test_our_lock_is_seen_by_apache_kafka(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    lock = DISK.lock(path)
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    tried = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=False)
    lock.release()
    assert "BlockingIOError" in tried.stderr


@pytest.mark.parametrize(("code", "full"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False)])
def test_lack_of_space_is_distinguished_from_other_errors(code: int, full: bool) -> None:
    assert out_of_space(OSError(code, "")) is full


def test_a_disk_that_is_full_can_still_be_locked(tmp_path: Path) -> None:
    class Full(OsFile):
        def pwrite(self, data: Buffer, offset: int) -> None:
            raise OSError(errno.ENOSPC, "full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("storage.disk.OsFile", Full)
        OsDisk().lock(str(tmp_path / "lock")).release()


def test_free_space_is_that_of_the_file_system(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert OsDisk().total_bytes(str(tmp_path)) == found.f_blocks * found.f_frsize
    assert 0 <= OsDisk().free_bytes(str(tmp_path)) <= OsDisk().total_bytes(str(tmp_path))


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(5, "Input/output error", "/data/x"), "/data/x: Input/output error"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (
            OSError("Multiple exceptions: [Errno 111] refused, [Errno -2] unknown"),
            "Multiple exceptions: refused, unknown",
        ),
    ],
)
def test_the_reason_of_an_error_has_no_number(error: OSError, text: str) -> None:
    assert reason(error) == text
