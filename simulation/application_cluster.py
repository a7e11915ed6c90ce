"""What a simulated application sees of its cluster: brokers that it can break, topics, and processes of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from signal import SIGTERM
from typing import Any, NamedTuple, TypeVar

from broker.control.partition_reader import PartitionReader
from broker.metadata.topic_creation import create_by_controller
from broker.replication.partition import Isolation
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.create_topics import CreateTopicsRequest
from simulation.application_loop import ApplicationLoop
from simulation.cluster import PORT, Host, World
from simulation.loop import Loop

T = TypeVar("T")

_STEP_S = 0.01
_LONGEST_CREATION_S = 60.0
_ATTEMPT_S = 5.0
_ALL = 1 << 62


class CommittedRecord(NamedTuple):
    """A committed record of a topic."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class ApplicationBroker:
    """A broker and its machine."""

    def __init__(self, host: Host, cluster: ApplicationCluster) -> None:
        self._host = host
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<ApplicationBroker {self._host}>"

    @property
    def node_id(self) -> int:
        return self._host.node_id

    @property
    def bootstrap(self) -> str:
        return f"{self._host.name}:{PORT}"

    @property
    def running(self) -> bool:
        """Return whether its process runs and serves."""
        return self._host.state == "up"

    def kill(self) -> None:
        """End the process, as kill -9 does."""
        self._host.crash()

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._host.state in ("off", "failed"):
            self._host.start()

    async def stop(self) -> None:
        """Shut the process down in order, as SIGTERM does; return when it has ended."""
        self._host.stop()
        while self._host.state == "stopping":
            await asyncio.sleep(_STEP_S)

    async def restart(self) -> None:
        """Stop it in order and start it; return when it serves."""
        await self.stop()
        self.start()
        while self._host.state == "starting":
            await asyncio.sleep(_STEP_S)

    def pause(self) -> None:
        """Stop the process without ending it, as SIGSTOP does."""
        self._host.pause()

    def resume(self) -> None:
        """Let a paused process go on."""
        self._host.resume()

    def cut_off(self) -> None:
        """Let nothing pass between this broker and any other host until `reconnect`."""
        self._set_links(up=False)

    def reconnect(self) -> None:
        """End `cut_off`."""
        self._set_links(up=True)

    def _set_links(self, *, up: bool) -> None:
        network, own = self._host.world.network, self._host.name
        for other in self._cluster.hosts:
            if other != own:
                network.link(own, other).up = network.link(other, own).up = up


class ApplicationProcess:
    """A process of the application on a machine of its own."""

    def __init__(
        self,
        cluster: ApplicationCluster,
        name: str,
        function: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        *,
        restart: bool,
    ) -> None:
        self.name = name
        self.restart = restart
        """Whether faults may kill it; it starts again then."""
        self.starts = 0
        self._cluster = cluster
        self._function, self._args = function, args
        self._loop: ApplicationLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._waiting: list[tuple[Loop, asyncio.Future[Any]]] = []
        self._outcome: tuple[Any, BaseException | None] | None = None

    def __repr__(self) -> str:
        return f"<ApplicationProcess {self.name} ({'running' if self.running else 'not running'})>"

    @property
    def running(self) -> bool:
        return self._loop is not None and not self._loop.dead

    def start(self) -> None:
        """Start the process, unless it runs: call its function anew."""
        if self.running:
            return
        schedule = self._cluster.world.schedule
        self.starts += 1
        self._outcome = None
        self._loop = loop = schedule.add(ApplicationLoop(schedule, self.name, len(schedule.loops)))  # type: ignore[abstract]
        loop.on_read = self._has_read
        self._cluster.world.network.power_on(self.name)
        self._task = loop.create_task(self._function(*self._args), name=self.name)
        self._task.add_done_callback(lambda task: self._cluster.fate.call_soon(self._has_ended, loop, task))

    def kill(self) -> None:
        """End the process at once, as kill -9 does."""
        if self._loop is not None and self.running:
            self._loop.die()
            self._cluster.world.network.process_died(self._loop, power=False)

    def terminate(self) -> None:
        """Send SIGTERM: call the handler for it, or without one cancel the function."""
        if self._loop is None or self._task is None or not self.running:
            return
        handler = self._loop.signal_handlers.get(SIGTERM, self._task.cancel)
        self._loop.call_soon(handler)

    async def wait(self) -> Any:
        """Return what the function has returned, or raise what it has raised."""
        return await self.ended(asyncio.get_running_loop())

    def ended(self, loop: Any) -> asyncio.Future[Any]:
        """Return a future of `loop` with the outcome of the process."""
        future: asyncio.Future[Any] = loop.create_future()
        if self._outcome is not None:
            _settle(future, *self._outcome)
        else:
            self._waiting.append((loop, future))
        return future

    def _has_read(self) -> None:
        if self._cluster.on_read is not None:
            self._cluster.on_read(self)

    def _has_ended(self, loop: ApplicationLoop, task: asyncio.Task[Any]) -> None:
        if loop.dead:
            return
        loop.die()
        self._cluster.world.network.process_died(loop, power=False)
        error = None
        if not task.cancelled():
            error = task.exception()
        self._outcome = (None if task.cancelled() or error is not None else task.result(), error)
        if error is not None and not self._waiting:
            self._cluster.world.report(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        for waiting, future in self._waiting:
            waiting.call_soon(_settle, future, *self._outcome)
        self._waiting.clear()


class ApplicationCluster:
    """The cluster and the processes of a run."""

    def __init__(
        self, world: World, fate: Loop, heal: Callable[[], Coroutine[Any, Any, None]], clients: list[str]
    ) -> None:
        self.world = world
        self.fate = fate
        self.seed = world.seed
        self.random = world.random("users")
        """The run's chance, for what the application's test decides at random."""
        self.brokers = [ApplicationBroker(host, self) for host in world.hosts]
        self.bootstrap = ",".join(broker.bootstrap for broker in self.brokers)
        self.processes: list[ApplicationProcess] = []
        self.on_read: Callable[[ApplicationProcess], None] | None = None
        """Called with a process that has read from a connection."""
        self._heal = heal
        self._clients = clients

    @property
    def hosts(self) -> list[str]:
        """Return the names of all machines."""
        return [*(host.name for host in self.world.hosts), *self._clients]

    @property
    def now(self) -> float:
        """Return the simulated time in s since the start."""
        return self.world.schedule.now

    def run(
        self,
        function: Callable[..., Coroutine[Any, Any, Any]],
        *args: Any,
        name: str | None = None,
        restart: bool = False,
    ) -> ApplicationProcess:
        """Start a process that runs `function(*args)`.

        It has an event loop and a machine of its own. With `restart`, the fault `crash` may kill it, and starts it
        again; `function` is called anew then.
        """
        name = name or f"p{len(self.processes) + 1}"
        if name in self.hosts:
            raise ValueError(f"name={name!r}: there is such a machine; choose a name of its own for each process")
        process = ApplicationProcess(self, name, function, args, restart=restart)
        self._clients.append(name)
        self.processes.append(process)
        process.start()
        return process

    async def topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic; return its name once every running broker knows its leaders."""
        configs = [
            CreateTopicsRequest.Topic.Config(name=key, value=str(value)) for key, value in (config or {}).items()
        ]
        topic = CreateTopicsRequest.Topic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor or -1,
            assignments=[],
            configs=configs,
        )
        await self._on_fate(self._create(topic))
        return name

    async def heal(self) -> None:
        """End all faults for the rest of the run, of which a few come first if the run had fewer.

        Return when all brokers serve and killed processes run again.
        """
        await self._on_fate(self._heal())
        for process in self.processes:
            if process.restart and process.starts and not process.running and process._outcome is None:
                process.start()

    def records(self, topic: str) -> list[CommittedRecord]:
        """Return the committed records of a topic as its leaders have them, at no time and through no network.

        Records of aborted and open transactions are left out. Raise RuntimeError while a partition has no leader that
        runs: call `heal()` first.
        """
        newest = max((image for image in self._images()), key=lambda image: image.offset)
        described = newest.topic(topic)
        if described is None:
            raise ValueError(f"no topic {topic!r}; there are: {', '.join(one.name for one in newest.topics())}")
        found: list[CommittedRecord] = []
        for index, state in sorted(described.partitions.items()):
            host = next((host for host in self.world.hosts if host.node_id == state.leader), None)
            partition = None
            if host is not None and host.state == "up" and host.broker is not None:
                partition = host.broker.replicas.find_named(topic, index)
            if partition is None or not partition.is_leader:
                raise RuntimeError(f"{topic}-{index} has no leader that runs; call heal() before records()")
            reader = PartitionReader(partition, Isolation.READ_COMMITTED, partition.log.log_start_offset)
            for one in reader.records(_ALL):
                headers = tuple((name.decode(), value) for name, value in one.headers)
                found.append(CommittedRecord(index, one.offset, one.timestamp, one.key, one.value, headers))
        return found

    async def serving(self) -> None:
        """Wait until all brokers know of each other."""
        while not all(
            sum(one.active for one in image.brokers.values()) == len(self.brokers) for image in self._images()
        ):
            await asyncio.sleep(_STEP_S)

    def _images(self) -> list[Any]:
        return [host.broker.image for host in self.world.hosts if host.state == "up" and host.broker is not None]

    async def _on_fate(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` outside of all processes, so that no fault reaches it."""
        loop = asyncio.get_running_loop()
        if loop is self.fate:
            return await work
        future: asyncio.Future[T] = loop.create_future()

        def done(task: asyncio.Task[T]) -> None:
            error = task.exception()
            loop.call_soon(_settle, future, None if error is not None else task.result(), error)

        self.fate.create_task(work).add_done_callback(done)
        return await future

    async def _create(self, topic: Any) -> None:
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(_ATTEMPT_S * 1000))
        deadline = self.now + _LONGEST_CREATION_S
        while True:
            host = next((host for host in self.world.hosts if host.state == "up" and host.broker is not None), None)
            if host is not None and await self._attempt(host, request):
                break
            if self.now > deadline:
                raise TimeoutError(f"topic {topic.name} was not created within {_LONGEST_CREATION_S:g} s")
            await asyncio.sleep(0.1)
        while not all(self._leads(image, topic.name) for image in self._images()):
            await asyncio.sleep(_STEP_S)

    async def _attempt(self, host: Host, request: CreateTopicsRequest) -> bool:
        """Return whether the topic exists; raise ValueError if it cannot be created."""
        loop, broker = host.loop, host.broker
        if loop is None or broker is None:
            return False
        future: asyncio.Future[Any] = self.fate.create_future()

        async def create() -> None:
            try:
                created = await create_by_controller(broker, request)
            except KafkaError as error:
                self.fate.call_soon(_settle, future, error, None)
            else:
                self.fate.call_soon(_settle, future, created, None)

        loop.create_task(create(), name="Host.create")
        try:
            async with asyncio.timeout(_ATTEMPT_S):
                answer = await future
        except TimeoutError:
            return False
        if isinstance(answer, KafkaError):
            return False
        [one] = answer.topics
        if one.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return True
        if one.error_code in (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NOT_CONTROLLER):
            return False  # too few brokers are active now
        raise ValueError(f"topic {one.name}: {ErrorCode(one.error_code).name}: {one.error_message or 'refused'}")

    def _leads(self, image: Any, name: str) -> bool:
        found = image.topic(name)
        return found is not None and all(state.leader >= 0 for state in found.partitions.values())


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
