from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from broker.log_dirs.ownership import (
    CannotStart,
    Identity,
    claim_directories,
    format_directories,
    new_cluster_id,
    release_directories,
)
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.disks import FaultyDisk
from tests.typed import present


def manager(*paths: Path) -> LogManager:
    return LogManager(OsDisk(), [str(path) for path in paths], LogConfig(), now_ms=lambda: 0, random=Random(1))


def claimed_and_marked(logs: LogManager, node_id: int, random: Random) -> Identity:
    identity = claim_directories(logs, node_id, random)
    format_directories(logs, identity.cluster_id, node_id)
    return identity


def files(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.name != ".lock"}


def test_new_directories_get_one_node_id_and_distinct_directory_ids(tmp_path: Path) -> None:
    logs = manager(tmp_path / "a", tmp_path / "b")
    identity = claimed_and_marked(logs, 5, Random(1))
    assert identity.is_new
    assert {present(directory.meta).cluster_id for directory in logs.directories} == {identity.cluster_id}
    assert len({directory.directory_id for directory in logs.directories}) == 2
    release_directories(logs.directories)


def test_identity_is_read_at_next_start(tmp_path: Path) -> None:
    first = manager(tmp_path)
    created = claimed_and_marked(first, 5, Random(1))
    release_directories(first.directories)
    second = manager(tmp_path)
    found = claimed_and_marked(second, 5, Random(2))
    assert (found.cluster_id, found.is_new) == (created.cluster_id, False)
    release_directories(second.directories)


@pytest.mark.parametrize("clean", [True, False])
def test_release_restores_clean_shutdown_file_only_if_it_existed(tmp_path: Path, clean: bool) -> None:
    logs = manager(tmp_path)
    claimed_and_marked(logs, 5, Random(1))
    logs.close(clean=clean, broker_epoch=9)
    before = files(tmp_path)
    logs = manager(tmp_path)
    claimed_and_marked(logs, 5, Random(1))
    release_directories(logs.directories)
    assert files(tmp_path) == before


def test_a_directory_in_use_is_refused_with_its_holder(tmp_path: Path) -> None:
    holder = manager(tmp_path)
    claimed_and_marked(holder, 5, Random(1))
    with pytest.raises(CannotStart, match=r"is in use by process \d+"):
        claimed_and_marked(manager(tmp_path), 5, Random(1))
    release_directories(holder.directories)


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        logs = manager(tmp_path / name)
        claimed_and_marked(logs, 5, Random(name))
        release_directories(logs.directories)
    with pytest.raises(CannotStart, match=r"has cluster\.id="):
        claimed_and_marked(manager(tmp_path / "a", tmp_path / "b"), 5, Random(1))


def test_damaged_properties_are_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(CannotStart, match="the data directory cannot be used"):
        claimed_and_marked(manager(tmp_path), 5, Random(1))


def test_no_cluster_id_looks_like_an_option() -> None:
    assert not any(new_cluster_id(Random(seed)).startswith("-") for seed in range(2000))


def test_new_directory_stays_new_after_release(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    assert claim_directories(logs, 5, Random(1)).is_new
    release_directories(logs.directories)
    assert files(tmp_path) == {}
    again = manager(tmp_path)
    assert claim_directories(again, 5, Random(1)).is_new
    release_directories(again.directories)


def test_file_in_place_of_directory_is_named_in_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(CannotStart, match=r"file is a file, not a directory$"):
        claim_directories(manager(file), 5, Random(1))
    with pytest.raises(CannotStart, match=r"file/inside is not a directory$"):
        claim_directories(manager(file / "inside"), 5, Random(1))


@pytest.mark.parametrize("name", ["t-0", "__cluster_metadata-0"])
def test_logs_without_meta_properties_are_refused_and_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / "old" / name).mkdir(parents=True)
    with pytest.raises(CannotStart, match=f"old holds logs, such as {name}, but no meta.properties: restore that file"):
        claim_directories(manager(tmp_path / "new", tmp_path / "old"), 5, Random(1))
    assert sorted(path.name for path in (tmp_path / "old").iterdir()) == [".lock", name]


def test_parent_of_other_nodes_directories_is_refused_and_kept(tmp_path: Path) -> None:
    for node_id in (1, 2):
        logs = manager(tmp_path / str(node_id))
        claimed_and_marked(logs, node_id, Random(1))
        release_directories(logs.directories)
    with pytest.raises(CannotStart, match=rf"{tmp_path} holds other data directories, such as {tmp_path}/1: "):
        claim_directories(manager(tmp_path), 1, Random(1))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "1", "2"]


def test_a_data_directory_may_hold_another_one(tmp_path: Path) -> None:
    logs = manager(tmp_path, tmp_path / "second")
    claimed_and_marked(logs, 1, Random(1))
    release_directories(logs.directories)
    again = manager(tmp_path, tmp_path / "second")
    assert not claimed_and_marked(again, 1, Random(1)).is_new
    release_directories(again.directories)


def test_directory_that_cannot_be_created_is_named_with_reason(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to("/proc/nothing")
    with pytest.raises(
        CannotStart, match=r"cannot be used: \S+/nowhere/data: No such file or directory; check the path and"
    ):
        claim_directories(manager(tmp_path / "nowhere" / "data"), 5, Random(1))


def test_unwritable_directory_is_refused_with_remedy(tmp_path: Path) -> None:
    disk = FaultyDisk()
    logs = LogManager(disk, [str(tmp_path)], LogConfig(), now_ms=lambda: 0, random=Random(1))
    disk.arm("create", errno.EROFS)
    with pytest.raises(CannotStart) as refused:
        claim_directories(logs, 5, Random(1))
    assert str(refused.value) == (
        f"the data directory cannot be used: {tmp_path}: Read-only file system; mount its file system for writing, "
        "or choose another directory"
    )
