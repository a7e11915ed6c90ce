from __future__ import annotations

import json
from types import SimpleNamespace

from barnabas.commands.cluster.quorum import describe, silent_voters
from tests.unit.barnabas.conftest import Command, Halved


def test_the_quorum_is_shown(barnabas: Command) -> None:
    quorum = json.loads(barnabas("cluster", "quorum", "--json").out)
    assert quorum["leader"] == 1
    (node,) = quorum["nodes"]
    assert (node["node"], node["status"], node["lag"]) == (1, "leader", 0)
    assert len(node["directory"]) == 22
    assert barnabas("cluster", "quorum").lines[-1].split()[:2] == ["1", "leader"]


def test_values_that_the_leader_has_not_received_are_null() -> None:
    contacted = {"replica_id": 1, "log_end_offset": 300, "last_caught_up_timestamp": 5}
    not_contacted = {"replica_id": 2, "log_end_offset": -1, "last_caught_up_timestamp": -1}
    partition = {"error": None, "leader_id": 1, "leader_epoch": 4, "high_watermark": 299}
    partition |= {"current_voters": [contacted, not_contacted], "observers": []}  # type: ignore[dict-item]  # only this comes here
    quorum = describe(SimpleNamespace(describe_metadata_quorum=lambda: {"topics": [{"partitions": [partition]}]}))  # type: ignore[arg-type]  # stands in for Admin
    assert [(node["log_end"], node["lag"], node["caught_up_timestamp"]) for node in quorum["nodes"]][1] == (
        None,
        None,
        None,
    )


def test_a_voter_that_has_not_fetched_for_5_s_is_silent() -> None:
    nodes = [
        {"replica_id": node, "log_end_offset": 9, "last_caught_up_timestamp": 5, "last_fetch_timestamp": fetched_ms}
        for node, fetched_ms in ((1, 60_000), (2, 55_001), (3, 55_000), (4, -1))
    ]
    partition = {"error": None, "leader_id": 1, "leader_epoch": 4, "high_watermark": 9}
    partition |= {"current_voters": nodes, "observers": []}  # type: ignore[dict-item]  # only this comes here
    quorum = describe(SimpleNamespace(describe_metadata_quorum=lambda: {"topics": [{"partitions": [partition]}]}))  # type: ignore[arg-type]  # stands in for Admin
    assert silent_voters(quorum) == [
        "controller 3 has not fetched for more than 5 s",
        "controller 4 does not run, or node 1 cannot be reached from it",
    ]


def test_lost_quorum_is_reported(call: Command, halved: Halved) -> None:
    assert call("cluster", "quorum", "-b", halved.alive) == (
        1,
        "",
        "barnabas cluster quorum: no controller answers: it takes more than half of the nodes 1; none can be reached\n",
    )
