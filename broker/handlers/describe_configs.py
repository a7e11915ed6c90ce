"""DescribeConfigs: settings of topics and of this broker, and where each is set (KIP-133, KIP-226).

Behaviour
- A topic has all of its configurations, this broker all of its own; the empty broker name has what is altered for all
  brokers, and nothing else. Null or empty keys ask for all of them.
- Another broker's settings are that broker's to tell: INVALID_REQUEST.
- Secrets are never told.

Version notes
- 1 and later return every place that sets a value, if asked.
- 3 and later return types, and documentation if asked (KIP-569).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.configs.described import describe_all_brokers, describe_broker, describe_topic
from controller.image import ResourceType
from controller.topic_names import check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.connection import RequestContext

_Result = DescribeConfigsResponse.Result


def handle(broker: Broker, _context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe every resource that is asked for."""
    results = []
    for resource in request.resources:
        result = _Result(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            result.configs = _describe(broker, resource)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    for result in results:
        for config in result.configs:
            if not request.include_synonyms:
                config.synonyms = []
            if not request.include_documentation:
                config.documentation = None
    return DescribeConfigsResponse(results=results)


def _describe(broker: Broker, resource: DescribeConfigsRequest.Resource) -> list[_Result.Config]:
    image, settings = broker.image, broker.settings
    name, names = resource.resource_name, resource.configuration_keys or None
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return list(describe_topic(image, settings, name, names))
    if resource.resource_type == ResourceType.BROKER:
        if not name:
            return list(describe_all_brokers(image, names))
        _check_own_id(name, broker.node_id)
        return list(describe_broker(image, settings, names))
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}")


def _check_own_id(name: str, node_id: int) -> None:
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id} or empty string, but received {name}",
        )
