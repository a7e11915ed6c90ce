"""A compacted topic of a broker, filled and then compacted on demand; and Apache Kafka's cleaner on the same data."""

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks._loopback import Client, request_frame
from benchmarks.start import apache_kafka, free_port, started, wait_for_answer
from protocol.api import ApiKey
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.produce import ProduceRequest

TOPIC = "compacted"
_TIMEOUT_S = 300.0
_AT_ONCE = 64
_REST_S = 5.0


@contextlib.contextmanager
def cleaned_by_kafka(batches: Iterable[bytes], segment_bytes: int) -> Iterator[tuple[Path, float]]:
    """Let Apache Kafka write a topic and compact it; yield a copy of the log before that, and the seconds it took.

    Measured from the configuration change that starts it to the entry in the cleaner checkpoint.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory, port = Path(folder), free_port()
        command = apache_kafka(directory, port)
        with open(directory / "server.properties", "a") as settings:
            settings.write("log.cleaner.backoff.ms=20\n")
        with started(command) as process:
            wait_for_answer(process, port)
            fill(port, TOPIC, batches, {"cleanup.policy": "compact", "segment.bytes": segment_bytes})
            copy = directory / "copy"
            shutil.copytree(directory / "data" / f"{TOPIC}-0", copy / f"{TOPIC}-0")
            time.sleep(_REST_S)
            begun = time.perf_counter()
            alter(port, TOPIC, "min.cleanable.dirty.ratio", "0")
            _wait(directory / "data")
            seconds = time.perf_counter() - begun
        yield copy, seconds


def fill(port: int, name: str, batches: Iterable[bytes], settings: Mapping[str, object]) -> None:
    """Create a topic of one partition with compaction disabled, and write the batches to it."""
    topics = CreateTopicsRequest.Topic
    configs = {"min.cleanable.dirty.ratio": 1, **settings}
    topic = topics(
        name=name,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[topics.Config(name=name, value=str(value)) for name, value in configs.items()],
    )
    client = Client(port)
    [answer] = client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic])).topics
    if answer.error_code:
        raise RuntimeError(answer.error_message)
    partitions = ProduceRequest.Topic.Partition
    frames: list[bytes] = []
    for batch in batches:
        data = [ProduceRequest.Topic(topic_id=answer.topic_id, partition_data=[partitions(index=0, records=batch)])]
        frames.append(request_frame(ApiKey.PRODUCE, 13, ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)))
        if len(frames) == _AT_ONCE:
            client.pipeline(frames, len(frames), 5)
            frames.clear()
    if frames:
        client.pipeline(frames, len(frames), 5)
    client.close()


def alter(port: int, topic: str, name: str, value: str) -> None:
    """Alter a configuration of a topic."""
    resources = IncrementalAlterConfigsRequest.Resource
    config = resources.Config(name=name, config_operation=0, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[resources(resource_type=2, resource_name=topic, configs=[config])], validate_only=False
    )
    client = Client(port)
    client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    client.close()


def compacted(directory: Path) -> bool:
    """Return whether the broker with this data directory has written the topic's cleaner checkpoint."""
    try:
        return f"{TOPIC} 0 " in (directory / "cleaner-offset-checkpoint").read_text()
    except FileNotFoundError:
        return False


def _wait(directory: Path) -> None:
    deadline = time.perf_counter() + _TIMEOUT_S
    while not compacted(directory):
        if time.perf_counter() > deadline:
            raise RuntimeError("Apache Kafka compacted nothing")
        time.sleep(0.01)
