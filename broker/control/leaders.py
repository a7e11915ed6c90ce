"""Leaders of partitions, moved by the active controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from broker.control.api_problem import conflict, misdirected, not_found
from broker.control.bodies import NumberRange
from controller.commands.move_leader import move_leader as move
from protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.control.control import Control


class LeaderBody(NamedTuple):
    """A partition, and the broker that is to lead it."""

    topic: str
    partition: Annotated[int, NumberRange(0)]
    leader: int


async def move_leader(control: Control, body: LeaderBody) -> dict[str, Any]:
    """Let a replica in sync lead a partition; return once that is committed."""
    raft = control.node.shared.raft
    if not raft.leads:
        raise misdirected("the active controller", raft.leader_id)
    try:
        await raft.submit(partial(move, topic_name=body.topic, index=body.partition, leader=body.leader))
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise misdirected("the active controller", raft.leader_id) from error
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise not_found(error.message) from error
        raise conflict(error.message) from error
    state = raft.image.partition(body.topic, body.partition)
    return {} if state is None else {"leader": state.leader, "leader_epoch": state.leader_epoch}
