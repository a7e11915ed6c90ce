"""The audit log of refused authorizations: one line of each kind, at a limited rate, that clients cannot forge."""

from __future__ import annotations

import pytest

from broker.authorization.audit_log import AuditLog, Refusal
from controller.acls.acl import AclOperation, AclResourceType
from protocol.api import ApiKey

REFUSAL = Refusal(
    "User:a", "10.0.0.1", AclOperation.WRITE, AclResourceType.TOPIC, "orders", ApiKey.PRODUCE, "producer-1"
)


class Audit:
    """An audit log whose clock the test moves."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.now_s = 1000.0
        self.log = AuditLog(lambda: self.now_s)
        self._caplog = caplog

    def lines(self) -> list[str]:
        """Return the lines since the last call."""
        found = [record.getMessage() for record in self._caplog.records if record.name == "broker.audit"]
        self._caplog.clear()
        return found


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Audit:
    return Audit(caplog)


def test_a_line_has_principal_host_operation_resource_api_and_client(audit: Audit) -> None:
    audit.log.add(REFUSAL)
    assert audit.lines() == [
        'Refused: principal="User:a" host="10.0.0.1" operation=WRITE resource=TOPIC:"orders" api=Produce '
        'client="producer-1"'
    ]


def test_refusals_of_the_same_kind_share_a_line_within_ten_seconds(audit: Audit) -> None:
    audit.log.add(REFUSAL)
    for number in range(1999):
        audit.log.add(REFUSAL._replace(name=f"t{number}", client_id=str(number)))
    assert len(audit.lines()) == 1
    audit.now_s += 10
    audit.log.add(REFUSAL)
    [line] = audit.lines()
    assert line.endswith('client="producer-1" and 1,999 more refusals of this kind')


def test_refusals_of_several_resources_are_one_line_with_their_number(audit: Audit) -> None:
    audit.log.add(REFUSAL, 3)
    [line] = audit.lines()
    assert line.endswith(" and 2 more refusals of this kind")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("principal", "User:b"),
        ("host", "10.0.0.2"),
        ("operation", AclOperation.READ),
        ("resource_type", AclResourceType.GROUP),
        ("api_key", ApiKey.FETCH),
    ],
)
def test_refusals_that_differ_have_lines_of_their_own(audit: Audit, field: str, value: object) -> None:
    audit.log.add(REFUSAL)
    audit.log.add(Refusal(**REFUSAL._asdict() | {field: value}))
    assert len(audit.lines()) == 2


def test_lines_are_limited_whatever_clients_are_named(audit: Audit) -> None:
    for number in range(5000):
        audit.log.add(REFUSAL._replace(principal=f"User:{number}"))
    assert len(audit.lines()) == 50
    audit.now_s += 10
    audit.log.add(REFUSAL)
    summary, line = audit.lines()
    assert summary == "4950 more refused authorizations are not listed"
    assert 'principal="User:a"' in line


def test_text_of_clients_is_quoted_escaped_and_cut(audit: Audit) -> None:
    forged = 'x" host="1.2.3.4\nRefused: principal="User:b\u2028\x1b[31m'
    audit.log.add(REFUSAL._replace(name=forged, client_id=None, principal="User:" + "y" * 100_000))
    [line] = audit.lines()
    assert r'resource=TOPIC:"x\" host=\"1.2.3.4\nRefused: principal=\"User:b\u2028\u001b[31m" ' in line
    assert line.isprintable()
    assert line.isascii()
    assert len(line) < 1000
    assert line.endswith('client=""')
