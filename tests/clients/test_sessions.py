"""Recorded sessions of real clients: a fresh broker returns the recorded response to each request."""

from pathlib import Path

import pytest

from protocol.headers import encode_request_header
from tests.broker_process import BrokerProcess
from tests.clients.sessions.replay import SETTINGS, prepare, replay
from tests.clients.sessions.transcript import FOLDER, SENT, decoded_request, read

sessions = pytest.mark.parametrize("session", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)


@sessions
def test_requests_of_recorded_session_get_recorded_responses(session: Path, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        prepare(broker.bootstrap)
        answered = 0
        for exchange in replay(session, broker.bootstrap):
            assert exchange.now == exchange.recorded, exchange.where
            answered += 1
        assert answered
        broker.check_log()


@sessions
def test_requests_of_clients_round_trip_byte_for_byte(session: Path) -> None:
    _, steps = read(session)
    for frame in (step.frame for step in steps if step.kind == SENT):
        header, message = decoded_request(frame)
        if message is not None:
            written = encode_request_header(header) + message.encode(header.api_version)
            # librdkafka appends bytes to some requests.
            assert frame == written or (message.TRAILING_BYTES and frame.startswith(written))


def test_different_response_is_reported(tmp_path: Path) -> None:
    recorded = (FOLDER / "kafka-go.txt").read_text(encoding="utf-8")
    changed = tmp_path / "kafka-go.txt"
    changed.write_text(recorded.replace("high_watermark: 4", "high_watermark: 5"), encoding="utf-8")
    with BrokerProcess(tmp_path, SETTINGS) as broker:
        prepare(broker.bootstrap)
        differing = [exchange for exchange in replay(changed, broker.bootstrap) if exchange.now != exchange.recorded]
    assert differing
    assert all("Fetch" in exchange.where for exchange in differing)
