"""Every group response, in every version, equals the one that Apache Kafka sends to the same request.

Each test has its own group names. Intended differences are not tested: FindCoordinator waits for the topic that it
has to create; a commit to a topic that was deleted and created again is not returned for the new one; a protocol that
a member lists twice counts once, where Kafka never responds; and a rejected first join creates no group, where Kafka's
is listed for a while.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from protocol.api import ApiKey
from tests.oracles.both_groups import MISSING, Both
from tests.raw_client import RawClient

TOPIC = "topic"
WIDE = "wide"
NAMES = count()


@pytest.fixture(scope="module")
def brokers(bootstraps: tuple[str, str]) -> Iterator[Both]:
    both = Both(*bootstraps)
    both.create_topic(TOPIC, partitions=2)
    both.create_topic(WIDE, partitions=400)
    for side in both.sides:
        _await_coordinator(side.client("anybody"))
    yield both
    for side in both.sides:
        side.begin()


def _await_coordinator(client: RawClient) -> None:
    deadline = time.monotonic() + 60
    while client.call(ApiKey.FIND_COORDINATOR, 3, key="any", key_type=0).error_code or (
        client.call(ApiKey.OFFSET_FETCH, 7, group_id="any", topics=[]).error_code
    ):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.fixture
def both(brokers: Both) -> Both:
    for side in brokers.sides:
        side.begin()
    return brokers


@pytest.fixture
def group() -> str:
    return f"g{next(NAMES)}."


def alone(both: Both, group: str, **more: Any) -> None:
    """Create a stable group of m1, in generation 1."""
    member = ""
    if more.get("group_instance_id") is None:
        member = both.join("a", group, **more)["member_id"]
    assert both.join("a", group, member, **more)["generation_id"] == 1
    assert both.sync("a", group, "m1", 1, assignments={"m1": b"one"}, **instance(more))["error_code"] == 0


def instance(more: dict[str, Any]) -> dict[str, Any]:
    return {key: more[key] for key in ("group_instance_id",) if key in more}


class TestJoin:
    @pytest.mark.parametrize("version", range(10))
    def test_every_version(self, both: Both, group: str, version: int) -> None:
        first = both.join("a", group, version=version)
        if version >= 4:
            first = both.join("a", group, first["member_id"], version=version)
        assert first["generation_id"] == 1
        assert both.sync("a", group, "m1", 1, assignments={"m1": b"one"})["error_code"] == 0
        both.describe(group)

    @pytest.mark.parametrize("version", [3, 9])
    @pytest.mark.parametrize(
        "wrong",
        [
            {"protocol_type": ""},
            {"protocols": []},
            {"session_timeout_ms": 99},
            {"session_timeout_ms": 1_800_001},
            {"member": "unknown_client"},
            {"member": "unknown_client", "protocols": []},
            {"member": "unknown_client", "session_timeout_ms": 1},
        ],
        ids=repr,
    )
    def test_invalid_joins_of_a_missing_group_are_rejected(
        self, both: Both, group: str, version: int, wrong: dict[str, Any]
    ) -> None:
        assert both.join("a", group, version=version, **wrong)["error_code"]

    @pytest.mark.parametrize("version", range(10))
    def test_a_group_without_a_name(self, both: Both, version: int) -> None:
        assert both.join("a", "", version=version)["error_code"]
        assert both.join("a", "", "member", version=version)["error_code"]

    @pytest.mark.parametrize("version", [3, 5, 9])
    @pytest.mark.parametrize(
        "wrong",
        [
            {"protocol_type": "connect"},
            {"protocol_type": ""},
            {"protocols": []},
            {"protocols": [("roundrobin", b"")]},
            {"member": "unknown_client"},
            {"member": "m1", "protocols": [("roundrobin", b"")]},
        ],
        ids=repr,
    )
    def test_invalid_joins_of_an_existing_group_are_rejected(
        self, both: Both, group: str, version: int, wrong: dict[str, Any]
    ) -> None:
        alone(both, group)
        assert both.join("b", group, version=version, **wrong)["error_code"]

    @pytest.mark.parametrize("version", [5, 9])
    def test_instances_that_are_refused(self, both: Both, group: str, version: int) -> None:
        alone(both, group, group_instance_id="A")
        assert both.join("b", group, "m1", version=version, group_instance_id="B")["error_code"]
        assert both.join("b", group, "unknown_client", version=version, group_instance_id="A")["error_code"]
        assert both.join("b", group, "unknown_client", version=version)["error_code"]

    def test_a_protocol_without_a_name(self, both: Both, group: str) -> None:
        assert both.join("a", group, version=3, protocols=[("", b"x")])["protocol_name"] == ""
        both.sync("a", group, "m1", 1, protocol_name="", assignments={"m1": b"one"})
        both.describe(group)

    def test_a_group_that_is_full(self, both: Both, group: str) -> None:
        states = ["CompletingRebalance", "PreparingRebalance", "PreparingRebalance"]
        for members, (client_name, state) in enumerate(zip("abc", states, strict=True), 1):
            both.join(client_name, group, version=3, waits=True)
            both.until(group, state, members)
        # The first member is alone in generation 1; all three join the next one.
        assert both.receive("a")["generation_id"] == 1
        both.join("a", group, "m1", waits=True, protocols=[("range", b"new")])
        for client_name in "cba":
            both.receive(client_name)
        assert both.join("d", group)["error_code"]
        assert both.join("d", group, version=3)["error_code"]
        assert both.join("d", group, group_instance_id="D")["error_code"]

    def test_protocol_vote_with_different_preferences(self, both: Both, group: str) -> None:
        alone(both, group, protocols=[("range", b"r1"), ("sticky", b"s1")])
        both.join("b", group, version=3, waits=True, protocols=[("sticky", b"s2"), ("range", b"r2")])
        both.until(group, "PreparingRebalance", 2)
        both.join("c", group, version=3, waits=True, protocols=[("sticky", b"s3"), ("range", b"r3")])
        both.until(group, "PreparingRebalance", 3)
        assert both.heartbeat(group, "m1", 1)
        both.join("a", group, "m1", waits=True, protocols=[("range", b"r1"), ("sticky", b"s1")])
        for client_name in "bca":
            assert both.receive(client_name)["protocol_name"] == "sticky"


class TestRejoin:
    def test_a_stable_group(self, both: Both, group: str) -> None:
        alone(both, group)
        member = both.join("b", group)["member_id"]
        both.join("b", group, member, waits=True)
        both.until(group, "PreparingRebalance", 2)
        both.join("a", group, "m1", waits=True)
        assert both.receive("a")["generation_id"] == 2
        both.receive("b")
        both.sync("b", group, member, 2, waits=True)
        both.sync("a", group, "m1", 2, assignments={"m1": b"one", "m2": b"two"})
        both.receive("b")
        both.describe(group)
        # A follower without changes, then the leader.
        assert both.join("b", group, member)["generation_id"] == 2
        both.join("a", group, "m1", waits=True)
        both.until(group, "PreparingRebalance", 2)
        assert both.heartbeat(group, member, 2)
        assert both.sync("b", group, member, 2)["error_code"]
        both.describe(group)
        both.join("b", group, member, waits=True)
        both.receive("b")
        both.receive("a")
        # Before the sync, both receive the same response again.
        both.join("b", group, member)
        both.join("a", group, "m1")
        both.describe(group)

    def test_former_member_of_an_empty_group_is_rejected(self, both: Both, group: str) -> None:
        alone(both, group)
        both.leave(group, ("m1", None))
        both.describe(group)
        assert both.join("a", group, "m1")["error_code"]
        assert both.sync("a", group, "m1", 1)["error_code"]
        assert both.heartbeat(group, "m1", 1)
        assert both.leave(group, ("m1", None))
        # A different protocol type.
        both.join("a", group, version=3, protocol_type="connect", protocols=[("default", b"")])
        both.describe(group)


class TestStaticMembers:
    @pytest.mark.parametrize("version", [5, 8, 9])
    def test_restarted_static_member(self, both: Both, group: str, version: int) -> None:
        alone(both, group, group_instance_id="A")
        assert both.join("a2", group, version=version, group_instance_id="A")["member_id"] == "m2"
        assert both.sync("a2", group, "m2", 1, group_instance_id="A")["assignment"] == b"one"
        assert both.heartbeat(group, "m1", 1, group_instance_id="A")
        assert both.heartbeat(group, "m1", 1)
        assert both.heartbeat(group, "m2", 1, group_instance_id="B")
        both.heartbeat(group, "m2", 1)
        assert both.join("a", group, "m1", group_instance_id="A")["error_code"]
        assert both.sync("a", group, "m1", 1, group_instance_id="A")["error_code"]
        assert both.commit(group, {TOPIC: {0: 1}}, member="m1", generation_id_or_member_epoch=1, group_instance_id="A")
        both.leave(group, ("m1", "A"), ("m2", "B"), ("m9", None), ("", "B"), ("", None))
        both.describe(group)
        both.leave(group, ("", "A"))
        both.describe(group)

    def test_static_member_restarted_while_it_waits(self, both: Both, group: str) -> None:
        alone(both, group, group_instance_id="A")
        both.join("b", group, version=5, group_instance_id="B", waits=True)
        both.until(group, "PreparingRebalance", 2)
        both.join("b2", group, version=5, group_instance_id="B", waits=True)
        assert both.receive("b")["error_code"]
        both.join("a", group, "m1", group_instance_id="A", waits=True)
        both.receive("b2")
        both.receive("a")
        both.sync("b2", group, "m3", 2, group_instance_id="B", waits=True)
        time.sleep(0.05)  # no response shows that the member waits for an assignment
        both.join("b3", group, group_instance_id="B", waits=True)
        assert both.receive("b2")["error_code"]
        both.describe(group)

    def test_another_protocol_than_before(self, both: Both, group: str) -> None:
        alone(both, group, group_instance_id="A", protocols=[("range", b"x"), ("sticky", b"y")])
        both.join("a2", group, group_instance_id="A", protocols=[("sticky", b"y"), ("range", b"x")], waits=True)
        assert both.receive("a2")["generation_id"] == 2


class TestSync:
    @pytest.mark.parametrize("version", range(6))
    def test_every_version(self, both: Both, group: str, version: int) -> None:
        member = both.join("a", group)["member_id"]
        both.join("a", group, member)
        assert both.sync("a", group, "m1", 0, version=version)["error_code"]
        assert both.sync("a", group, "unknown_client", 1, version=version)["error_code"]
        assert both.sync("a", "no group", "m1", 1, version=version)["error_code"]
        assert both.sync("a", "", "m1", 1, version=version)["error_code"]
        # Assignments to unknown members are ignored; a member without an assignment receives an empty one.
        assert (
            both.sync("a", group, "m1", 1, version=version, assignments={"unknown_client": b"?"})["assignment"] == b""
        )
        both.sync("a", group, "m1", 1, version=version)

    @pytest.mark.parametrize("name", [None, "", "sticky"])
    @pytest.mark.parametrize("kind", [None, "", "consumer", "connect"])
    def test_sync_with_another_protocol(self, both: Both, group: str, kind: str | None, name: str | None) -> None:
        alone(both, group)
        both.sync("a", group, "m1", 1, protocol_type=kind, protocol_name=name)

    def test_more_than_a_record_can_hold(self, both: Both, group: str) -> None:
        member = both.join("a", group)["member_id"]
        both.join("a", group, member)
        assert both.sync("a", group, "m1", 1, assignments={"m1": bytes(2 << 20)})["error_code"]
        # The leader received the error and joins again.
        both.describe(group)
        assert both.heartbeat(group, "m1", 1)
        assert both.join("a", group, member)["generation_id"] == 2
        assert both.sync("a", group, "m1", 2, assignments={"m1": b"one"})["assignment"] == b"one"


class TestHeartbeat:
    @pytest.mark.parametrize("version", range(5))
    def test_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        assert both.heartbeat(group, "m1", 1, version=version) == 0
        assert both.heartbeat(group, "m1", 0, version=version)
        assert both.heartbeat(group, "m1", -1, version=version)
        assert both.heartbeat(group, "unknown_client", 1, version=version)
        assert both.heartbeat(group, "", -1, version=version)
        assert both.heartbeat("no group", "m1", 1, version=version)
        assert both.heartbeat("", "m1", 1, version=version)


class TestLeave:
    @pytest.mark.parametrize("version", range(6))
    def test_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        pending = both.join("b", group)["member_id"]
        both.leave(group, ("unknown_client", None), version=version)
        both.leave(group, (pending, None), version=version)
        both.leave(group, (pending, None), version=version)
        both.leave("no group", ("m1", None), version=version)
        both.leave("", ("m1", None), version=version)
        both.leave(group, ("m1", None), version=version)
        both.leave(group, ("m1", None), version=version)
        both.describe(group)

    @pytest.mark.parametrize("version", [3, 5])
    def test_several(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        pending = both.join("b", group)["member_id"]
        both.leave(group, version=version)
        both.leave(group, ("m1", None), ("m1", None), (pending, None), ("", None), ("", "B"), version=version)
        both.describe(group)

    def test_member_that_waits_for_a_join_leaves(self, both: Both, group: str) -> None:
        alone(both, group)
        member = both.join("b", group)["member_id"]
        both.join("b", group, member, waits=True)
        both.until(group, "PreparingRebalance", 2)
        both.leave(group, (member, None))
        assert both.receive("b")["error_code"]
        both.describe(group)


class TestOffsets:
    @pytest.mark.parametrize("version", range(2, 11))
    def test_commits_in_every_version(self, both: Both, group: str, version: int) -> None:
        both.commit(group, {TOPIC: {0: 5, 9: 5}, MISSING: {0: 5}}, version=version)
        both.commit(group, {TOPIC: {1: 6}}, version=version, metadata="x" * 4097)
        both.commit(group, {TOPIC: {1: 6}}, version=version, metadata="x" * 4096)
        both.commit(group, {TOPIC: {0: 7}}, version=version, metadata=None)
        both.commit(group, {}, version=version)
        both.commit("", {TOPIC: {0: 7}}, version=version)
        both.fetch(group)
        for generation in (0, 1):
            both.commit("no group", {TOPIC: {0: 5}}, version=version, generation_id_or_member_epoch=generation)
            both.commit(group, {TOPIC: {0: 5}}, version=version, generation_id_or_member_epoch=generation)
        both.commit(group, {TOPIC: {0: 8}}, version=version, member="unknown_client")
        both.describe(group)
        both.fetch(group)

    @pytest.mark.parametrize("version", range(2, 11))
    def test_commits_of_members_in_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        for generation in (-1, 0, 1, 2):
            for member in ("", "m1", "unknown_client"):
                both.commit(
                    group, {TOPIC: {0: 5}}, version=version, member=member, generation_id_or_member_epoch=generation
                )
        member = both.join("b", group)["member_id"]
        both.join("b", group, member, waits=True)
        both.until(group, "PreparingRebalance", 2)
        both.commit(group, {TOPIC: {0: 6}}, version=version, member="m1", generation_id_or_member_epoch=1)
        both.join("a", group, "m1")
        both.receive("b")
        both.commit(group, {TOPIC: {0: 7}}, version=version, member="m1", generation_id_or_member_epoch=1)
        both.commit(group, {TOPIC: {0: 7}}, version=version, member="m1", generation_id_or_member_epoch=2)
        both.commit(group, {TOPIC: {0: 7}}, version=version)
        both.fetch(group)

    @pytest.mark.parametrize("version", range(1, 11))
    def test_fetches_in_every_version(self, both: Both, group: str, version: int) -> None:
        both.commit(group, {TOPIC: {0: 5}})
        both.fetch(group, topics={TOPIC: [0, 1, 9], MISSING: [0]}, version=version)
        both.fetch(group, topics={TOPIC: []}, version=version)
        both.fetch(group, topics={}, version=version)
        both.fetch("no group", topics={TOPIC: [0]}, version=version)
        both.fetch("", topics={MISSING: [0]}, version=version)
        if version >= 2:
            both.fetch(group, version=version)
            both.fetch("no group", version=version)
        if version >= 7:
            both.fetch(group, topics={TOPIC: [0, 1]}, version=version, require_stable=True)
        if version >= 8:
            both.fetch(group, "no group", group, topics={TOPIC: [0]}, version=version)
            both.fetch(version=version)

    def test_more_than_a_batch_can_hold(self, both: Both, group: str) -> None:
        answer = both.commit(group, {WIDE: dict.fromkeys(range(400), 5)}, metadata="x" * 4096)
        assert answer["topics"][0]["partitions"][0]["error_code"]
        both.fetch(group)
        both.describe(group)

    def test_deletions(self, both: Both, group: str) -> None:
        both.delete_offsets("no group", {TOPIC: [0]})
        both.delete_offsets("no group", {})
        both.delete_offsets("no group", {MISSING: [0]})
        both.delete_offsets("", {TOPIC: [0]})
        both.commit(group, {TOPIC: {0: 5}})
        both.delete_offsets(group, {TOPIC: [0, 1, 9], MISSING: [0]})
        both.fetch(group)

    @pytest.mark.parametrize(
        ("kind", "metadata"),
        [
            ("consumer", b"x"),
            ("consumer", b"\x00\x01\x00\x00\x00\x01\x00\x05topic\x00\x00\x00\x00"),
            ("consumer", b"\x00\x01\x00\x00\x00\x01\x00\x05other\x00\x00\x00\x00"),
            ("connect", b"x"),
        ],
    )
    def test_deletions_where_there_are_members(self, both: Both, group: str, kind: str, metadata: bytes) -> None:
        both.commit(group, {TOPIC: {0: 5}})
        both.join("a", group, version=3, protocol_type=kind, protocols=[("range", metadata)])
        both.delete_offsets(group, {TOPIC: [0]})
        both.sync("a", group, "m1", 1, protocol_type=kind)
        both.delete_offsets(group, {TOPIC: [0, 1]})
        both.fetch(group)


class TestAdministration:
    @pytest.mark.parametrize("version", range(7))
    def test_descriptions_in_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        both.commit(f"{group} simple", {TOPIC: {0: 5}})
        both.describe(group, f"{group} simple", "no group", "", group, version=version)
        both.describe(version=version)
        if version >= 3:
            both.describe(group, "no group", version=version, operations=True)

    def test_descriptions_of_pending_members(self, both: Both, group: str) -> None:
        both.join("a", group)
        both.describe(group)

    @pytest.mark.parametrize("version", range(6))
    def test_lists_in_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        both.commit(f"{group} simple", {TOPIC: {0: 5}})
        assert len(both.list(group, version)) == 2
        if version >= 4:
            for states in (["Stable"], ["stable", "EMPTY"], ["PreparingRebalance"], ["?"], [""]):
                both.list(group, version, states_filter=states)
        if version >= 5:
            for types in (["classic"], ["Classic", "consumer"], ["share"], ["?"], [""]):
                both.list(group, version, types_filter=types)

    @pytest.mark.parametrize("version", range(3))
    def test_deletions_in_every_version(self, both: Both, group: str, version: int) -> None:
        alone(both, group)
        both.commit(f"{group} simple", {TOPIC: {0: 5}})
        both.delete(group, f"{group} simple", "no group", "", version=version)
        both.delete(f"{group} simple", version=version)
        both.fetch(f"{group} simple")
        both.leave(group, ("m1", None))
        both.delete(group, group, version=version)
        both.delete(version=version)
        both.describe(group)
