"""Broker heartbeats: state transitions and the response (KIP-631, KIP-841; Kafka: `BrokerControlState`).

    state          request                next state     condition
    fenced         shut down              stopped
                   do not fence           active         its metadata includes its own registration
    active         fence                  fenced
                   fence and shut down    stopped
                   shut down              shutting down  it leads a partition
                                          stopped        it leads none
    shutting down  any                    stopped        it leads none, and all active brokers know that

In all other cases the state stays. A broker that is shutting down gets no new leaderships, and its partitions get other
leaders. A stopped one is fenced and may exit. The heartbeat also reports failed and cordoned directories.
"""

from enum import Enum

from controller.commands.brokers import (
    cordon_directories,
    fencing_records,
    registered_broker,
    take_directories_offline,
    unfence_broker,
)
from controller.commands.controller_result import ControllerResult
from controller.configs.effective import StaticSettings
from controller.image import BrokerImage, MetadataImage
from controller.image_builder import apply_records
from controller.leader_and_isr_updates import leads_any, on_controlled_shutdown
from protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from protocol.records.metadata import BrokerRegistrationChangeRecord
from protocol.schema import Message

# Value of BrokerRegistrationChangeRecord.in_controlled_shutdown.
_SHUTTING_DOWN = 1


class _State(Enum):
    FENCED = "fenced"
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting down"
    STOPPED = "stopped"


def broker_heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest, settings: StaticSettings, *, may_stop: bool = False
) -> ControllerResult[BrokerHeartbeatResponse]:
    """Change a broker to the next state, and return that state.

    `may_stop`: all active brokers know that its leaderships moved (`BrokerHeartbeatManager.may_stop`). KafkaError
    STALE_BROKER_EPOCH if it has registered again since, or is not registered.
    """
    broker_id, broker_epoch = request.broker_id, request.broker_epoch
    registered_broker(image, broker_id, broker_epoch)
    records = list(take_directories_offline(image, broker_id, broker_epoch, request.offline_log_dirs, settings).records)
    if request.cordoned_log_dirs is not None:
        records += cordon_directories(image, broker_id, broker_epoch, tuple(request.cordoned_log_dirs)).records
    if records:
        # Elections below need the image without the failed directories.
        image = apply_records(image, records, offset=image.offset + len(records), epoch=image.epoch)
    broker = image.brokers[broker_id]
    state = _next_state(image, broker, request, may_stop)
    records += _transition(image, broker, state, settings)
    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= broker_epoch,
        is_fenced=state in (_State.FENCED, _State.STOPPED),
        should_shut_down=state is _State.STOPPED,
    )
    return ControllerResult(tuple(records), response)


def _next_state(image: MetadataImage, broker: BrokerImage, request: BrokerHeartbeatRequest, may_stop: bool) -> _State:
    if broker.fenced:
        if request.want_shut_down:
            return _State.STOPPED
        caught_up = request.current_metadata_offset >= broker.epoch
        return _State.ACTIVE if caught_up and not request.want_fence else _State.FENCED
    if broker.in_controlled_shutdown:
        may_exit = may_stop and not leads_any(image, broker.broker_id)
        return _State.STOPPED if may_exit else _State.SHUTTING_DOWN
    if request.want_fence:
        return _State.STOPPED if request.want_shut_down else _State.FENCED
    if request.want_shut_down:
        return _State.SHUTTING_DOWN if leads_any(image, broker.broker_id) else _State.STOPPED
    return _State.ACTIVE


def _transition(image: MetadataImage, broker: BrokerImage, state: _State, settings: StaticSettings) -> list[Message]:
    """Return the records that bring a broker to `state`; none if it is in it."""
    if state is _State.ACTIVE:
        return list(unfence_broker(image, broker.broker_id, broker.epoch, settings).records)
    if state is _State.SHUTTING_DOWN:
        if broker.in_controlled_shutdown:
            return []
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=_SHUTTING_DOWN
        )
        return [change, *on_controlled_shutdown(image, broker.broker_id, settings)]
    return [] if broker.fenced else fencing_records(image, [broker], settings)
