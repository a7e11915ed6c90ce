"""DescribeConfigs: settings of topics, brokers, loggers, groups and client metrics, with their sources (KIP-133).

Behaviour
- A topic and this broker have all of their configurations; the empty broker name has only the dynamic defaults of all
  brokers. A null or empty list of keys selects all.
- A group and a client metrics subscription have all of their configurations, whether they exist or not.
- INVALID_REQUEST for another broker's settings or loggers.
- Values of sensitive settings are not returned.

Version notes
- 1 and later return every source that sets a value, if requested (KIP-226).
- 3 and later return types, and documentation if requested (KIP-569).
"""

from collections.abc import Iterable

from broker.network.connection import RequestContext
from broker.shared_server import RoleServer
from controller.configs.described import (
    Described,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from controller.configs.effective import ConfigSource
from controller.image import ResourceType
from controller.topic_names import check_topic_name
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

_Result = DescribeConfigsResponse.Result


def handle(server: RoleServer, _context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Return the settings of each requested resource."""
    results = []
    for resource in request.resources:
        result = _Result(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            result.configs = list(_describe(server, resource))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    for result in results:
        for config in result.configs:
            if not request.include_synonyms:
                config.synonyms = []
            if not request.include_documentation and config.documentation:
                config.documentation = None
    return DescribeConfigsResponse(results=results)


def _describe(server: RoleServer, resource: DescribeConfigsRequest.Resource) -> Iterable[Described]:
    image, settings = server.image, server.settings
    kind, name, names = resource.resource_type, resource.resource_name, resource.configuration_keys or None
    if kind == ResourceType.TOPIC:
        check_topic_name(name)
        if image.topic(name) is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(image, settings, name, names)
    if kind == ResourceType.BROKER:
        if not name:
            return describe_all_brokers(image, names)
        _check_own_id(name, server.node_id, " or empty string,")
        return describe_broker(image, settings, names)
    if kind == ResourceType.BROKER_LOGGER:
        _check_given(name, "Broker id")
        _check_own_id(name, server.node_id)
        return _describe_loggers(names)
    if kind == ResourceType.CLIENT_METRICS:
        _check_given(name, "Client metrics subscription name")
        return describe_client_metrics(image, name, names)
    if kind == ResourceType.GROUP:
        _check_given(name, "Group name")
        return describe_group(image, settings, name, names)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {kind} for resource {name}")


def _describe_loggers(names: list[str] | None) -> Iterable[Described]:
    from broker.runtime import loggers

    return (
        Described(
            name=name,
            value=level,
            read_only=False,
            config_source=ConfigSource.BROKER_LOGGER,
            is_sensitive=False,
            synonyms=[],
            documentation="",
        )
        for name, level in loggers.levels().items()
        if names is None or name in names
    )


def _check_given(name: str, what: str) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{what} must not be empty")


def _check_own_id(name: str, node_id: int, or_else: str = "") -> None:
    if not name.removeprefix("-").isdecimal():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(node_id):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}{or_else} but received {name}"
        )
