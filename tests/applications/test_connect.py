"""Kafka Connect, standalone and distributed, with its file connectors."""

from pathlib import Path

from tests.applications.connect import COMPLETE_TRANSACTIONS, Worker, file_sink, file_source, write_properties
from tests.applications.topics import Reader, create_topics
from tests.broker_process import QUICK_GROUPS, BrokerProcess
from tests.chaos.cluster import Cluster, wait_until

LINES = 2000


def append(file: Path, first: int, count: int = LINES) -> list[str]:
    """Append numbered lines to a file, and return them."""
    lines = [f"line {number}" for number in range(first, first + count)]
    with open(file, "a") as output:
        output.write("".join(f"{line}\n" for line in lines))
    return lines


def lines_of(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def test_standalone_worker_carries_a_file_through_a_topic_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    with BrokerProcess(tmp_path / "broker", QUICK_GROUPS) as broker:
        create_topics(broker.bootstrap, ["lines"])
        worker = Worker(
            "ConnectStandalone",
            tmp_path / "worker",
            {"bootstrap.servers": broker.bootstrap, "offset.storage.file.filename": tmp_path / "offsets"},
            write_properties(tmp_path / "source.properties", file_source("source", source, "lines")),
            write_properties(tmp_path / "sink.properties", file_sink("sink", "lines", sink)),
        )
        lines = append(source, 0)
        with worker:
            wait_until(lambda: lines_of(sink) == lines, "the first lines in the sink")
            worker.stop()
            lines += append(source, LINES)
            worker.start()
            wait_until(lambda: lines_of(sink) == lines, lambda: f"the lines in the sink: {len(lines_of(sink))}")
            worker.stop()
        with Reader(broker.bootstrap, "lines") as reader:
            assert [record.value for record in reader.read_to_end()["lines"]] == lines
        broker.stop()
        broker.check_log()


DISTRIBUTED = {
    "group.id": "connect",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "offset.storage.partitions": 2,
    "status.storage.partitions": 2,
    "offset.flush.interval.ms": 500,
    # A killed worker's tasks move as soon as its session has ended.
    "scheduled.rebalance.max.delay.ms": 0,
    "session.timeout.ms": 3000,
    "heartbeat.interval.ms": 500,
    "exactly.once.source.support": "enabled",
    "producer.transaction.timeout.ms": 10_000,
}


def test_distributed_source_is_exactly_once_though_its_worker_is_killed_and_connectors_pause_and_restart(
    cluster: Cluster, tmp_path: Path
) -> None:
    source, sink, other = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "other.txt"
    create_topics(cluster.bootstrap, ["lines", "others"])
    settings = {"bootstrap.servers": cluster.bootstrap, **DISTRIBUTED}
    first, second = workers = [
        Worker("ConnectDistributed", tmp_path / f"worker-{number}", settings) for number in (1, 2)
    ]
    lines = append(source, 0)
    with first, second, Reader(cluster.bootstrap, "lines") as reader:
        for worker in workers:
            worker.wait_until_ready()
        exactly_once: dict[str, object] = {"exactly.once.support": "required", "transaction.boundary": "poll"}
        exactly_once |= COMPLETE_TRANSACTIONS
        # A file source that reaches its batch size keeps the lines that it has read until the file grows.
        exactly_once["batch.size"] = 1_000_000
        for config in (
            file_source("source", source, "lines", **exactly_once),
            file_source("other", other, "others", **exactly_once),
            file_sink("sink", "lines", sink),
        ):
            first.change("PUT", f"connectors/{config['name']}/config", config)
        for name in ("source", "sink"):
            first.wait_for_state(name, "RUNNING")
        reader.read_until(lambda records: len(records["lines"]) > 0, "the first lines committed")
        killed = next(worker for worker in workers if worker.address == first.host_of("source"))
        left = second if killed is first else first
        with Reader(cluster.bootstrap, "lines", isolation="read_uncommitted") as early:
            early.read_to_end()
            lines += append(source, len(lines), 10 * LINES)
            early.read_more("lines", "the first lines of an open transaction")
            killed.kill()
        assert len(reader.read_to_end()["lines"]) < len(lines)
        wait_until(lambda: left.host_of("source") == left.address, "the task runs at the other worker")
        reader.read_until(lambda records: len(records["lines"]) >= len(lines), "the lines in the topic")
        killed.start()
        killed.wait_until_ready()
        # Paused over REST: nothing is read, while the other connector goes on.
        left.change("PUT", "connectors/source/pause")
        left.wait_for_state("source", "PAUSED")
        paused = append(source, len(lines), 100)
        append(other, 0, 100)
        with Reader(cluster.bootstrap, "others") as others:
            others.read_until(lambda records: len(records["others"]) == 100, "lines of the other connector")
        assert len(reader.read_to_end()["lines"]) == len(lines)
        lines += paused
        left.change("PUT", "connectors/source/resume")
        left.wait_for_state("source", "RUNNING")
        reader.read_until(lambda records: len(records["lines"]) >= len(lines), "the lines of the pause")
        for name in ("source", "sink"):
            left.change("POST", f"connectors/{name}/restart?includeTasks=true")
        lines += append(source, len(lines), 100)
        reader.read_until(lambda records: len(records["lines"]) >= len(lines), "the lines after the restart")
        wait_until(lambda: set(lines_of(sink)) == set(lines), lambda: f"lines in the sink: {len(lines_of(sink))}")
        for worker in workers:
            worker.stop()
        assert [record.value for record in reader.read_to_end()["lines"]] == lines
