"""The parts of a log that `loader.py` has loaded, from which `log.py` creates it (Kafka: `LoadedLogOffsets`)."""

from typing import NamedTuple

from storage.log.files import LogFiles
from storage.log.leader_epochs import LeaderEpochs
from storage.log.producer_state import ProducerStateManager
from storage.log.recovery import RecoveryReport
from storage.log.segments import LogSegments


class LoadedLog(NamedTuple):
    """A log's parts and offsets, as loaded from its files."""

    files: LogFiles
    segments: LogSegments
    producers: ProducerStateManager
    leader_epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    recovery_point: int
    is_new: bool
    """Whether the name of the log's directory may not be durable yet."""
    topic_id: bytes
    report: RecoveryReport
    maybe_former: bool = False
    """Whether the log has records but lost its topic id in a power cut: they may be a deleted topic's."""
