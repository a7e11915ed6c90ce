"""The group coordinator uses the broker's configs and one log per `__consumer_offsets` partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest
from tests.unit.broker.whole_broker import WholeBroker


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[WholeBroker]:
    whole = WholeBroker(
        str(tmp_path),
        group_min_session_timeout_ms="1000",
        group_max_session_timeout_ms="2000",
        group_max_size="1",
        group_initial_rebalance_delay_ms="0",
    )
    whole.wait(whole.start())
    yield whole
    whole.wait(whole.stop())
    whole.loop.close()


def join(whole: WholeBroker, session_timeout_ms: int) -> ErrorCode:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    answer = whole.call(
        ApiKey.JOIN_GROUP, 1, group_id="g", session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=1000,
        member_id="", protocol_type="consumer", protocols=protocols,
    )  # fmt: skip
    return ErrorCode(answer.error_code)


def test_coordinator_uses_broker_configs_and_stores_groups_in_the_log(whole: WholeBroker) -> None:
    while whole.call(ApiKey.FIND_COORDINATOR, 0, key="g").error_code != ErrorCode.NONE:
        pass
    assert join(whole, 999) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert join(whole, 2001) == ErrorCode.INVALID_SESSION_TIMEOUT
    assert join(whole, 1500) == ErrorCode.NONE
    assert join(whole, 1500) == ErrorCode.GROUP_MAX_SIZE_REACHED
    log = whole.broker.logs.get("__consumer_offsets", 0)
    assert log is not None
    assert log.log_end_offset == 1
