import pytest

from broker.monitoring.rate import SampleWindow
from broker.quotas.client_quotas import FETCH, PRODUCE, REQUEST
from broker.quotas.quota_manager import QuotaManager
from controller.image import quota_entity

WINDOW = SampleWindow(11, 1000)
ANN = quota_entity([("user", "ann")])
EACH_CLIENT = quota_entity([("client-id", None)])


@pytest.fixture
def manager() -> QuotaManager:
    return QuotaManager(WINDOW)


def test_client_without_a_quota_is_never_throttled(manager: QuotaManager) -> None:
    assert manager.record(PRODUCE, "ann", "app", 1e12, 0) == 0


def test_clients_of_a_user_share_its_quota(manager: QuotaManager) -> None:
    manager.apply({ANN: {PRODUCE: 100.0}})
    assert manager.record(PRODUCE, "ann", "one", 1000, 0) == 0
    assert manager.record(PRODUCE, "ann", "two", 1000, 0) == 10_000
    assert manager.record(PRODUCE, "bob", "one", 9999, 0) == 0


def test_default_quota_is_counted_for_each_client(manager: QuotaManager) -> None:
    manager.apply({EACH_CLIENT: {PRODUCE: 100.0}})
    assert manager.record(PRODUCE, "ann", "one", 1000, 0) == 0
    assert manager.record(PRODUCE, "ann", "two", 1000, 0) == 0
    assert manager.record(PRODUCE, "bob", "two", 1000, 0) == 10_000


def test_request_quota_throttles_for_one_sample_at_most(manager: QuotaManager) -> None:
    manager.apply({ANN: {REQUEST: 1.0}})
    assert manager.record(REQUEST, "ann", "app", 5000, 0) == 1000


def test_removed_quota_throttles_no_more(manager: QuotaManager) -> None:
    manager.apply({ANN: {PRODUCE: 1.0}})
    assert manager.record(PRODUCE, "ann", "app", 1000, 0) > 0
    manager.apply({})
    assert manager.record(PRODUCE, "ann", "app", 1000, 0) == 0


def test_memory_is_bounded_by_the_clients_of_one_window(manager: QuotaManager) -> None:
    manager.apply({EACH_CLIENT: {PRODUCE: 1e9}})
    for number in range(5000):
        manager.record(PRODUCE, "ann", f"client-{number}", 1, 100 * number)
    assert manager.clients <= 500


def test_infinite_quota_of_a_user_lifts_the_default(manager: QuotaManager) -> None:
    manager.apply({ANN: {PRODUCE: float("inf")}, quota_entity([("user", None)]): {PRODUCE: 1.0}})
    assert manager.record(PRODUCE, "ann", "app", 1000, 0) == 0
    assert manager.record(PRODUCE, "bob", "app", 1000, 0) > 0
    assert manager.clients == 1


def test_new_client_may_come_while_usages_are_read(manager: QuotaManager) -> None:
    manager.apply({EACH_CLIENT: {PRODUCE: 100.0}})
    manager.record(PRODUCE, "ann", "one", 1, 0)
    manager.record(PRODUCE, "ann", "two", 1, 0)
    usages = manager.usages(PRODUCE, 0)
    next(usages)
    manager.record(PRODUCE, "ann", "three", 1, 0)
    assert [client_id for (_, client_id), _ in usages] == ["two"]


def test_usages_of_a_kind_have_their_throttle_times(manager: QuotaManager) -> None:
    manager.apply({ANN: {PRODUCE: 100.0, FETCH: 1000.0}})
    manager.record(PRODUCE, "ann", "app", 2000, 0)
    manager.record(FETCH, "ann", "app", 2000, 0)
    for kind, average_ms in ((PRODUCE, 10_000.0), (FETCH, 0.0)):
        [(shared_by, usage)] = manager.usages(kind, 0)
        assert (shared_by, usage.throttle_times.average_ms(0)) == (("ann", ""), average_ms)


def test_quotas_in_force_are_applied_once(manager: QuotaManager) -> None:
    quotas = {ANN: {PRODUCE: 100.0}}
    manager.apply(quotas)
    first = manager._quotas
    manager.apply(quotas)
    assert manager._quotas is first
    manager.apply(dict(quotas))
    assert manager._quotas is not first
