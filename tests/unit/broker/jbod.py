"""A whole broker with two log directories, and a topic of one partition in one of them: fixture `jbod`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.record_batch import build_batch
from storage.log.log import Log
from storage.log_directory import LogDirectory
from tests.disks import FaultyDisk
from tests.unit.broker.whole_broker import WholeBroker

_Dir = AlterReplicaLogDirsRequest.Dir

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


class Jbod(WholeBroker):
    """A broker with two directories and a topic of one partition."""

    def __init__(self, folder: Path, disk: FaultyDisk) -> None:
        super().__init__(",".join(str(folder / name) for name in ("first", "second")), disk)
        self.wait(self.start())

    @property
    def log(self) -> Log:
        log = self.broker.logs.get("t", 0)
        assert log is not None
        return log

    @property
    def home(self) -> LogDirectory:
        return self.broker.logs.directory_of(self.log)

    @property
    def other(self) -> LogDirectory:
        [other] = (directory for directory in self.broker.logs.directories if directory is not self.home)
        return other

    @property
    def assigned(self) -> bytes:
        """Return the replica's directory in the metadata."""
        state = self.broker.image.partition("t", 0)
        assert state is not None
        return state.directories[0]

    def create(self) -> None:
        self.wait(self.node.create_topic("t", 1))

    def fill(self, batches: int = 10, size: int = 50_000) -> None:
        for _ in range(batches):
            batch = build_batch([(None, b"v" * size)], timestamp_ms=self.broker.now_ms())
            self.broker.replicas.append(self.broker.replicas.partition("t", 0), memoryview(batch), 1)

    def until(self, condition: Callable[[], object]) -> None:
        deadline = self.loop.time() + 30
        while not condition():
            assert self.loop.time() < deadline
            self.wait(asyncio.sleep(0.001))

    def move(self, path: str, *partitions: tuple[str, int]) -> list[ErrorCode]:
        """Send AlterReplicaLogDirs over the wire; return the error codes."""
        topics = [_Dir.Topic(name=topic, partitions=[index]) for topic, index in partitions or [("t", 0)]]
        response = self.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=[_Dir(path=path, topics=topics)])
        return [ErrorCode(one.error_code) for topic in response.results for one in topic.partitions]

    def described(self) -> dict[str, list[tuple[int, int, bool]]]:
        """Return by directory the topic's entries in DescribeLogDirs: size, lag and whether it is a future replica."""
        topics = [DescribeLogDirsRequest.Topic(topic="t", partitions=[0])]
        return {
            Path(result.log_dir).name: [
                (one.partition_size, one.offset_lag, one.is_future_key)
                for topic in result.topics
                for one in topic.partitions
            ]
            for result in self.call(ApiKey.DESCRIBE_LOG_DIRS, 5, topics=topics).results
        }

    def throttle(self, rate: int | None) -> None:
        entry = IncrementalAlterConfigsRequest.Resource.Config(
            name=RATE, config_operation=0 if rate is not None else 1, value=None if rate is None else str(rate)
        )
        resource = IncrementalAlterConfigsRequest.Resource(resource_type=4, resource_name="", configs=[entry])
        [answer] = self.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert answer.error_code == 0

    def end(self) -> None:
        if not self.loop.is_closed():
            self.wait(self.stop())
            self.loop.close()
