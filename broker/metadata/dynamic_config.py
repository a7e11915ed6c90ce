"""The dynamic broker configuration: start-up settings plus alterations since (KIP-226; Kafka: `DynamicBrokerConfig`).

    broker.dynamic_config["max.connections"]             the current value; a plain look-up, fit for hot paths
    .of_listener("EXTERNAL", "max.connections")          the listener's own value, else the broker's
    .on_change(["max.connections"], callback)            `callback()` after each change of one of the names

An alteration takes effect when it is committed and applied: first all values of that commit are replaced, then each
callback that follows one of them is called once. A callback must neither raise nor block. A listener's own value
(`listener.name.external.max.connections`) counts as a change of the setting behind the prefix.

Which settings can be altered, and to what, is checked before they are stored (`controller.commands.alter_configs`). A
stored value that this version cannot parse is logged and ignored; the next lower layer applies (layers:
`controller.configs.effective`). Settings that need a restart keep their value of the start. Topic settings reach the
logs through `broker.replication.replica_manager`.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from broker.settings import Settings
from controller.configs import BROKER_CONFIGS, ConfigError, parse_value
from controller.configs.effective import broker_config_values
from controller.configs.listener_names import listener_prefix, without_listener
from controller.image import MetadataImage, ResourceType
from protocol.records.metadata import ConfigRecord

Callback = Callable[[], None]

_log = logging.getLogger("broker.settings")


class DynamicConfig:
    """The current values, by Kafka's names; `start` has those of the start."""

    def __init__(self, start: Settings) -> None:
        """Hold the settings of the start until `load`."""
        self.start = start
        self._values: dict[str, Any] = dict(start.values)
        self._callbacks: dict[str, list[Callback]] = {}
        self._resources = ("", str(start.node_id))

    def __getitem__(self, name: str) -> Any:
        """Return the current value of `name`."""
        return self._values[name]

    def of_listener(self, listener: str, name: str) -> Any:
        """Return the value of `name` for one listener."""
        found = self._values.get(listener_prefix(listener) + name)
        return self._values[name] if found is None else found

    def own_of_listener(self, listener: str, name: str) -> Any:
        """Return the value of `name` that is set for that listener only; None if there is none."""
        return self._values.get(listener_prefix(listener) + name)

    def of_listeners(self, name: str) -> dict[str, Any]:
        """Return the values of a setting that are set for one listener each, by their full names; None is none."""
        return {
            full: value
            for full, value in self._values.items()
            if value is not None and full != name and without_listener(full) == name
        }

    def on_change(self, names: Iterable[str], callback: Callback) -> None:
        """Call `callback` after each commit that changes one of `names`, for one listener or for all."""
        for name in names:
            self._callbacks.setdefault(BROKER_CONFIGS[name].name, []).append(callback)

    def load(self, image: MetadataImage) -> None:
        """Apply all alterations in `image`."""
        self._update(
            image, [name for resource in self._resources for name in image.configs(ResourceType.BROKER, resource)]
        )

    def apply(self, _old: MetadataImage, new: MetadataImage, records: Iterable[object]) -> None:
        """Apply the changes, `records`, that led to `new`."""
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
        changed: dict[Callback, None] = {}
        for name in dict.fromkeys(names):
            setting = without_listener(name)
            if setting not in BROKER_CONFIGS:
                continue
            value = self._effective(image, name, setting)
            if value != self._values.get(name):
                self._values[name] = value
                changed.update(dict.fromkeys(self._callbacks.get(setting, ())))
        for callback in changed:
            callback()

    def _effective(self, image: MetadataImage, name: str, setting: str) -> Any:
        """Return the value from the first layer that sets `name` to a valid value."""
        for place in broker_config_values(image, self.start, name):
            try:
                return parse_value(BROKER_CONFIGS[setting], place.text)
            except ConfigError as error:
                _log.warning("Ignoring an invalid stored setting: %s", error)
        return None
