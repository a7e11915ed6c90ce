"""Validation of dynamic broker configurations."""

from __future__ import annotations

import pytest

from controller.configs.alterations import check_alterations
from controller.configs.definition import ConfigError
from controller.image import MetadataImage, ResourceType
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="c")


def check(name: str, text: str, broker: str = "1", image: MetadataImage = EMPTY) -> None:
    check_alterations(image, altered(image, broker, **{name: text}), Settings(), {name: text}, broker)


def altered(image: MetadataImage, broker: str, **configs: str) -> MetadataImage:
    key = (ResourceType.BROKER, broker)
    return MetadataImage(cluster_id="c", configs={**image.all_configs(), key: {**image.configs(*key), **configs}})


def test_listener_limits_can_be_altered_cluster_wide_and_other_listener_configs_per_broker() -> None:
    check("listener.name.x.max.connections", "5", broker="")
    check("listener.name.x.ssl.keystore.type", "PEM")
    with pytest.raises(ConfigError, match="broker id must be specified"):
        check("listener.name.x.ssl.keystore.type", "PEM", broker="")


@pytest.mark.parametrize(
    "name",
    [
        "connections.max.reauth.ms",
        "listener.name.x.connections.max.reauth.ms",
        "listener.name.x.oauthbearer.connections.max.reauth.ms",
        "listener.name.x.ssl.allow.dn.changes",
    ],
)
def test_setting_that_needs_a_restart_is_refused_for_a_single_listener_too(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"Cannot update these configs dynamically: \[{name}\]"):
        check(name, "true" if name.endswith("changes") else "60000")


@pytest.mark.parametrize("prefix", ["", "listener.name.x."])
@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_connection_limit_of_zero_is_rejected(name: str, prefix: str) -> None:
    check(prefix + name, "1")
    with pytest.raises(ConfigError, match=f"Invalid {name} 0"):
        check(prefix + name, "0")


def test_a_pool_grows_to_double_and_shrinks_to_half_of_what_it_is_now() -> None:
    for size in ("4", "16"):
        check("num.io.threads", size)
    altered = MetadataImage(cluster_id="c", configs={(ResourceType.BROKER, "1"): {"num.io.threads": "16"}})
    check("num.io.threads", "32", image=altered)
    with pytest.raises(ConfigError, match="at least half the current value 16"):
        check("num.io.threads", "7", image=altered)


def test_defaults_of_groups_stay_within_the_limits() -> None:
    check("group.share.assignment.interval.ms", "15000", broker="")
    with pytest.raises(ConfigError, match=r"must be less than or equal to group\.share\.max\.assignment\.interval\.ms"):
        check("group.share.assignment.interval.ms", "15001", broker="")


def test_value_in_conflict_with_an_existing_config_is_rejected() -> None:
    overrides = {"max.connections.per.ip.overrides": "10.0.0.1:5"}
    check("max.connections.per.ip", "0", image=altered(EMPTY, "", **overrides))
    with pytest.raises(ConfigError, match=r"zero only if max\.connections\.per\.ip\.overrides property is set"):
        check("max.connections.per.ip", "0")


def test_deletion_that_leaves_conflicting_configs_is_rejected() -> None:
    left = altered(EMPTY, "1", **{"max.connections.per.ip": "0"})
    before = altered(left, "1", **{"max.connections.per.ip.overrides": "10.0.0.1:5"})
    with pytest.raises(ConfigError, match="can be set to zero only if"):
        check_alterations(before, left, Settings(), {}, "1")
    check_alterations(left, EMPTY, Settings(), {}, "1")
    larger = altered(EMPTY, "1", **{"num.io.threads": "64"})
    with pytest.raises(ConfigError, match="at least half the current value 64"):
        check_alterations(larger, EMPTY, Settings(), {}, "1")


def test_unknown_configs_accept_any_value() -> None:
    check("some.plugin", "anything", broker="")
    check("listener.name.x.some.plugin", "anything")
