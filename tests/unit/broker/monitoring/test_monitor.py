from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from broker.log_dirs.ownership import CannotStart
from broker.monitoring.monitor import TABLES
from broker.replication.delayed_fetch import DelayedFetch
from broker.replication.delayed_produce import DelayedDeleteRecords, DelayedProduce
from broker.runtime.purgatory import DelayedOperation
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.record_batch import build_batch
from tests.certificates import Certificates
from tests.repo.tree import ROOT
from tests.typed import present
from tests.unit.broker.monitoring.conftest import Monitored

TOPIC = "orders"
VALUE = b"value"

QUERIED = (ROOT / "tests/golden/metrics/asked_for.txt").read_text(encoding="utf-8").split()


def produce(
    monitored: Monitored, *values: bytes, partition: int = 0, acks: int = 1
) -> tuple[ProduceResponse.Topic.Partition, int]:
    records = build_batch([(None, value) for value in values])
    data = ProduceRequest.Topic.Partition(index=partition, records=records)
    topic = ProduceRequest.Topic(name=TOPIC, partition_data=[data])
    answer = monitored.call(ApiKey.PRODUCE, 9, acks=acks, timeout_ms=1000, topic_data=[topic])
    return answer.responses[0].partition_responses[0], len(records)


def fetch_request(offset: int, wait_ms: int) -> dict[str, list[FetchRequest.Topic] | int]:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchRequest.Topic(topic=TOPIC, partitions=[partition])
    return {"max_wait_ms": wait_ms, "min_bytes": 1, "topics": [topic]}


def fetch(monitored: Monitored, offset: int = 0) -> FetchResponse:
    result: FetchResponse = monitored.call(ApiKey.FETCH, 11, **fetch_request(offset, 0))
    return result


def join(monitored: Monitored, group: str) -> None:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    answer = monitored.call(
        ApiKey.JOIN_GROUP,
        2,
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
    )
    assert answer.error_code == 0


def commit(monitored: Monitored, group: str, offset: int, partition: int = 0, topic: str = TOPIC) -> None:
    committed = OffsetCommitRequest.Topic.Partition(
        partition_index=partition, committed_offset=offset, committed_metadata=""
    )
    topics = [OffsetCommitRequest.Topic(name=topic, partitions=[committed])]
    answer = monitored.call(ApiKey.OFFSET_COMMIT, 5, group_id=group, member_id="", topics=topics)
    assert answer.topics[0].partitions[0].error_code == 0


@pytest.fixture
def used(monitored: Monitored) -> Monitored:
    """A broker with a topic of two partitions, three records and a group."""
    monitored.wait(monitored.node.create_topic(TOPIC, 2))
    produce(monitored, VALUE, VALUE, VALUE)
    while monitored.call(ApiKey.FIND_COORDINATOR, 0, key="readers").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        pass  # it creates the topic
    while not (groups := monitored.broker.group_coordinator) or not groups.runtime.active_shards():
        monitored.wait(asyncio.sleep(0))
    return monitored


def test_every_dashboard_metric_has_a_sample(used: Monitored) -> None:
    fetch(used)
    join(used, "members")
    commit(used, "readers", 1)
    found = {name for name, _ in used.series()}
    assert not set(QUERIED) - found


def test_every_sample_carries_the_labels_that_are_documented(used: Monitored) -> None:
    commit(used, "readers", 1)
    documented = {column.name: set(labels) for _, columns, labels in TABLES for column in columns}
    for name, labels in used.series():
        names = {label for label, _ in labels}
        # Totals over all topics have no topic label.
        assert names == documented[name] or (name.startswith("kafka_server_brokertopicmetrics_") and not names), name


def test_metric_names_are_unique_and_valid_in_prometheus() -> None:
    names = [column.name for table in TABLES for column in table.columns]
    assert len(set(names)) == len(names)
    assert not [name for name in names if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]
    types = {column.name: column.type for table in TABLES for column in table.columns}
    assert not [name for name, found in types.items() if name.endswith("_total") and found != "counter"]


def test_records_and_bytes_are_counted_by_topic_and_in_total(used: Monitored) -> None:
    before = present(used.value("kafka_server_brokertopicmetrics_messagesin_total"))
    answer, size_bytes = produce(used, VALUE, VALUE)
    assert answer.error_code == 0
    assert used.value("kafka_server_brokertopicmetrics_messagesin_total", topic=TOPIC) == 5
    assert used.value("kafka_server_brokertopicmetrics_messagesin_total") == before + 2
    assert used.value("kafka_server_brokertopicmetrics_totalproducerequests_total", topic=TOPIC) == 2
    assert used.value("kafka_log_log_logendoffset", topic=TOPIC, partition="0") == 5
    bytes_in = present(used.value("kafka_server_brokertopicmetrics_bytesin_total", topic=TOPIC))
    assert bytes_in == used.value("kafka_log_log_size", topic=TOPIC, partition="0")
    assert bytes_in > size_bytes


def test_bytes_out_counts_bytes_of_sent_records(used: Monitored) -> None:
    (answer,) = fetch(used).responses[0].partitions
    fetch(used, offset=3)
    assert used.value("kafka_server_brokertopicmetrics_bytesout_total", topic=TOPIC) == len(answer.records)  # type: ignore[arg-type]  # only this comes here
    assert used.value("kafka_server_brokertopicmetrics_totalfetchrequests_total", topic=TOPIC) == 2


def test_rejected_bytes_and_failed_produce_requests_are_counted_separately(used: Monitored) -> None:
    answer, _ = produce(used, bytes(2 << 20))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert present(used.value("kafka_server_brokertopicmetrics_bytesrejected_total", topic=TOPIC)) > 2 << 20
    assert used.value("kafka_server_brokertopicmetrics_failedproducerequests_total", topic=TOPIC) == 0
    answer, _ = produce(used, VALUE, acks=7)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert used.value("kafka_server_brokertopicmetrics_failedproducerequests_total", topic=TOPIC) == 1


def test_requests_are_counted_and_timed_by_api(used: Monitored) -> None:
    before = present(used.value("kafka_network_requestmetrics_requests_total", request="Produce", version="9"))
    produce(used, VALUE)
    fetch(used)
    assert used.value("kafka_network_requestmetrics_requests_total", request="Produce", version="9") == before + 1
    for request in ("Produce", "Fetch", "FetchConsumer"):
        median = present(used.value("kafka_network_requestmetrics_totaltimems", request=request, quantile="0.50"))
        assert 0 < median < 10_000
    assert used.value("kafka_network_requestmetrics_totaltimems_count", request="Fetch") == 1


def test_errors_are_counted_by_api_and_code(used: Monitored) -> None:
    def errors(request: str, error: str) -> float | None:
        return used.value("kafka_network_requestmetrics_errors_total", request=request, error=error)

    assert errors("Produce", "NONE") == 1
    produce(used, VALUE)
    produce(used, VALUE, partition=7)
    produce(used, bytes(2 << 20))
    assert errors("Produce", "NONE") == 2
    assert errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert errors("Produce", "MESSAGE_TOO_LARGE") == 1
    fetch(used)
    fetch(used, offset=99)
    assert errors("Fetch", "NONE") == 1
    assert errors("Fetch", "OFFSET_OUT_OF_RANGE") == 1


def test_lag_is_log_end_minus_committed_offset(used: Monitored) -> None:
    commit(used, "readers", 1)
    commit(used, "readers", 0, partition=1)
    where = {"consumergroup": "readers", "topic": TOPIC}
    assert used.value("kafka_consumergroup_lag", **where, partition="0") == 2
    assert used.value("kafka_consumergroup_lag", **where, partition="1") == 0
    assert used.value("kafka_consumergroup_current_offset", **where, partition="0") == 1
    assert used.value("kafka_consumergroup_lag_sum", **where) == 2
    assert used.value("kafka_consumergroup_current_offset_sum", **where) == 1
    assert used.value("kafka_consumergroup_members", consumergroup="readers") == 0


def test_groups_are_counted_by_state(used: Monitored) -> None:
    join(used, "members")
    commit(used, "readers", 1)
    state = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert used.value(state) == 2
    assert used.value(state + "completingrebalance") == 1
    assert used.value(state + "empty") == 1
    assert used.value("kafka_consumergroup_members", consumergroup="members") == 1


def test_deferred_fetch_is_in_the_purgatory_size(used: Monitored) -> None:
    waiting = used.loop.create_task(used.query(ApiKey.FETCH, 11, **fetch_request(3, 30_000)))
    while not list(used.broker.purgatory.waiting()):
        used.wait(asyncio.sleep(0))
    assert used.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") == 1
    assert used.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Produce") == 0
    assert not used.value("kafka_network_requestmetrics_totaltimems_count", request="Fetch")
    produce(used, VALUE)
    used.wait(waiting)
    assert used.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation="Fetch") == 0
    assert used.value("kafka_network_requestmetrics_totaltimems_count", request="Fetch") == 1


def test_page_is_served_over_http_unchanged(used: Monitored) -> None:
    status, body = used.get("/metrics")
    assert status == 200
    assert {family.name for family in text_string_to_metric_families(body)} == {
        family.name for family in text_string_to_metric_families(used.page())
    }


def test_page_of_ten_thousand_partitions_does_not_block_the_loop(used: Monitored) -> None:
    used.wait(used.node.create_topic("many", 200))
    some = used.broker.replicas._partitions
    some.update({("copies", number): some["many", number % 200] for number in range(9_800)})
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    watching = used.loop.create_task(others())
    status, body = used.get("/metrics")
    watching.cancel()
    for number in range(9_800):
        del some["copies", number]
    assert status == 200
    assert body.count("\nkafka_log_log_size{") > 10_000 - 10
    assert turns > 20


def test_probes_report_readiness(stopped: Monitored) -> None:
    stopped.build()
    stopped.wait(stopped.node._start_monitor())
    assert stopped.get("/healthz") == (200, "ok\n")
    assert stopped.get("/readyz") == (503, "the broker is starting\n")
    status, body = stopped.get("/metrics")
    assert status == 200
    assert "process_cpu_seconds_total" in body
    assert "kafka_" not in body
    stopped.wait(present(stopped.node.monitor).stop())


@pytest.mark.parametrize("kind", ["Fetch", "Produce", "DeleteRecords"])
def test_the_purgatory_is_counted_by_kind_of_operation(kind: str, used: Monitored) -> None:
    class Waiting(DelayedOperation):
        def expire(self) -> None:
            pass

    Waiting.kind = kind
    used.broker.purgatory.expire_at(Waiting(), used.loop.time() + 30)
    sizes = {
        one: used.value("kafka_server_delayedoperationpurgatory_purgatorysize", delayedOperation=one)
        for one in ("Fetch", "Produce", "DeleteRecords")
    }
    assert sizes == {"Fetch": 0, "Produce": 0, "DeleteRecords": 0, kind: 1}


def test_the_kinds_of_deferred_operations_are_those_that_are_counted() -> None:
    assert {DelayedProduce.kind, DelayedFetch.kind, DelayedDeleteRecords.kind} == {"Fetch", "Produce", "DeleteRecords"}


def test_metrics_with_tls_use_the_key_store_of_their_own_listener(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificates = Certificates(tmp_path)
    made = Monitored(
        str(tmp_path / "data"),
        barnabas_metrics_listener="127.0.0.1:0",
        barnabas_metrics_token="secret",
        barnabas_metrics_security_protocol="SSL",
        listener_name_metrics_ssl_keystore_type="PEM",
        listener_name_metrics_ssl_keystore_location=str(certificates.broker),
    )
    caplog.set_level("INFO", "broker")
    made.wait(made.start())

    async def status(authorization: str) -> int:
        trusting = ssl.create_default_context(cafile=certificates.trusted)
        reader, writer = await asyncio.open_connection("127.0.0.1", made.http_port, ssl=trusting)
        writer.write(f"GET /metrics HTTP/1.1\r\n{authorization}\r\n".encode())
        answer = await reader.read()
        writer.close()
        return int(answer.split()[1])

    assert made.wait(status("Authorization: Bearer secret\r\n")) == 200
    assert made.wait(status("")) == 401
    assert f"Metrics are at https://127.0.0.1:{made.http_port}/metrics" in caplog.text
    made.wait(made.stop())
    made.loop.close()


def test_metrics_with_tls_need_a_certificate(tmp_path: Path) -> None:
    made = Monitored(
        str(tmp_path / "data"), barnabas_metrics_listener="127.0.0.1:0", barnabas_metrics_security_protocol="SSL"
    )
    with pytest.raises(CannotStart, match=r"^listener METRICS: a listener with TLS needs a certificate"):
        made.wait(made.start())
    made.loop.close()
