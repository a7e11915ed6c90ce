"""Group configurations and the broker's limits on them."""

from __future__ import annotations

import pytest

from controller.configs.broker import BROKER_CONFIGS
from controller.configs.definition import ConfigError, parse_value
from controller.configs.group import GROUP_CONFIGS, broker_synonym, check_within_limits


def check(**changes: int) -> None:
    values = {name: parse_value(one, one.default) for name, one in GROUP_CONFIGS.items()}
    values.update({name.replace("_", "."): value for name, value in changes.items()})
    check_within_limits(
        values.__getitem__, lambda name: parse_value(BROKER_CONFIGS[name], BROKER_CONFIGS[name].default)
    )


def test_all_but_three_fall_back_to_the_broker_s_with_the_same_default() -> None:
    alone = set()
    for name, one in GROUP_CONFIGS.items():
        synonym = broker_synonym(name)
        if synonym is None:
            alone.add(name)
        else:
            assert BROKER_CONFIGS[synonym].default == one.default
    assert alone == {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}


@pytest.mark.parametrize(
    "text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P2DT3H4.5S", "by_duration:P1D", "by_duration:pt0s"]
)
def test_valid_share_auto_offset_resets_are_accepted(text: str) -> None:
    assert parse_value(GROUP_CONFIGS["share.auto.offset.reset"], text) == text


@pytest.mark.parametrize(
    "text",
    [
        "EARLIEST",
        "none",
        "by_duration:",
        "by_duration:P",
        "by_duration:PT",
        "by_duration:P1DT",
        "by_duration:-PT1H",
        "by_duration:P1Y",
        "by_duration:1h",
        "BY_DURATION:PT1H",
    ],
)
def test_invalid_share_auto_offset_resets_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="The value must be either 'earliest', 'latest' or of the format"):
        parse_value(GROUP_CONFIGS["share.auto.offset.reset"], text)


def test_the_defaults_are_within_the_limits() -> None:
    check()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("consumer_session_timeout_ms", 44999, "greater than or equal to group.consumer.min.session.timeout.ms"),
        ("streams_heartbeat_interval_ms", 15001, "less than or equal to group.streams.max.heartbeat.interval.ms"),
        ("share_delivery_count_limit", 11, "less than or equal to group.share.max.delivery.count.limit"),
        ("share_record_lock_duration_ms", 14999, "equal to group.share.min.record.lock.duration.ms"),
        ("streams_num_standby_replicas", 3, "less than or equal to group.streams.max.standby.replicas"),
    ],
)
def test_values_outside_the_limits_are_rejected(name: str, value: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.replace('_', '.')} must be .*{problem}"):
        check(**{name: value})


def test_a_session_is_longer_than_a_heartbeat() -> None:
    values = {"consumer.heartbeat.interval.ms": 5, "consumer.session.timeout.ms": 5}
    with pytest.raises(
        ConfigError, match=r"consumer\.session\.timeout\.ms must be greater than consumer\.heartbeat\.interval\.ms"
    ):
        check_within_limits(lambda name: values.get(name, 0), lambda name: 0 if ".min." in name else 9)
