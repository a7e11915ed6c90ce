from __future__ import annotations

import os
from pathlib import Path

import pytest

from barnabas.testing import Cluster, ClusterError
from barnabas.testing.snapshot import place, read, take

LARGE = b"x" * (1 << 20)


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_restored_cluster_has_the_data_of_the_snapshot(brokers: int) -> None:
    with Cluster(brokers) as cluster:
        topic = cluster.topic(partitions=3)
        topic.produce(["a", "b", "c"])
        snapshot = cluster.snapshot()
        topic.produce(["d"])
        cluster.topic("later")
        for _ in range(2):
            cluster.restore(snapshot)
            assert len(topic.records()) == 3
            assert cluster.existing().topics == [topic.name]
            topic.produce(["e"])
            assert len(topic.records()) == 4


def test_a_snapshot_has_no_deleted_logs_of_which_the_broker_still_has_the_files() -> None:
    with Cluster() as cluster:
        cluster.topic("gone").delete()
        kept = cluster.topic("kept")
        assert [path.name.partition(".")[0] for path in cluster.brokers[0].data_dir.glob("*-delete")] == ["gone-0"]
        snapshot = cluster.snapshot()
        assert {path.name for path in (snapshot.directory / "1").iterdir() if path.is_dir()} == {
            "__cluster_metadata-0",
            "kept-0",
        }
        cluster.restore(snapshot)
        assert cluster.existing().topics == [kept.name]


@pytest.mark.parametrize("name", ["directory", "file.tar.gz"])
def test_a_cluster_begins_as_a_snapshot_in_a_repository(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with Cluster(3) as cluster:
        topic = cluster.topic()
        topic.produce([{"value": "old", "timestamp_ms": 1}])
        cluster.snapshot(path)
    for _ in range(2):  # what the first cluster writes does not reach the snapshot
        with Cluster(snapshot=path) as cluster:
            assert len(cluster.brokers) == 3
            again = cluster.topic(topic.name, create=False)
            assert [record.value for record in again.expect(1)] == [b"old"]
            again.produce(["new"])
    with pytest.raises(ClusterError, match="the snapshot has the data of 3 brokers, the cluster has 1"):
        Cluster(1, snapshot=path).start()
    with pytest.raises(ClusterError, match="1 exists: a cluster that begins as a snapshot needs an empty directory"):
        Cluster(directory=path if name == "directory" else used(tmp_path), snapshot=path).start()


def used(tmp_path: Path) -> Path:
    (tmp_path / "used" / "1").mkdir(parents=True)
    return tmp_path / "used"


def data(directory: Path, **files: bytes) -> Path:
    """Write a broker's directory with one partition."""
    partition = directory / "t-0"
    partition.mkdir(parents=True)
    (directory / ".lock").write_text("1")
    for name, content in files.items():
        (partition / name.replace("_", ".")).write_bytes(content)
    return directory


def test_only_large_segments_that_are_not_the_last_are_shared(tmp_path: Path) -> None:
    source = data(tmp_path / "1", a_log=LARGE, a_index=LARGE, b_log=b"small", c_log=LARGE)
    taken = take([source], tmp_path / "taken", link=True)
    assert list(taken.links) == ["1/t-0/a.log"]
    copied = {path.name: path.samefile(source / "t-0" / path.name) for path in (tmp_path / "taken/1/t-0").iterdir()}
    assert copied == {"a.log": True, "a.index": False, "b.log": False, "c.log": False}
    assert not (tmp_path / "taken" / "1" / ".lock").exists()
    assert read(tmp_path / "taken", tmp_path) == taken
    place(taken, [source])
    assert (source / "t-0" / "c.log").read_bytes() == LARGE


def test_a_snapshot_of_which_a_broker_truncated_a_shared_segment_is_refused(tmp_path: Path) -> None:
    source = data(tmp_path / "1", a_log=LARGE, b_log=b"")
    taken = take([source], tmp_path / "taken", link=True)
    os.truncate(source / "t-0" / "a.log", 5)
    with pytest.raises(ClusterError, match=r"a broker has truncated 1/t-0/a\.log of the snapshot"):
        place(taken, [source])


def test_an_archive_depends_on_the_data_only_and_shares_nothing(tmp_path: Path) -> None:
    source = data(tmp_path / "1", a_log=LARGE, b_log=b"b")
    for name in ("first.tar.gz", "second.tgz"):
        assert take([source], tmp_path / name, link=True).links == {}
        os.utime(source / "t-0" / "a.log", (1, 1))
    assert (tmp_path / "first.tar.gz").read_bytes() == (tmp_path / "second.tgz").read_bytes()
    found = read(tmp_path / "first.tar.gz", tmp_path)
    assert (found.directory / "1" / "t-0" / "a.log").read_bytes() == LARGE


def test_a_snapshot_is_not_written_over_another(tmp_path: Path) -> None:
    source = data(tmp_path / "1", a_log=b"a")
    take([source], tmp_path / "taken", link=False)
    with pytest.raises(ClusterError, match="taken is not empty: choose another place"):
        take([source], tmp_path / "taken", link=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "is no snapshot: "),
        (None, r"there is no snapshot .*x\.tar\.gz: one that was taken without a path ends with its cluster"),
    ],
)
def test_what_is_no_snapshot_is_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tar.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ClusterError, match=message):
        read(path, tmp_path)


def test_a_snapshot_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text('{"format": 2, "brokers": 1, "links": {}}')
    with pytest.raises(ClusterError, match="another version of Barnabas, with format 2; this version reads format 1"):
        read(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (None, "is no snapshot: it has no snapshot.json"),
        ("{", r"is no snapshot: its snapshot\.json is damaged: "),
        ("[]", "of another version of Barnabas, with format None; "),
        ('{"format": 1, "brokers": 1}', r"is no snapshot: its snapshot\.json has no links"),
        ('{"format": 1, "brokers": 2, "links": {}}', "the data of 2 brokers, the cluster has 1: .* with brokers=2,"),
        ('{"format": 1, "brokers": 1, "links": {}}', "1 is missing in the snapshot .*: take the snapshot again"),
    ],
)
def test_a_damaged_snapshot_is_refused(manifest: str | None, message: str, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    if manifest is not None:
        (taken / "snapshot.json").write_text(manifest)
    with pytest.raises(ClusterError, match=message):
        place(read(taken, tmp_path), [tmp_path / "1"])
    assert not (tmp_path / "1").exists()
