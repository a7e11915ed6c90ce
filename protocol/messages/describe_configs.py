"""DescribeConfigs: list settings with their sources and documentation.

Version notes: 1 added sources and synonyms (KIP-226), 3 types and documentation (KIP-569).
"""

from __future__ import annotations

from protocol.schema import Bool, Int8, Int16, Int32, Message, String, message, struct, wire


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest(Message):
    """The resources, and the names of their settings to list."""

    resources: list[Resource]
    include_synonyms: Bool = wire(default=False)
    include_documentation: Bool = wire("3+", default=False)

    @struct
    class Resource:
        resource_type: Int8
        resource_name: String
        configuration_keys: list[String] | None


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse(Message):
    """The settings."""

    throttle_time_ms: Int32 = wire(default=0)
    results: list[Result]

    @struct
    class Result:
        error_code: Int16 = wire(default=0)
        error_message: String | None
        resource_type: Int8
        resource_name: String
        configs: list[Config]

        @struct
        class Config:
            name: String
            value: String | None
            read_only: Bool
            config_source: Int8 = wire(default=-1)
            is_sensitive: Bool
            synonyms: list[Synonym]
            config_type: Int8 = wire("3+", default=0, ignorable=True)
            documentation: String | None = wire("3+", default="", ignorable=True)

            @struct
            class Synonym:
                name: String
                value: String | None
                source: Int8
