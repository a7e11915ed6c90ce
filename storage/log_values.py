"""What the operations of a log return."""

from typing import NamedTuple

from storage.segment import FileSlice


class AppendInfo(NamedTuple):
    """Where records went; `log_append_time_ms` is -1 unless the broker set their timestamps."""

    base_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    leader_epoch: int
    duplicate: bool


class LogRead(NamedTuple):
    """Whole batches found by a read: none, or one slice of one segment."""

    slices: list[FileSlice]
    size_bytes: int
