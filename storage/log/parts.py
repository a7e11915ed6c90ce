"""What a log is put together of: `opening.py` finds it, and `log.py` goes on with it."""

from typing import NamedTuple

from storage.log.files import LogFiles
from storage.log.leader_epochs import LeaderEpochs
from storage.log.producer_state import ProducerState
from storage.log.recovery import RecoveryReport
from storage.log.segments import Segments


class LogParts(NamedTuple):
    """A log's parts and offsets, as its files give them."""

    files: LogFiles
    segments: Segments
    producers: ProducerState
    leader_epochs: LeaderEpochs
    start_offset: int
    end_offset: int
    recovery_point: int
    is_new: bool
    """Whether its directory's name may not be durable yet."""
    topic_id: bytes
    report: RecoveryReport
    maybe_former: bool = False
    """Whether it has records of a topic whose id was lost with the power, so that they may be a deleted topic's."""
