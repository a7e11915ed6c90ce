"""Which directories are cordoned, by the setting, as the controller is told."""

from __future__ import annotations

from broker.cordons import Cordons, cordoned_ids
from broker.live_settings import LiveSettings
from broker.settings import Option, check_settings
from controller.commands.decision import Decision
from protocol.records.metadata import ConfigRecord
from storage.checkpoint import MetaProperties
from storage.disk import OsDisk
from storage.log_directory import LogDirectory
from tests.unit.broker.controller_node import ControllerNode

SETTING = "cordoned.log.dirs"


def directories(*paths: str) -> list[LogDirectory]:
    found = []
    for number, path in enumerate(paths):
        directory = LogDirectory(OsDisk(), path)
        directory.meta = MetaProperties("cluster", 1, bytes([number + 1]) * 16)
        found.append(directory)
    return found


ONE, TWO = bytes([1]) * 16, bytes([2]) * 16


def test_directories_are_named_by_their_paths() -> None:
    known = directories("/a", "/b")
    assert cordoned_ids(known, []) == ()
    assert cordoned_ids(known, ["/b/"]) == (TWO,)
    assert cordoned_ids(known, ["/b", "/elsewhere", "/a"]) == (ONE, TWO)


def test_a_star_is_all_of_them() -> None:
    assert cordoned_ids(directories("/a", "/b"), ["*"]) == (ONE, TWO)


def test_the_controller_is_told_at_the_start_and_of_every_alteration(controlled: ControllerNode) -> None:
    live = LiveSettings(check_settings({"log.dirs": Option("/a,/b", "test"), SETTING: Option("/a", "test")}))
    epoch = controlled.image.brokers[1].epoch
    cordons = Cordons(
        1, epoch, directories("/a", "/b"), live=live, controller=controlled.controller, loop=controlled.loop
    )
    controlled.controller.subscribe(live.apply)
    controlled.wait(cordons.begin())
    assert controlled.image.brokers[1].cordoned_directories == (ONE,)
    alter(controlled, "/a,/b")
    assert controlled.image.brokers[1].cordoned_directories == (ONE, TWO)
    alter(controlled, "")
    assert controlled.image.brokers[1].cordoned_directories == ()


def alter(node: ControllerNode, value: str) -> None:
    """Alter the setting, and wait until the controller has heard what follows from it."""
    record = ConfigRecord(resource_type=4, resource_name="1", name=SETTING, value=value)
    node.wait(node.controller.submit(lambda _: Decision((record,), None)))
    node.wait(node.controller.submit(lambda _: Decision((), None)))
