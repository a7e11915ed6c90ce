"""Topics created by the controller, for tests of topic metadata."""

from __future__ import annotations

from functools import partial
from typing import Any

from controller.commands.topics import create_topics
from protocol.messages.create_topics import CreateTopicsRequest
from tests.unit.broker.controller_node import ControllerNode
from tests.unit.broker.metadata.raft_rig import RaftRig
from tests.unit.controller.cluster import new_topic


def create(node: ControllerNode | RaftRig, name: str, *counts: int, **options: Any) -> bytes:
    """Create a topic as `new_topic` describes it; return its id."""
    request = CreateTopicsRequest(topics=[new_topic(name, *counts, **options)])
    command = partial(create_topics, request=request, settings=node.settings, random=node.random)
    [answer] = node.wait(node.raft.submit(command)).topics
    assert answer.error_code == 0, answer.error_message
    topic_id: bytes = answer.topic_id
    return topic_id
