"""What may be altered for brokers while they run."""

from __future__ import annotations

import pytest

from controller.configs.alterations import check_alterations
from controller.configs.definition import ConfigError
from controller.image import MetadataImage, ResourceType
from tests.unit.controller.cluster import Settings

EMPTY = MetadataImage(cluster_id="c")


def check(name: str, text: str, broker: str = "1", image: MetadataImage = EMPTY) -> None:
    check_alterations(image, Settings(), {name: text}, broker)


def test_a_listener_s_own_limits_may_be_set_for_all_brokers_and_the_rest_of_it_for_one() -> None:
    check("listener.name.x.max.connections", "5", broker="")
    check("listener.name.x.ssl.keystore.type", "PEM")
    with pytest.raises(ConfigError, match="broker id must be specified"):
        check("listener.name.x.ssl.keystore.type", "PEM", broker="")


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


def test_only_directories_that_the_broker_has_can_be_cordoned() -> None:
    settings = Settings({"log.dirs": "/a,/b"})
    for text in ("", "*", "/b", "/a,/b"):
        check_alterations(EMPTY, settings, {"cordoned.log.dirs": text}, "1")
    with pytest.raises(ConfigError, match=r"must be present in log\.dirs or log\.dir\. Missing entries : /c"):
        check_alterations(EMPTY, settings, {"cordoned.log.dirs": "/a,/c"}, "1")
    with pytest.raises(ConfigError, match="Missing entries : /c"):
        check_alterations(EMPTY, Settings({"log.dir": "/a"}), {"cordoned.log.dirs": "/c"}, "1")


def test_what_nobody_knows_may_be_anything() -> None:
    check("some.plugin", "anything", broker="")
    check("listener.name.x.some.plugin", "anything")
