"""BrokerRegistration: a broker registers with the controller when it starts (KIP-631).

Version notes: 1 has a flag for migration from ZooKeeper, which is obsolete; 2 added the log directories (KIP-858), 3
the epoch before a clean shutdown (KIP-966); before 4, features whose lowest level is 0 are left out.
"""

from __future__ import annotations

from protocol.schema import Bool, Int16, Int32, Int64, Message, String, UInt16, Uuid, message, struct, wire


@struct
class RegisteredListener:
    """A listener of a broker or controller; the metadata log stores it too."""

    name: String
    host: String
    port: UInt16
    security_protocol: Int16


@struct
class SupportedFeature:
    """The levels of a feature that a broker or controller supports."""

    name: String
    min_supported_version: Int16
    max_supported_version: Int16


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationRequest(Message):
    """A broker's incarnation, listeners, features, rack and directories."""

    broker_id: Int32
    cluster_id: String
    incarnation_id: Uuid
    listeners: list[RegisteredListener]
    features: list[SupportedFeature]
    rack: String | None
    is_migrating_zk_broker: Bool = wire("1+", default=False)
    log_dirs: list[Uuid] = wire("2+", default=[], ignorable=True)
    previous_broker_epoch: Int64 = wire("3+", default=-1, ignorable=True)


@message(key=62, versions=(0, 4), flexible=0)
class BrokerRegistrationResponse(Message):
    """The broker epoch assigned by the controller; -1 for none."""

    throttle_time_ms: Int32 = wire(default=0)
    error_code: Int16 = wire(default=0)
    broker_epoch: Int64 = wire(default=-1)
