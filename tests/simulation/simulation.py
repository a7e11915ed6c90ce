"""One run from a seed: brokers, clients and faults for a number of events; then all faults heal and the run must
finish.

At the end, producers, committers and administrators have to succeed once more, consumers have to reach the end, and all
replicas have to be in sync and equal; all acknowledged records must be readable, also after a clean restart of every
broker.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from controller.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from simulation.cluster import DATA_DIR, OTHER_DIR, Host, World, cluster_settings, logs_watched
from simulation.faults import Faults
from simulation.loop import Loop, Schedule, Trace
from simulation.network import Network
from simulation.violation import EVERYWHERE, IN_CLUSTERS, IN_CREDENTIALS, IN_TRANSACTIONS, Invariant, Violation
from tests.simulation.administration import (
    RecordsAdministrator,
    TopicAdministrator,
    create_topic,
    keep_eligible_replicas,
    set_config,
)
from tests.simulation.availability import lagging_follower_leaves
from tests.simulation.client import Client
from tests.simulation.convergence import difference
from tests.simulation.credentials import SETTINGS as WITH_CREDENTIALS
from tests.simulation.credentials import CredentialAdministrator
from tests.simulation.groups import Committer, Member
from tests.simulation.history import History
from tests.simulation.invariants import Invariants
from tests.simulation.lookups import Lookup
from tests.simulation.producers import Producer
from tests.simulation.rearrangement import Reassigner
from tests.simulation.transactional_workload import TransactionalWorkload
from tests.simulation.workload import Consumer, Topic, within

SETTINGS: Mapping[str, object] = {}
"""Settings of brokers that replace those that the seed chooses."""
CLUSTER_PAUSES_S = (0.2, 0.5, 1.5)
"""The usual time between two faults in a cluster; the seed chooses one."""

_HEALED_S = 90.0
_RETENTION_MS = 300_000
_EVENTS_TO_END = 100_000


class Outcome(NamedTuple):
    """The outcome of a run."""

    seed: int
    events: int
    seconds: float
    digest: str
    counts: dict[str, int]
    error: BaseException | None
    checked: Mapping[Invariant, int]
    """How often each invariant was checked."""


def run(seed: int, events: int, brokers: int = 1, *, transactions: bool = False, credentials: bool = False) -> Outcome:
    """Run a seed for `events` events and then to its end; with several `brokers`, as a cluster.

    With `transactions`, most clients are transactional; with `credentials`, most authenticate.
    """
    collecting = gc.isenabled()
    gc.disable()  # the time of a collection is not the seed's choice
    try:
        return Simulation(seed, events, brokers, transactions=transactions, credentials=credentials).run()
    finally:
        if collecting:
            gc.enable()


class Simulation:
    """The brokers of a seed, and their clients."""

    def __init__(
        self, seed: int, events: int, brokers: int = 1, *, transactions: bool = False, credentials: bool = False
    ) -> None:
        self._events = events
        trace = Trace()
        random = World.random_of(seed, "plan")
        self.schedule = schedule = Schedule(World.random_of(seed, "schedule"), trace)
        self.world = world = World(seed, schedule, Network(schedule, World.random_of(seed, "network")))
        world.always = random.random() < 0.5
        self.transactions = TransactionalWorkload(world) if transactions else None
        if transactions and brokers == 1:
            world.always = True  # a power cut may take an unsynced decision, and leave the records
        chosen: dict[str, object] = {
            "barnabas.fsync": "always" if world.always else "flush",
            "log.index.interval.bytes": random.choice((0, 500, 4096)),
            "log.flush.interval.messages": random.choice((1, 7, 2**63 - 1, 2**63 - 1)),
            "log.flush.offset.checkpoint.interval.ms": random.choice((500, 60_000)),
            "log.initial.task.delay.ms": 500,
            "max.incremental.fetch.session.cache.slots": random.choice((1, 2, 1000)),
            "metadata.log.max.record.bytes.between.snapshots": random.choice((500, 5_000, 20_000_000)),
            "metadata.log.segment.bytes": random.choice((8 * 1024 * 1024, 1 << 30)),
            "socket.request.max.bytes": 1 << 20,
            "connections.max.idle.ms": random.choice((5_000, 600_000)),
            "log.retention.check.interval.ms": 500,
            "offsets.retention.check.interval.ms": 5_000,
            "log.segment.delete.delay.ms": random.choice((500, 60_000)),
            "log.cleaner.backoff.ms": random.choice((100, 2_000)),
            "log.cleaner.min.cleanable.ratio": random.choice((0.01, 0.3)),
            "log.cleaner.delete.retention.ms": random.choice((0, 500, 86_400_000)),
        }
        if random.random() < 0.5:
            chosen["log.dirs"] = f"{DATA_DIR},{OTHER_DIR}"
        controllers = 0
        if brokers > 1:
            brokers, controllers = random.choice(((brokers, 0), (brokers, 0), (brokers, 3), (brokers, 3), (5, 0)))
            chosen |= {
                "default.replication.factor": 3,
                "min.insync.replicas": 2,
                "replica.lag.time.max.ms": random.choice((1_000, 4_000)),
                "replica.fetch.max.bytes": random.choice((1_000, 1 << 20)),
                "broker.session.timeout.ms": random.choice((1_000, 3_000)),
                "broker.heartbeat.interval.ms": 250,
                "controller.quorum.election.timeout.ms": random.choice((200, 1_000)),
                "controller.quorum.fetch.timeout.ms": random.choice((500, 2_000)),
                "leader.imbalance.check.interval.seconds": random.choice((1, 1, 300)),
            }
        if self.transactions is not None:
            chosen |= self.transactions.settings(brokers)
        if credentials:
            chosen |= WITH_CREDENTIALS
        chosen |= SETTINGS
        self._names = names = [f"b{number}" for number in range(1, brokers + 1)]
        nodes = names + [f"q{number}" for number in range(1, controllers + 1)]
        cluster: list[Host] = []
        cluster += [
            Host(world, name, cluster_settings(nodes, at, chosen, secured=credentials), cluster)
            for at, name in enumerate(nodes)
        ]
        self.history = History(world, always=world.always)
        transactional = None if self.transactions is None else self.transactions.invariants
        self.invariants = Invariants(world, self.history, transactional)
        for host in world.hosts:
            host.before_power_cut = self._before_power_cut
        self._random = random
        self._clients: list[Loop] = []
        self._fate = schedule.keeper = schedule.loop("fate")
        schedule.after_event = self._after_event
        self.topics: list[Topic] = []
        self._producers: list[Producer] = []
        self._committers: list[Committer] = []
        self._administrator: TopicAdministrator
        self._has_credentials = credentials
        self._credentials: list[CredentialAdministrator] = []

    def _before_power_cut(self, host: Host) -> None:
        self.world.power_cuts += 1
        if len(host.cluster) == 1:
            self.invariants.power_cut(host)
            self.history.power_cut({topic.name for topic in self.topics})

    def _after_event(self, loop: Loop) -> None:
        self.invariants.after(loop)
        world = self.world
        if world.found is not None:
            raise world.found
        if self.schedule.events >= self._events:
            world.stopping = True

    def run(self) -> Outcome:
        world, schedule = self.world, self.schedule
        schedule.most_events = self._events + _EVENTS_TO_END
        error: BaseException | None = None
        with logs_watched(world):
            try:
                schedule.run(self._fate, self._all())
            except (AssertionError, Exception) as raised:
                error = world.found or raised
            for loop in schedule.loops:
                loop.die()
        if error is None and (missing := self._unchecked()):
            error = Violation(Invariant.EVERY_CHECK_RAN, f"never checked: {', '.join(missing)}")
        world.count("checks", self.invariants.checks)
        return Outcome(
            world.seed, schedule.events, schedule.now, schedule.trace.digest, world.counts, error, world.checked
        )

    def _unchecked(self) -> list[str]:
        return unchecked(self.world, transactions=self.transactions is not None, credentials=self._has_credentials)

    def _client(self, name: str) -> Client:
        """Return a client in its own process, on a machine that it may share."""
        host = f"c{self.world.random(f'host of {name}').randint(1, 2)}"
        self.world.network.resolve(host)
        loop = self.schedule.loop(host)
        self._clients.append(loop)
        return Client(self.world, loop, name, self._names)

    def _begin(self, client: Client, actor: Producer | Consumer | TopicAdministrator | object) -> asyncio.Future[None]:
        """Run an actor in its own process; return an event that is set when it has finished."""
        done: asyncio.Future[None] = self._fate.create_future()
        task = client.loop.create_task(actor.run())  # type: ignore[union-attr]  # of a type that is known here

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.world.report(
                    error if isinstance(error, Exception) else Violation(Invariant.CLIENTS_END, repr(error))
                )
            done.set_result(None)

        task.add_done_callback(ended)
        return done

    async def _all(self) -> None:
        world, random = self.world, self._random
        for host in world.hosts:
            host.start()
        while any(host.state != "up" for host in world.hosts):
            await asyncio.sleep(0.01)
        setup = Client(world, self._fate, "setup", self._names)
        replicas = min(3, len(self._names))
        if world.clustered:
            await keep_eligible_replicas(setup, random.random() < 0.8)
        if self.transactions is not None:
            await self.transactions.prepare(setup, replicas, self._client)
        for name in ("steady0",) if self._few_others else ("steady0", "steady1", "compacted"):
            partitions, config = _topic(world.random(f"topic {name}"), name)
            self.topics.append(await create_topic(setup, name, partitions, replicas, config))
        actors = self._fewer_actors() if self._few_others else await self._actors(setup, replicas)
        working = [self._begin(actor.client, actor) for actor in actors]
        usual_pause_s = random.choice(CLUSTER_PAUSES_S if world.clustered else (0.3, 1.0, 3.0))
        faults = Faults(world, ("c1", "c2"), usual_pause_s)
        await faults.run()
        await within(world, _HEALED_S, "the brokers start", faults.heal())
        await within(world, _HEALED_S, "the clients end what they began", *working)
        await within(world, _HEALED_S, "a last round", self._last_round(self._producers, self._committers))
        await self._converge()
        if world.clustered:
            await lagging_follower_leaves(world, self._producers[0])
            await self._converge()
        await within(world, _HEALED_S, "every node reaches the others", self._connect())
        await within(world, _HEALED_S, "a topic is made", self._administrator.serve_at_once())
        await self._verify()
        await within(world, _HEALED_S, "the brokers stop and start", self._restart(faults))
        await self._converge()
        await self._verify()

    async def _actors(self, setup: Client, replicas: int) -> list[Any]:
        """Return the clients of a run without transactions."""
        world, random, history = self.world, self._random, self.history
        first = Committer(setup, history, self.topics[0])  # without offsets it may be created anew when empty
        first.group = "members"
        while not await first.commit(0):
            await asyncio.sleep(0.1)
        history.commits.clear()  # its members commit there, too
        bytes_of = world.random(CONSUMER_OFFSETS).choice((1_500, 4_000, 1 << 20))
        await set_config(setup, CONSUMER_OFFSETS, "internal.segment.bytes", str(bytes_of))
        steady, compacted = self.topics[:2], self.topics[2]
        producers = [
            Producer(self._client(f"producer{number}"), history, topic, idempotent=idempotent, acks=acks)
            for number, (topic, idempotent, acks) in enumerate(
                (
                    (random.choice(steady), True, -1),
                    (random.choice(steady), True, -1),
                    (random.choice(steady), False, -1),
                    (random.choice(self.topics), *random.choice(((False, 1), (True, 1), (False, 0)))),
                    (compacted, True, -1),
                )
            )
        ]
        consumers = [
            Consumer(self._client(f"consumer{number}"), history, topic) for number, topic in enumerate(self.topics)
        ]
        committers = [Committer(self._client(f"committer{number}"), history, self.topics[0]) for number in range(2)]
        members = [Member(self._client(f"member{number}"), history, self.topics[0], "members") for number in range(2)]
        administrator = TopicAdministrator(self._client("admin"), replicas)
        deleters = [RecordsAdministrator(self._client("deleter"), history, random.choice(steady))]
        for index in range(steady[1].partitions):
            history.partition(steady[1].name, index).retention_ms = _RETENTION_MS
        movers = []
        if world.clustered:
            brokers = [host.node_id for host in world.hosts if host.settings.is_broker]
            movers.append(Reassigner(self._client("mover"), self.topics, brokers))
        lookup = Lookup(self._client("lookup"), history, self.topics)
        self._producers, self._committers, self._administrator = producers, committers, administrator
        return [lookup, *producers, *consumers, *committers, *members, administrator, *deleters, *movers]

    @property
    def _few_others(self) -> bool:
        """Return whether most clients are transactional, or authenticate."""
        return self.transactions is not None or self._has_credentials

    def _fewer_actors(self) -> list[Any]:
        """Return the clients of a run with transactions or credentials: one of each other kind, beside those."""
        steady, replicas = self.topics[0], min(3, len(self._names))
        self._producers = [Producer(self._client("producer0"), self.history, steady, idempotent=True, acks=-1)]
        self._committers = [Committer(self._client("committer0"), self.history, steady)]
        self._administrator = TopicAdministrator(self._client("admin"), replicas)
        actors = [*self._producers, *self._committers, Consumer(self._client("consumer0"), self.history, steady)]
        if self.world.clustered:
            brokers = [host.node_id for host in self.world.hosts if host.settings.is_broker]
            transactional = [] if self.transactions is None else self.transactions.topics
            internal = [] if self.transactions is None else [TRANSACTION_STATE]
            moved = [*self.topics, *transactional]
            actors.append(Reassigner(self._client("mover"), moved, brokers, internal))
        if self._has_credentials:
            self._credentials = [CredentialAdministrator(self._client(f"security{number}")) for number in range(2)]
        return [*actors, *self._credentials, *([] if self.transactions is None else self.transactions.actors)]

    async def _connect(self) -> None:
        """Wait for connection attempts that started while a link was down: followers fetch over them."""
        while self.world.network.waiting_to_connect:
            await asyncio.sleep(0.1)

    async def _last_round(self, producers: list[Producer], committers: list[Committer]) -> None:
        """Require one more success of every client."""
        for producer in producers:
            producer.client.loop = self._fate
            producer.client.drop_links()
            await producer.send(0)
        for committer in committers:
            committer.client.loop = self._fate
            committer.client.drop_links()
            for index in range(committer.topic.partitions):
                while not await committer.commit(index):
                    await asyncio.sleep(0.1)
        if self.transactions is not None:
            await self.transactions.last_round(self._fate)
        for administrator in self._credentials:
            await administrator.succeed(self._fate)

    async def _restart(self, faults: Faults) -> None:
        for host in self.world.hosts:
            host.stop()
        while any(host.state == "stopping" for host in self.world.hosts):
            await asyncio.sleep(0.1)
        await faults.heal()

    async def _converge(self) -> None:
        """Wait until all nodes are equal."""
        world, until_s = self.world, self.schedule.now + _HEALED_S
        while found := difference(world):
            world.check(
                Invariant.REPLICAS_CONVERGE,
                self.schedule.now < until_s,
                f"{_HEALED_S:.0f} s after everything was healed: {found}",
            )
            await asyncio.sleep(0.1)
        world.check(Invariant.REPLICAS_CONVERGE, True, "")

    async def _verify(self) -> None:
        """Read everything, and compare it with the history."""
        for topic in self.topics:
            reader = Consumer(Client(self.world, self._fate, "reader", self._names), self.history, topic)
            ends = await reader.ends()
            await within(self.world, _HEALED_S, f"{topic.name} is read", reader.read_all(ends))
            for index, found in reader.found.items():
                known = self.history.partition(topic.name, index)
                known.complete(found, reader.starts[index], compacted=topic.compacted)
        for (group, topic_name, index), _ in list(self.history.commits.items()):
            topic = next(topic for topic in self.topics if topic.name == topic_name)
            committer = Committer(Client(self.world, self._fate, "reader", self._names), self.history, topic)
            committer.group = group
            while not await committer.read(index):
                await asyncio.sleep(0.1)
        if self.transactions is not None:
            await within(self.world, _HEALED_S, "transactional topics are read", self.transactions.verify(self._reader))

    def _reader(self, name: str) -> Client:
        return Client(self.world, self._fate, name, self._names)


def unchecked(world: World, *, transactions: bool = False, credentials: bool = False) -> list[str]:
    """Return the invariants that every run has to check, and this one has not."""
    expected = EVERYWHERE | IN_CLUSTERS if world.clustered else EVERYWHERE
    expected |= IN_TRANSACTIONS if transactions else frozenset()
    expected |= IN_CREDENTIALS if credentials else frozenset()
    return sorted(one.name for one in expected if not world.checked[one])


def _topic(random: Random, name: str) -> tuple[int, dict[str, str]]:
    """Return the number of partitions of a topic, and its configs."""
    if name == "compacted":
        config = {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(random.choice((1_500, 6_000))),
            "min.compaction.lag.ms": str(random.choice((0, 0, 500))),
        }
        return random.randint(1, 2), config
    config = {"internal.segment.bytes": str(random.choice((8_000, 30_000, 1 << 20)))}
    if name == "steady1":
        config["retention.ms"] = str(_RETENTION_MS)
    return random.randint(1, 3), config
