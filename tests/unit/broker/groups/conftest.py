from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.broker.group_node import GroupNode
from tests.unit.broker.node import Node


@pytest.fixture
def group_node(node: Node) -> Iterator[GroupNode]:
    made = GroupNode(node)
    yield made
    made.groups.stop()
    made.settle()
