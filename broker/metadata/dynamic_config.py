"""The settings of this broker that count now: what it was started with, and what was altered since (KIP-226).

    broker.live["max.connections"]                             the value now; a plain look-up, fit for hot paths
    broker.live.of_listener("EXTERNAL", "max.connections")     that listener's own value, else the broker's
    broker.live.follow(["max.connections"], callback)          `callback()` each time that one of the names has changed

An alteration holds once the controller has committed it: then all values of that commit are replaced, and after that
every follower that asked for one of them is called, once, to read what it wants anew. A listener's own value
(`listener.name.external.max.connections`) changes the setting behind the prefix. A callback must not raise, and must
not wait.

What can be altered, and what a value may be, is decided before it is stored (`controller.commands.alter_configs`). A
stored value that this version cannot read is passed over for the next place that sets it, and said so once. Settings
that need a restart are here too, with the value of the start. The layers are `controller.configs.effective`'s; topics'
settings reach their logs through `broker.replication.replica_manager`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from controller.configs import BROKER_CONFIGS, ConfigError, parse_value
from controller.configs.effective import broker_config_values
from controller.configs.listener_names import listener_prefix, without_listener
from controller.image import ResourceType
from protocol.records.metadata import ConfigRecord

if TYPE_CHECKING:
    from broker.settings import Settings
    from controller.image import MetadataImage

Follower = Callable[[], None]

_log = logging.getLogger("broker.settings")


class LiveSettings:
    """The values that count, by Kafka's names; `start` holds those of the start."""

    def __init__(self, start: Settings) -> None:
        """Begin with the settings of the start, until `load`."""
        self.start = start
        self._values: dict[str, Any] = dict(start.values)
        self._followers: dict[str, list[Follower]] = {}
        self._resources = ("", str(start.node_id))

    def __getitem__(self, name: str) -> Any:
        """Return the value of `name` that counts now."""
        return self._values[name]

    def of_listener(self, listener: str, name: str) -> Any:
        """Return the value of `name` on one listener."""
        found = self._values.get(listener_prefix(listener) + name)
        return self._values[name] if found is None else found

    def follow(self, names: Iterable[str], callback: Follower) -> None:
        """Call `callback` after each commit that changes one of the settings, for a listener or for all."""
        for name in names:
            self._followers.setdefault(BROKER_CONFIGS[name].name, []).append(callback)

    def load(self, image: MetadataImage) -> None:
        """Take over what `image` says is altered."""
        self._update(image, [name for of in self._resources for name in image.configs(ResourceType.BROKER, of)])

    def apply(self, _old: MetadataImage, new: MetadataImage, records: Iterable[object]) -> None:
        """Follow the changes, `records`, that led to `new`."""
        names = [
            record.name
            for record in records
            if isinstance(record, ConfigRecord)
            and record.resource_type == ResourceType.BROKER
            and record.resource_name in self._resources
        ]
        if names:
            self._update(new, names)

    def _update(self, image: MetadataImage, names: Iterable[str]) -> None:
        changed: dict[Follower, None] = {}
        for name in dict.fromkeys(names):
            of_all = without_listener(name)
            if of_all not in BROKER_CONFIGS:
                continue
            value = self._effective(image, name, of_all)
            if value != self._values.get(name):
                self._values[name] = value
                changed.update(dict.fromkeys(self._followers.get(of_all, ())))
        for callback in changed:
            callback()

    def _effective(self, image: MetadataImage, name: str, of_all: str) -> Any:
        """Return the value of the first place that sets `name` and can be read."""
        for place in broker_config_values(image, self.start, name):
            try:
                return parse_value(BROKER_CONFIGS[of_all], place.text)
            except ConfigError as error:
                _log.warning("A stored setting is passed over: %s", error)
        return None
