from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.commands._cluster_files import (
    held,
    identity,
    lock_holder,
    make_private,
    write_identity,
    write_settings,
)
from barnabas.commands._output import WrongCall

LOCK_AND_WAIT = """
import sys
from storage.disk import OsDisk
lock = OsDisk().lock(sys.argv[1], writes_pid=sys.argv[2] == "broker")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(lock: Path, holder: str) -> Iterator[int]:
    """Let another process lock the data, as a broker or as a repair does; yield its id."""
    command = [sys.executable, "-c", LOCK_AND_WAIT, str(lock), holder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        process.communicate()


def test_cluster_id_is_new_until_it_is_written(tmp_path: Path) -> None:
    cluster_id = identity(str(tmp_path), 3)
    assert len(cluster_id) == 22
    assert identity(str(tmp_path), 3) != cluster_id
    write_identity(str(tmp_path), cluster_id, 3)
    assert identity(str(tmp_path), 3) == cluster_id


def test_cluster_id_belongs_to_a_number_of_brokers(tmp_path: Path) -> None:
    write_identity(str(tmp_path), "id", 3)
    with pytest.raises(WrongCall, match="holds a cluster of 3 brokers: use --brokers 3"):
        identity(str(tmp_path), 4)


def test_directory_is_locked_against_a_second_up(tmp_path: Path) -> None:
    place = str(tmp_path / "some" / "where")
    with held(place, 3), pytest.raises(WrongCall, match=r"where is in use by another `barnabas up`"), held(place, 3):
        pass


def test_directories_of_a_cluster_are_private_when_they_are_created_and_keep_their_mode_then(tmp_path: Path) -> None:
    made, data = tmp_path / "made", tmp_path / "made" / "1"
    before = os.umask(0o022)
    try:
        with held(str(made), 1, private=True):
            make_private(str(data))
            assert [stat.S_IMODE(path.stat().st_mode) for path in (made, data)] == [0o700, 0o700]
            data.chmod(0o750)
            make_private(str(data))
            assert stat.S_IMODE(data.stat().st_mode) == 0o750
        with held(str(tmp_path / "plain"), 1):
            assert stat.S_IMODE((tmp_path / "plain").stat().st_mode) == 0o755
    finally:
        os.umask(before)


def test_new_directory_that_stays_empty_is_removed(tmp_path: Path) -> None:
    for place in ("new", "used", "old"):
        (tmp_path / "old").mkdir(exist_ok=True)
        with held(str(tmp_path / place), 3):
            if place == "used":
                write_identity(str(tmp_path / place), "id", 3)
    assert {path.name for path in tmp_path.iterdir()} == {"used", "old"}


def test_running_broker_locks_its_directory(tmp_path: Path) -> None:
    lock = tmp_path / "2" / ".lock"
    lock.parent.mkdir()
    lock.write_text("4711\n")
    with held(str(tmp_path), 3):
        pass
    with locked(lock, "broker") as process:
        message = rf"broker 2 of .* runs already as process {process}"
        with pytest.raises(WrongCall, match=message), held(str(tmp_path), 3):
            pass


def test_cluster_file_without_cluster_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.properties").write_text("# nothing\n")
    with pytest.raises(WrongCall, match="lacks"):
        identity(str(tmp_path), 3)


def test_settings_that_cannot_be_written_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(WrongCall, match=r"no such file or directory; choose another directory with --data-dir DIR$"):
        write_settings(str(tmp_path / "none" / "1.properties"), {})


def test_a_directory_that_cannot_be_made_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, _mode: int, **_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "makedirs", refuse)
    remedy = "mount it for writing, or choose another directory with --data-dir DIR"
    with (
        pytest.raises(WrongCall, match=f"read-only file system; {remedy}$"),
        held(str(tmp_path / "new"), 1),
    ):
        pass


@pytest.mark.parametrize("holder", ["broker", "repair"])
def test_lock_holder_is_a_broker_if_it_wrote_its_process_id(tmp_path: Path, holder: str) -> None:
    lock = tmp_path / ".lock"
    lock.write_text("12345\n")
    assert lock_holder(str(tmp_path)) is None
    with locked(lock, holder) as process:
        assert lock_holder(str(tmp_path)) == (process, holder == "broker")
    assert lock_holder(str(tmp_path)) is None


def test_no_lock_file_has_no_holder(tmp_path: Path) -> None:
    assert lock_holder(str(tmp_path)) is None
