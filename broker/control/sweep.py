"""The sweep after a test: it deletes the topics, the groups, with their members, and the faults that the test left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from broker.control.api_problem import bad_request
from broker.control.topics import delete_topics
from broker.control.transactions import abort_all
from broker.coordinator.group.context import Leaving
from controller.topic_names import INTERNAL_TOPICS
from protocol.errors import KafkaError

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.coordinator.group.classic_group import ClassicGroup


class SweepBody(NamedTuple):
    """What to delete: topics and groups by name or by a prefix; or all but what is to be kept, and all faults."""

    topics: list[str] | None = None
    groups: list[str] | None = None
    prefix: str | None = None
    keep_topics: list[str] | None = None
    keep_groups: list[str] | None = None


async def list_swept(control: Control) -> dict[str, Any]:
    """Return what a sweep that keeps nothing deletes: topics, except internal ones, and the groups coordinated here."""
    broker = control.broker
    return {
        "topics": [topic.name for topic in broker.image.topics() if topic.name not in INTERNAL_TOPICS],
        "groups": [group.group_id for group in _groups(broker)],
    }


async def sweep(control: Control, body: SweepBody) -> dict[str, Any]:
    """Delete topics, except internal ones, and the groups that this broker coordinates; return what there was."""
    if all(field is None for field in body):
        raise bad_request("name topics, groups or a prefix to delete, or topics and groups to keep")
    broker = control.broker
    faults, transactions = 0, list[str]()
    if _keeps(body):
        faults = control.heal()  # first: the rest must not wait behind a fault
        transactions = await abort_all(broker)
    topics = [
        topic.name for topic in broker.image.topics() if _is_swept(topic.name, body.topics, body.keep_topics, body)
    ]
    if topics := [name for name in topics if name not in INTERNAL_TOPICS]:
        await delete_topics(broker, topics)
    groups = {
        group.group_id: sorted({member.client_id for member in group.members.values()})
        for group in _groups(broker)
        if _is_swept(group.group_id, body.groups, body.keep_groups, body)
    }
    for group_id in groups:
        await _delete_group(broker, group_id)
    if _keeps(body):
        control.transcript.clear()
    return {"topics": topics, "groups": groups, "transactions": transactions, "faults": faults}


def _keeps(body: SweepBody) -> bool:
    """Return whether everything goes but what is to be kept."""
    return body.keep_topics is not None or body.keep_groups is not None


def _is_swept(name: str, named: list[str] | None, kept: list[str] | None, body: SweepBody) -> bool:
    if _keeps(body):
        return name not in (kept or ())
    return name in (named or ()) or (body.prefix is not None and name.startswith(body.prefix))


def _groups(broker: BrokerServer) -> list[ClassicGroup]:
    """Return the groups that this broker coordinates."""
    coordinator = broker.group_coordinator
    shards = () if coordinator is None else coordinator.runtime.active_shards()
    return [group for shard in shards for group in shard.groups.values()]


async def _delete_group(broker: BrokerServer, group_id: str) -> None:
    """Remove the members of a group, then delete it; one whose coordinator moves meanwhile is left."""
    with suppress(KafkaError):
        group = broker.groups.shard_of(group_id).groups[group_id]
        reason = "swept after a test"
        members = [Leaving(one.member_id, one.instance_id, reason) for one in group.members.values()]
        members += [Leaving(member_id, None, reason) for member_id in group.pending]
        if members:
            left = broker.groups.leave(group_id, members)
            if isinstance(left, asyncio.Future):
                await left
        deleted = broker.groups.delete_group(group_id)
        if isinstance(deleted, asyncio.Future):
            await deleted
