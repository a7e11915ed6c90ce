"""AlterClientQuotas: quotas of an entity are set and removed, all or none."""

from __future__ import annotations

from functools import partial
from math import inf, nextafter

import pytest

from controller.commands.client_quotas import alter_client_quotas
from controller.image import MetadataImage
from controller.image_builder import apply_records
from controller.snapshot import image_records
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from tests.unit.controller.cluster import Cluster

Entry = AlterClientQuotasRequest.Entry


def entry(entity: dict[str, str | None], **quotas: float | None) -> AlterClientQuotasRequest.Entry:
    """Return an AlterClientQuotas entry; None removes a quota."""
    return Entry(
        entity=[Entry.Entity(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in entity.items()],
        ops=[Entry.Op(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
    )


def alter(
    cluster: Cluster, *entries: AlterClientQuotasRequest.Entry, validate_only: bool = False, unknown: str = ""
) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = cluster.apply(partial(alter_client_quotas, request=request, unknown_hosts=[unknown]))
    return [(answer.error_code, answer.error_message) for answer in response.entries]


DONE = [(ErrorCode.NONE, None)]


def test_quotas_are_set_changed_and_removed() -> None:
    cluster = Cluster()
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=1000.0, request_percentage=12.5)) == DONE
    assert cluster.image.client_quotas == {(("user", "u"),): {"producer_byte_rate": 1000.0, "request_percentage": 12.5}}
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=2000.0, request_percentage=None)) == DONE
    assert cluster.image.client_quotas == {(("user", "u"),): {"producer_byte_rate": 2000.0}}
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=None)) == DONE
    assert cluster.image.client_quotas == {}


def test_order_of_entity_types_does_not_matter() -> None:
    cluster = Cluster()
    alter(cluster, entry({"user": None, "client_id": "c"}, consumer_byte_rate=1.0))
    alter(cluster, entry({"client_id": "c", "user": None}, consumer_byte_rate=2.0))
    assert cluster.image.client_quotas == {(("client-id", "c"), ("user", None)): {"consumer_byte_rate": 2.0}}


def test_unchanged_quota_writes_no_record() -> None:
    cluster = Cluster()
    alter(cluster, entry({"ip": None}, connection_creation_rate=5.0))
    assert alter(cluster, entry({"ip": None}, connection_creation_rate=5.0)) == DONE
    assert cluster.records == ()
    assert alter(cluster, entry({"ip": "10.0.0.1"}, connection_creation_rate=None)) == DONE
    assert cluster.records == ()


def test_validation_alone_changes_nothing() -> None:
    cluster = Cluster()
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=1.0), validate_only=True) == DONE
    assert cluster.image.client_quotas == {}


@pytest.mark.parametrize("rate", [3.0, 3.0000001, 2.9999999])
def test_rate_is_whole_within_a_millionth(rate: float) -> None:
    assert alter(Cluster(), entry({"user": "u"}, producer_byte_rate=rate)) == DONE


def test_largest_values_are_accepted_although_a_double_rounds_them_up() -> None:
    cluster = Cluster()
    largest = float((1 << 63) - 1)
    assert alter(cluster, entry({"user": "u"}, producer_byte_rate=largest, consumer_byte_rate=largest)) == DONE
    assert alter(cluster, entry({"ip": "::1"}, connection_creation_rate=float((1 << 31) - 1))) == DONE
    assert alter(cluster, entry({"user": "u"}, request_percentage=1e300, controller_mutation_rate=1e300)) == DONE


@pytest.mark.parametrize(
    ("refused", "shown"),
    [
        (entry({}, producer_byte_rate=1.0), "Invalid empty client quota entity"),
        (entry({"group": "g"}, producer_byte_rate=1.0), "Unhandled client quota entity type: group"),
        (entry({"user": ""}, producer_byte_rate=1.0), "Empty user not supported"),
        (entry({"user": "u", "ip": "::1"}, producer_byte_rate=1.0), "should not be combined"),
        (entry({"ip": "nowhere"}, connection_creation_rate=1.0), "nowhere is not a valid IP"),
        (entry({"user": "u"}, connection_creation_rate=1.0), "Invalid configuration key connection_creation_rate"),
        (entry({"ip": "::1"}, producer_byte_rate=1.0), "Invalid configuration key producer_byte_rate"),
        (entry({"user": "u"}, producer_byte_rate=-1.0), "must be greater than 0"),
        (entry({"user": "u"}, request_percentage=float("nan")), "must be greater than 0"),
        (entry({"user": "u"}, producer_byte_rate=1.5), "cannot be a fractional value"),
        (entry({"ip": "::1"}, connection_creation_rate=2.0**31), "connection_creation_rate is too large for an INT."),
        (
            entry({"user": "u"}, producer_byte_rate=nextafter(2.0**63, inf)),
            "producer_byte_rate is too large for a LONG.",
        ),
        (
            entry({"user": "u"}, consumer_byte_rate=nextafter(2.0**63, inf)),
            "consumer_byte_rate is too large for a LONG.",
        ),
        (entry({"user": "u"}, producer_byte_rate=1.0, no_such_rate=1.0), "Invalid configuration key no_such_rate"),
        (Entry(entity=entry({"user": "u"}).entity * 2, ops=[]), "appears twice"),
        (Entry(entity=entry({"user": "u"}).entity, ops=entry({}, producer_byte_rate=1.0).ops * 2), "Duplicate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_entity_with_an_invalid_quota_is_not_changed(refused: AlterClientQuotasRequest.Entry, shown: str) -> None:
    cluster = Cluster()
    [(code, message), good] = alter(
        cluster, refused, entry({"user": "other"}, producer_byte_rate=1.0), unknown="nowhere"
    )
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert shown in message
    assert [good] == DONE
    assert list(cluster.image.client_quotas) == [(("user", "other"),)]


def test_duplicate_entity_is_rejected_with_one_response_entry() -> None:
    cluster = Cluster()
    [(code, _)] = alter(
        cluster, entry({"user": "u"}, producer_byte_rate=1.0), entry({"user": "u"}, producer_byte_rate=2.0)
    )
    assert code == ErrorCode.INVALID_REQUEST
    assert cluster.image.client_quotas == {}


def test_quotas_are_in_a_snapshot() -> None:
    cluster = Cluster()
    alter(cluster, entry({"user": "u", "client_id": None}, producer_byte_rate=1.0, consumer_byte_rate=2.0))
    again = apply_records(MetadataImage(cluster_id="cluster"), image_records(cluster.image), offset=0, epoch=1)
    assert again.client_quotas == cluster.image.client_quotas
