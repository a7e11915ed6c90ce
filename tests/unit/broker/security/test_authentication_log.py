from __future__ import annotations

import pytest

from broker.monitoring.rate import SampleWindow
from broker.runtime.rate_limited_log import MOST_REPORTS
from broker.security.authentication_log import AuthenticationLog


def test_refusals_from_a_host_share_a_line_for_10_s(caplog: pytest.LogCaptureFixture) -> None:
    log = AuthenticationLog("SASL_SSL")
    for number, now_s in enumerate((0.0, 1.0, 9.9, 10.0)):
        log.refused(
            "Invalid", user=f"u{number}", host="10.0.0.7", mechanism="SCRAM-SHA-256", now_s=now_s, again=number == 3
        )
    line = (
        'Refused authentication: user="{}" host="10.0.0.7" listener=SASL_SSL mechanism="SCRAM-SHA-256" reason="Invalid"'
    )
    assert [record.getMessage() for record in caplog.records] == [
        line.format("u0"),
        line.format("u3") + " and 2 more from this host",
    ]
    assert (log.failed, log.failed_again) == (3, 1)


def test_authentications_and_refusals_have_rates_over_the_window() -> None:
    log = AuthenticationLog("SASL_SSL", SampleWindow(2, 1000))
    rates = (log.successful_rate, log.failed_rate, log.successful_again_rate, log.failed_again_rate)

    def refused(now_s: float, *, again: bool) -> None:
        log.refused("Invalid", user="u", host="h", mechanism="PLAIN", now_s=now_s, again=again)

    for _ in range(6):
        log.succeeded(now_s=0.5, again=False, only_once=False)
    for _ in range(3):
        log.succeeded(now_s=0.5, again=True, only_once=False)
    for _ in range(2):
        refused(0.5, again=False)
    refused(0.5, again=True)
    assert [rate.per_second(1500) for rate in rates] == [6, 2, 3, 1]
    refused(1.6, again=False)
    assert [rate.per_second(2600) for rate in rates] == [0, 1, 0, 0]


def test_text_of_clients_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    log = AuthenticationLog("SASL_SSL")
    log.refused("x", user='a"\nRefused: \x1b[2J', host="h", mechanism="M" * 1000, now_s=0.0, again=False)
    (record,) = caplog.records
    text = record.getMessage()
    assert 'user="a\\"\\nRefused: \\u001b[2J"' in text
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 500


def test_refusals_of_any_number_of_hosts_write_a_limited_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    log = AuthenticationLog("SASL_SSL")
    for number in range(5000):
        log.refused("Invalid", user="u", host=f"2001:db8::{number:x}", mechanism="PLAIN", now_s=1.0, again=False)
    assert len(caplog.records) == MOST_REPORTS
    assert log.failed == 5000
