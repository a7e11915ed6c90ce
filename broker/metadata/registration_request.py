"""Registration requests of a broker (KIP-631) and of a controller (KIP-919)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from controller.commands.registration import SUPPORTED_FEATURES
from controller.records import features_from, listeners_from
from protocol.messages.broker_registration import BrokerRegistrationRequest

if TYPE_CHECKING:
    from broker.settings import Settings
    from controller.image import Endpoint
    from protocol.messages.controller_registration import ControllerRegistrationRequest
    from storage.log_directory import LogDirectory


def broker_registration(
    settings: Settings,
    cluster_id: str,
    incarnation_id: bytes,
    endpoints: Mapping[str, Endpoint],
    directories: Collection[LogDirectory],
) -> BrokerRegistrationRequest:
    """Return the registration of a broker; `endpoints` are by listener, `directories` are those online."""
    epochs = {directory.previous_broker_epoch if directory.clean else -1 for directory in directories}
    advertised = [endpoint.listener for endpoint in settings.advertised_listeners]
    return BrokerRegistrationRequest(
        broker_id=settings.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=listeners_from(
            {name: endpoints[name] for name in advertised if name not in settings.controller_listeners}
        ),
        features=features_from(SUPPORTED_FEATURES),
        rack=settings["broker.rack"],
        log_dirs=sorted(directory.directory_id for directory in directories),
        # Only if the same run closed every directory cleanly.
        previous_broker_epoch=epochs.pop() if len(epochs) == 1 else -1,
    )


def controller_registration(
    settings: Settings, incarnation_id: bytes, endpoints: Mapping[str, Endpoint]
) -> ControllerRegistrationRequest:
    """Return the registration of a controller; `endpoints` are by listener."""
    from protocol.messages.controller_registration import ControllerRegistrationRequest

    return ControllerRegistrationRequest(
        controller_id=settings.node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=listeners_from(
            {name: point for name, point in endpoints.items() if name in settings.controller_listeners}
        ),
        features=features_from(SUPPORTED_FEATURES),
    )
