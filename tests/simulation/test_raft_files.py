"""A quorum under the simulation's faults, on the metadata log's real files."""

from __future__ import annotations

import os

import pytest

from controller.raft.log import SnapshotId
from controller.snapshot import encode_snapshot
from protocol.records.metadata import ConfigRecord
from tests.simulation import raft_cluster
from tests.simulation.raft_bugs import SIMULATED_MS
from tests.simulation.raft_files import RaftFiles
from tests.simulation.raft_promises import Promises

SEEDS = max(1, int(os.environ.get("BARNABAS_TEST_RAFT_SEEDS", "20")) // 4)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_metadata_log_files_equal_the_model(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def state_at(self: Promises, snapshot: SnapshotId) -> bytes:
        record = ConfigRecord(resource_type=2, resource_name="", name="", value=self.states[snapshot.end_offset][0])
        return b"".join(encode_snapshot([record], epoch=snapshot.epoch, now_ms=0, last_timestamp_ms=0))

    monkeypatch.setattr(raft_cluster, "RaftDisk", RaftFiles)
    monkeypatch.setattr(Promises, "state_at", state_at)
    cluster = raft_cluster.simulate(seed, SIMULATED_MS)
    assert len(cluster.promises.leaders) > 1, "nothing happened that would have tried it"
    assert cluster.promises.committed_end > 100
