"""Alter configs through the handler."""

from __future__ import annotations

from typing import Any

from protocol.api import ApiKey
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.unit.broker.controller_node import ControllerNode

SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(
    node: ControllerNode, kind: int, name: str, *operations: tuple[str, int, str | None], **more: Any
) -> tuple[int, str | None]:
    """Apply (name, operation, value) triples to one resource; return the error code and message."""
    Resource = IncrementalAlterConfigsRequest.Resource  # noqa: N806
    configs = [Resource.Config(name=key, config_operation=how, value=value) for key, how, value in operations]
    resource = Resource(resource_type=kind, resource_name=name, configs=configs)
    fields = {"version": 1, "validate_only": False, **more}
    version = fields.pop("version")
    [answer] = node.query(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], **fields).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code, answer.error_message
