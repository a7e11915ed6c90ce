import pytest

from protocol.errors import ErrorCode, KafkaError
from protocol.record_batch import read_header
from storage.log.config import LogConfig
from storage.log.log_validator import check_size, check_timestamps
from tests.logs import NOW_MS, stamped

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def size_error(size: int, config: LogConfig) -> ErrorCode | None:
    try:
        check_size(size, config)
    except KafkaError as error:
        return error.code
    return None


def timestamp_error(timestamps: list[int], config: LogConfig) -> ErrorCode | None:
    records = stamped(timestamps)
    try:
        check_timestamps(records, read_header(records), config, NOW_MS)
    except KafkaError as error:
        return error.code
    return None


@pytest.mark.parametrize(
    ("size", "code"), [(100, None), (101, ErrorCode.MESSAGE_TOO_LARGE), (999, ErrorCode.MESSAGE_TOO_LARGE)]
)
def test_a_batch_above_max_message_bytes_is_too_large(size: int, code: ErrorCode | None) -> None:
    assert size_error(size, LogConfig(max_message_bytes=100, segment_bytes=200)) is code


def test_a_batch_above_a_whole_segment_is_too_large_a_list() -> None:
    config = LogConfig(max_message_bytes=1000, segment_bytes=100)
    assert size_error(100, config) is None
    assert size_error(101, config) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize(("ahead_ms", "code"), [(0, None), (HOUR_MS, None), (HOUR_MS + 1, ErrorCode.INVALID_TIMESTAMP)])
def test_a_timestamp_more_than_an_hour_ahead_is_refused_by_default(ahead_ms: int, code: ErrorCode | None) -> None:
    assert timestamp_error([NOW_MS, NOW_MS + ahead_ms, NOW_MS], LogConfig()) is code


def test_the_past_is_allowed_by_default() -> None:
    assert timestamp_error([0], LogConfig()) is None


@pytest.mark.parametrize(("behind_ms", "code"), [(DAY_MS, None), (DAY_MS + 1, ErrorCode.INVALID_TIMESTAMP)])
def test_timestamp_below_the_bound_rejects_the_batch(behind_ms: int, code: ErrorCode | None) -> None:
    config = LogConfig(message_timestamp_before_max_ms=DAY_MS)
    assert timestamp_error([NOW_MS, NOW_MS - behind_ms, NOW_MS], config) is code


def test_record_without_timestamp_is_allowed_with_a_lower_bound() -> None:
    assert timestamp_error([-1], LogConfig(message_timestamp_before_max_ms=DAY_MS)) is None


def test_batch_with_too_many_records_to_check_is_rejected_with_a_lower_bound() -> None:
    records = stamped([NOW_MS])
    header = read_header(records)._replace(record_count=100_001)
    check_timestamps(records, header, LogConfig(), NOW_MS)
    with pytest.raises(KafkaError) as refused:
        check_timestamps(records, header, LogConfig(message_timestamp_before_max_ms=DAY_MS), NOW_MS)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
