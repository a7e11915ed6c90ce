from random import Random

import pytest

from broker.data_directories import CannotStart, claim_directories, leave_directories, new_cluster_id
from storage.disk import OsDisk
from storage.log_config import LogConfig
from storage.log_manager import LogManager


def manager(*paths):
    return LogManager(OsDisk(), [str(path) for path in paths], LogConfig(), now_ms=lambda: 0, random=Random(1))


def files(path):
    return {entry.name: entry.read_bytes() for entry in path.iterdir() if entry.name != ".lock"}


def test_new_directories_are_made_one_nodes_with_ids_of_their_own(tmp_path):
    logs = manager(tmp_path / "a", tmp_path / "b")
    identity = claim_directories(logs, 5, Random(1))
    assert identity.is_new
    assert {directory.meta.cluster_id for directory in logs.directories} == {identity.cluster_id}
    assert len({directory.directory_id for directory in logs.directories}) == 2
    leave_directories(logs.directories)


def test_the_identity_is_found_again(tmp_path):
    first = manager(tmp_path)
    created = claim_directories(first, 5, Random(1))
    leave_directories(first.directories)
    second = manager(tmp_path)
    found = claim_directories(second, 5, Random(2))
    assert (found.cluster_id, found.is_new) == (created.cluster_id, False)
    leave_directories(second.directories)


@pytest.mark.parametrize("clean", [True, False])
def test_leaving_puts_the_mark_of_a_clean_stop_back_only_if_it_was_there(tmp_path, clean):
    logs = manager(tmp_path)
    claim_directories(logs, 5, Random(1))
    logs.close(clean=clean, broker_epoch=9)
    before = files(tmp_path)
    logs = manager(tmp_path)
    claim_directories(logs, 5, Random(1))
    leave_directories(logs.directories)
    assert files(tmp_path) == before


def test_a_directory_in_use_is_refused_with_its_holder(tmp_path):
    holder = manager(tmp_path)
    claim_directories(holder, 5, Random(1))
    with pytest.raises(CannotStart, match=r"is in use by process \d+"):
        claim_directories(manager(tmp_path), 5, Random(1))
    leave_directories(holder.directories)


def test_directories_of_two_clusters_are_refused(tmp_path):
    for name in ("a", "b"):
        logs = manager(tmp_path / name)
        claim_directories(logs, 5, Random(name))
        leave_directories(logs.directories)
    with pytest.raises(CannotStart, match="holds data of cluster"):
        claim_directories(manager(tmp_path / "a", tmp_path / "b"), 5, Random(1))


def test_damaged_properties_are_refused(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\n")
    with pytest.raises(CannotStart, match="the data directory cannot be used"):
        claim_directories(manager(tmp_path), 5, Random(1))


def test_no_cluster_id_looks_like_an_option():
    assert not any(new_cluster_id(Random(seed)).startswith("-") for seed in range(2000))
