import pytest

from broker.quotas import client_quotas
from broker.quotas.client_quotas import FETCH, PRODUCE, ClientQuotas, Quota
from controller.image import QuotaEntity, quota_entity


def entity(**parts: str | None) -> QuotaEntity:
    return quota_entity((kind.replace("_", "-"), name) for kind, name in parts.items())


# Most specific first; each with who shares its quota.
ORDER = [
    (entity(user="ann", client_id="app"), ("ann", "app")),
    (entity(user="ann", client_id=None), ("ann", "app")),
    (entity(user="ann"), ("ann", "")),
    (entity(user=None, client_id="app"), ("ann", "app")),
    (entity(user=None, client_id=None), ("ann", "app")),
    (entity(user=None), ("ann", "")),
    (entity(client_id="app"), ("", "app")),
    (entity(client_id=None), ("", "app")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_most_specific_entity_decides(first: int) -> None:
    quotas = ClientQuotas({one: {PRODUCE: float(place)} for place, (one, _) in enumerate(ORDER) if place >= first})
    assert quotas.of_client(PRODUCE, "ann", "app") == Quota(float(first), ORDER[first][1])


def test_entity_without_this_kind_of_quota_is_passed_over() -> None:
    quotas = ClientQuotas({entity(user="ann"): {FETCH: 1.0}, entity(client_id="app"): {PRODUCE: 2.0}})
    assert quotas.of_client(PRODUCE, "ann", "app") == Quota(2.0, ("", "app"))


def test_other_clients_have_no_quota() -> None:
    quotas = ClientQuotas({entity(user="ann", client_id="app"): {PRODUCE: 1.0}})
    assert quotas.of_client(PRODUCE, "ann", "other") is None
    assert quotas.of_client(PRODUCE, "bob", "app") is None
    assert quotas.of_client(FETCH, "ann", "app") is None


def test_long_client_ids_are_not_kept() -> None:
    quotas = ClientQuotas({entity(client_id=None): {PRODUCE: 1.0}})
    for number in range(10):
        assert quotas.of_client(PRODUCE, "ann", f"{number}" * 30_000) is not None
    assert quotas.of_client(PRODUCE, "ann", "app") == Quota(1.0, ("", "app"))
    assert quotas.of_client(PRODUCE, "ann", "a" * 257) == Quota(1.0, ("", "a" * 256))
    assert sum(len(client_id) for _, _, client_id in quotas._found) < 1000


def test_found_quotas_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "_MAX_CACHED", 3)
    quotas = ClientQuotas({entity(client_id=None): {PRODUCE: 1.0}})
    assert quotas.of_client(PRODUCE, "ann", "app") is quotas.of_client(PRODUCE, "ann", "app")
    kept = []
    for number in range(6):
        quotas.of_client(PRODUCE, "ann", f"{number}")
        kept.append(len(quotas._found))
    assert kept == [2, 3, 1, 2, 3, 1]
    assert quotas.of_client(FETCH, "ann", "app") is None
    assert len(quotas._found) == 1


@pytest.mark.parametrize(("size", "is_kept"), [(253, True), (254, False)])
def test_names_of_at_most_256_characters_are_kept(size: int, is_kept: bool) -> None:
    quotas = ClientQuotas({entity(client_id=None): {PRODUCE: 1.0}})
    quotas.of_client(PRODUCE, "ann", "x" * size)
    assert bool(quotas._found) == is_kept
