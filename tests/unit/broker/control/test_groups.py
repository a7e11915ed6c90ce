"""Groups through the control API, with members that join by requests of the Kafka protocol."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from tests.unit.broker.control.controlled_broker import ControlledBroker
from tests.unit.broker.control.members import OneMember, enter


@pytest.fixture
def member(broker: ControlledBroker) -> OneMember:
    """Return the only member of group g, which has partition 0 of topic t."""
    broker.post("/v1/topics", topic="t", partitions=2)
    found = OneMember(broker, "g")
    enter(found)
    return found


def test_a_group_is_described_with_members_offsets_and_lag(broker: ControlledBroker, member: OneMember) -> None:
    broker.post("/v1/topics/t/records", records=[{"partition": 0, "value": str(number)} for number in range(3)])
    broker.wait(member.commit(1))
    found = broker.get("/v1/groups/g").content
    assert (found["state"], found["generation"], found["protocol"]) == ("Stable", 1, "range")
    assert found["leader"] == member.member_id
    [described] = found["members"]
    assert described["member_id"] == member.member_id
    assert (described["client_id"], described["topics"]) == ("test", ["t"])
    assert described["assignment"] == [{"topic": "t", "partitions": [0]}]
    assert found["offsets"] == [
        {"topic": "t", "partition": 0, "committed": 1, "log_end": 3, "lag": 2},
        {"topic": "t", "partition": 1, "committed": None, "log_end": 0, "lag": 0},
    ]
    assert broker.get("/v1/groups").content == {"groups": [{"group": "g", "state": "Stable", "members": 1}]}


def test_an_unknown_group_is_answered_with_the_known_ones(broker: ControlledBroker, member: OneMember) -> None:
    assert broker.get("/v1/groups/h") == (404, {"message": "there is no group h; there are: g"})


def test_a_forced_rebalance_makes_members_join_again(broker: ControlledBroker, member: OneMember) -> None:
    assert broker.post("/v1/groups/g/rebalance").content["state"] == "PreparingRebalance"
    assert broker.wait(member.heartbeat()) == ErrorCode.REBALANCE_IN_PROGRESS
    assert broker.post("/v1/groups/g/rebalance").status == 200, "a second one changes nothing"
    enter(member)
    assert member.generation == 2


def test_a_group_without_members_has_nothing_to_rebalance(broker: ControlledBroker, member: OneMember) -> None:
    broker.post("/v1/groups/g/expire")
    status, content = broker.post("/v1/groups/g/rebalance")
    assert (status, content["message"]) == (409, "group g is Empty: it has no members to rebalance")


def test_an_expired_session_removes_the_member(broker: ControlledBroker, member: OneMember) -> None:
    assert broker.post("/v1/groups/g/expire", member=member.member_id).content == {"expired": [member.member_id]}
    assert broker.wait(member.heartbeat()) == ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.get("/v1/groups/g").content["state"] == "Empty"


def test_sessions_expire_by_client_id(broker: ControlledBroker, member: OneMember) -> None:
    refused = broker.post("/v1/groups/g/expire", client_id="other")
    assert refused.status == 404
    assert refused.message.startswith(
        f"group g has no such member; it has 1 member: {member.member_id} (client test at"
    )
    assert broker.post("/v1/groups/g/expire", client_id="test").content == {"expired": [member.member_id]}


def test_a_session_does_not_expire_while_a_sync_waits(broker: ControlledBroker, member: OneMember) -> None:
    other = OneMember(broker, "g")

    async def leave_a_sync_waiting() -> None:
        joining = broker.loop.create_task(other.join())
        while await member.heartbeat() == ErrorCode.NONE:
            pass
        joined = await member.join()
        syncing = broker.loop.create_task(other.sync(await joining))
        while not waits():
            await member.heartbeat()
        refused = await broker.ask("POST", "/v1/groups/g/expire", member=other.member_id)
        await member.sync(joined)
        await syncing
        assert refused.status == 409
        assert "the JoinGroup or SyncGroup of" in refused.message

    def waits() -> bool:
        group = broker.broker.groups.shard_of("g").groups["g"]
        return group.members[other.member_id].keeps_session

    broker.wait(leave_a_sync_waiting())
