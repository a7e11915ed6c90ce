"""A Raft driver as the controller of one broker, for its own tests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from broker.metadata.raft_driver import RaftDriver
from broker.settings import Option, check_settings
from controller.commands.brokers import unfence_broker
from controller.commands.registration import register_broker
from controller.image import Endpoint, MetadataImage
from protocol.errors import InvariantError
from storage.checkpoint import MetaProperties
from storage.disk import Disk, OsDisk
from storage.log_directory import LogDirectory
from tests.unit.broker.controller_node import CLUSTER_ID
from tests.unit.broker.node import LISTENER
from tests.unit.controller.cluster import new_registration


class RaftRig:
    """A Raft driver that is the only voter, on a real disk. The clock stands still unless a test moves `now`."""

    def __init__(self, path: str, disk: Disk | None = None) -> None:
        self.path = path
        self.disk = disk or OsDisk()
        self.loop = asyncio.new_event_loop()
        self.random = Random(1)
        self.now = 1_700_000_000_000
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self.settings = check_settings({})
        self.raft: RaftDriver
        self.directory: LogDirectory | None = None

    @property
    def image(self) -> MetadataImage:
        return self.raft.image

    def start(self, settings: Mapping[str, str] | None = None, *, join: bool = True) -> None:
        """Open the directory and start; with `join`, register the broker and unfence it."""
        self.settings = check_settings({name: Option(text, "test") for name, text in (settings or {}).items()})
        self.directory = directory = LogDirectory(self.disk, self.path)
        directory.open()
        if directory.meta is None:
            directory.format(MetaProperties(CLUSTER_ID, self.settings.node_id, b"directory-number"))
        self.raft = RaftDriver(
            self.disk,
            directory,
            self.settings,
            cluster_id=CLUSTER_ID,
            loop=self.loop,
            now_ms=lambda: self.now,
            random=self.random,
        )
        self.wait(self.raft.start())
        if join:
            self.register()

    def register(self, broker_id: int = 1, listeners: Mapping[str, Endpoint] | None = None) -> int:
        """Register a broker and unfence it; return its epoch."""
        endpoints = listeners if listeners is not None else {LISTENER: Endpoint(f"host{broker_id}", 9092)}
        request = new_registration(
            broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.random.randbytes(16),
            endpoints=endpoints,
            directories=[bytes([broker_id]) * 16],
        )
        answer = self.wait(self.raft.submit(lambda image: register_broker(image, request, self.settings)))
        epoch: int = answer.broker_epoch
        self.wait(self.raft.submit(lambda image: unfence_broker(image, broker_id, epoch)))
        return epoch

    def stop(self) -> None:
        if self.directory is not None:
            self.wait(self.raft.stop())
            self.directory.close(clean=not self.failures)
            self.directory = None

    def crash(self) -> None:
        """Leave everything as a killed process does."""
        assert self.directory is not None
        self.directory.close(clean=False)
        self.directory = None

    def close(self) -> None:
        with suppress(InvariantError):
            self.stop()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def wait(self, outcome: Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(outcome, 30)

        return self.loop.run_until_complete(bounded())
