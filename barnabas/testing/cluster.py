"""A Kafka cluster for tests: real brokers in processes of their own, which end with the test's process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack
from weakref import WeakSet

from barnabas._cluster_security import DIRECTORY, is_secure
from barnabas._cluster_settings import CLIENTS, OURS, new_cluster_id, settings_of, voter_count
from barnabas.testing._arguments import mapping, text, whole_number, wrong_type
from barnabas.testing._control import path_of
from barnabas.testing._launchers import launcher
from barnabas.testing._nodes import NOT_STARTED, Nodes, call_unless_ended
from barnabas.testing._record_log import RecordLog
from barnabas.testing._transcript import REQUESTS, requests, transcript
from barnabas.testing.aio import (
    AsyncBroker,
    AsyncClock,
    AsyncFault,
    AsyncGroup,
    AsyncTopic,
    Lasting,
    View,
    coroutine,
    coroutine_to,
    in_thread,
)
from barnabas.testing.broker import STOP_S, Broker
from barnabas.testing.clock import Clock
from barnabas.testing.errors import ClusterError
from barnabas.testing.fault import Fault, FaultFields, OneOrMore
from barnabas.testing.group import Group
from barnabas.testing.topic import WAIT_S, Topic

if TYPE_CHECKING:
    from barnabas.testing._security import Security
    from barnabas.testing.snapshot import ClusterSnapshot

MOST_BROKERS = 64
_PRIVATE = 0o700  # the mode of directories of secure clusters
_START_TAG_BYTES = 8  # the length of the tag of `barnabas serve --start-group`
_NO_EXPIRY = {"log.retention.ms": "-1", "offsets.retention.minutes": str(2**31 - 1)}


class Names(NamedTuple):
    """The topics and groups of a cluster."""

    topics: list[str]
    groups: list[str]


class Leftovers(NamedTuple):
    """What a sweep has deleted."""

    topics: list[str]
    groups: dict[str, list[str]]
    """The client ids of the members, by group."""


class Cluster:
    """A cluster; a context manager that starts it, and at whose end no process and no file of it is left.

        with Cluster(brokers=3, config={"log.retention.hours": 1}) as cluster:
            orders = cluster.topic(partitions=3)
            ...  # clients connect to cluster.bootstrap

    Its brokers have the test profile: they sync nothing to disk, groups do not wait for more members, internal topics
    have one partition, and topics are created when clients use them.
    """

    def __init__(
        self,
        brokers: int | None = None,
        *,
        config: Mapping[str, object] | None = None,
        directory: str | os.PathLike[str] | None = None,
        snapshot: ClusterSnapshot | str | os.PathLike[str] | None = None,
        strict_topics: bool = False,
        host: str = "127.0.0.1",
        ports: Sequence[int] | None = None,
        secure: bool = False,
    ) -> None:
        """Describe a cluster; nothing is started yet.

        `brokers` is their number, 1 by default. `config` has settings of all brokers, as in Kafka's server.properties.
        The data is in `directory`, which is kept and may be used again, or else in a temporary one. It begins as the
        `snapshot`, whose records never expire by age unless `config` says so. With `strict_topics`, topics are not
        created when clients use them. The kernel chooses the brokers' ports, unless `ports` has those for clients.
        With `secure`, clients authenticate with SASL over TLS, and ACLs decide what users may do; `client_config` has
        their settings. This needs `pip install 'barnabas[secure]'`.
        """
        if brokers is not None and not 1 <= whole_number("brokers", brokers) <= MOST_BROKERS:
            raise ValueError(f"brokers={brokers}: a cluster has 1 to {MOST_BROKERS}")
        if ports is not None and (isinstance(ports, str | bytes) or not isinstance(ports, Sequence)):
            raise wrong_type("ports", ports, "a list of numbers, one for each broker")
        self._config = {name: _text(value) for name, value in mapping("config", config).items()}
        if ours := sorted(OURS & self._config.keys()):
            raise ValueError(f"config: the cluster itself sets {ours[0]}")
        if strict_topics:
            self._config.setdefault("auto.create.topics.enable", "false")
        if snapshot is not None:
            self._config = _NO_EXPIRY | self._config
        self._wanted = brokers
        self._snapshot = snapshot
        self._host = host
        self._listen = [whole_number("ports", port) for port in ports or ()]
        self._secure = secure
        self._security: Security | None = None
        self._given = None if directory is None else Path(directory).absolute()
        self._owner = os.getpid()
        self._directory = Path()
        self._nodes = Nodes([])
        self.clock = Clock(self._nodes)
        """The clock of the brokers."""
        self._numbers = count(1)
        self._faults: WeakSet[Fault] = WeakSet()
        self.name_prefix = ""
        """The beginning of the names that `topic` and `group` make."""

    def __repr__(self) -> str:
        return f"<Cluster {self.bootstrap if self.brokers else 'not running'}>"

    @property
    def brokers(self) -> list[Broker]:
        """The brokers, in the order of their ids 1, 2, ..."""
        return self._nodes.brokers

    @property
    def bootstrap(self) -> str:
        """The brokers' addresses as `bootstrap.servers` of clients: HOST:PORT,...; ClusterError before `start`."""
        return ",".join(self.bootstrap_servers)

    @property
    def bootstrap_servers(self) -> list[str]:
        """The addresses of all brokers; ClusterError before `start`."""
        if not self.brokers:
            raise ClusterError(NOT_STARTED)
        return [broker.bootstrap for broker in self.brokers]

    @property
    def directory(self) -> Path:
        """The directory with the data and the logs of the brokers."""
        return self._directory

    @property
    def environment(self) -> dict[str, str]:
        """Variables for a program that uses the cluster: KAFKA_BOOTSTRAP_SERVERS, and those of `barnabas`."""
        control = ",".join(broker.control_url for broker in self.brokers if broker.is_running)
        servers = dict.fromkeys(("KAFKA_BOOTSTRAP_SERVERS", "BARNABAS_BROKERS"), self.bootstrap)
        secure = {} if self._security is None else self._security.environment()
        return servers | secure | {"BARNABAS_CONTROL": control}

    def client_config(self, library: str = "librdkafka", user: str = "admin") -> dict[str, Any]:
        """Return the settings of a client: the brokers' addresses and, of a secure cluster, the user's security.

        `library` is librdkafka (confluent-kafka), kafka-python, aiokafka or java. Of the users of a secure cluster,
        `admin` may do everything, and `client` what ACLs allow.
        """
        from barnabas.testing._security import client_config  # few tests use it

        return client_config(library, user, self.bootstrap, self._security)

    def start(self) -> Self:
        """Start the brokers, and return when each serves clients and lists all others; ClusterError with the cause."""
        if self.brokers:
            raise ClusterError("the cluster has been started already")
        self._owner = os.getpid()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        starter = launcher()
        self._directory = self._given or Path(starter.temporary_directory())
        try:
            self._directory.mkdir(_PRIVATE if self._secure else 0o777, parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(f"{self._directory}: {(error.strerror or str(error)).lower()}") from error
        if is_secure(str(self._directory)) and not self._secure:
            raise ClusterError(
                f"{self._directory} has a cluster with secure=True: start it with that, or remove {DIRECTORY} in it to "
                "give every client all rights"
            )
        begin = None if self._snapshot is None else self._read(self._snapshot)
        number = self._wanted or (1 if begin is None else begin.brokers)
        if self._listen and len(self._listen) != number:
            raise ClusterError(f"ports: there are {len(self._listen)} for {number} brokers")
        if self._secure:
            from barnabas.testing._security import Security

            self._security = Security(self._directory, self._host)
        listener = CLIENTS if self._security is None else self._security.listener
        for node_id, port in enumerate(self._listen or [0] * number, 1):
            is_controller = node_id <= voter_count(number)
            self.brokers.append(
                Broker(
                    starter,
                    node_id,
                    self._host,
                    self._directory,
                    is_controller=is_controller,
                    port=port,
                    clients_listener=listener,
                )
            )
        if self._security is not None:
            self._security.write_clients(self.bootstrap)
        for broker in self.brokers:
            broker.peers = self.brokers
        self.clock = Clock(self._nodes)
        if begin is not None:
            if used := next((broker.data_dir for broker in self.brokers if broker.data_dir.exists()), None):
                raise ClusterError(f"{used} exists: a cluster that begins as a snapshot needs an empty directory")
            self._place(begin)
        elif self._secure:
            for data_dir in self._data_dirs:
                data_dir.mkdir(_PRIVATE, exist_ok=True)
        self._start_brokers()
        if begin is not None:
            self._commit()

    def _start_brokers(self) -> None:
        """Start all brokers; each is ready when it lists all others."""
        cluster_id = _stored_cluster_id(self.brokers[0].data_dir) or new_cluster_id()
        addresses = [broker.addresses for broker in self.brokers]
        listener, given = (CLIENTS, []) if self._security is None else (self._security.listener, self._security.options)
        for broker in self.brokers:
            settings = settings_of(
                broker.addresses, addresses, cluster_id, str(broker.data_dir), self._config, listener
            )
            defined = [f"-D{name}={value}" for name, value in settings.items()]
            broker.configure([*given, *defined, "--test-profile"])
        logged_bytes = self.brokers[0].log_bytes
        group = f"--start-group={os.urandom(_START_TAG_BYTES).hex()}:{len(self.brokers)}"
        for broker in self.brokers:
            broker.begin_start([group] if len(self.brokers) > 1 else [])
        import http.client  # noqa: F401 - for the first request; now, while the brokers start

        for broker in self.brokers:
            broker.until_ready()
        if self._config:
            _, found, names = self.brokers[0].log_since(logged_bytes).partition("Ignoring unknown settings: ")
            if found:
                warnings.warn(f"the brokers ignore unknown settings: {names.splitlines()[0]}", stacklevel=5)

    def close(self) -> None:
        """End all brokers, and delete the data unless it is in a given directory. In a fork of the process: nothing."""
        if self._owner != os.getpid():
            return
        brokers, self._nodes = self.brokers, Nodes([])
        for broker in brokers:
            broker.begin_end(kill=self._given is None)
        late = [broker.node_id for broker in brokers if not broker.until_ended(STOP_S)]
        for broker in brokers:
            broker.begin_end(kill=True)
            broker.until_ended(STOP_S)
            broker.close()
        if self._given is None and self._directory != Path():
            launcher().delete(str(self._directory))
        self._directory = Path()
        if late:
            raise ClusterError(f"broker {late[0]} did not stop within {STOP_S:g} s, and was killed")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        await in_thread(self.start, undo=self.close)
        return self.aio

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.close)

    @property
    def aio(self) -> AsyncCluster:
        """A view of the cluster whose methods are coroutines."""
        return AsyncCluster(self)

    @property
    def _data_dirs(self) -> list[Path]:
        return [broker.data_dir for broker in self.brokers]

    def _read(self, snapshot: ClusterSnapshot | str | os.PathLike[str]) -> ClusterSnapshot:
        from barnabas.testing.snapshot import ClusterSnapshot, read  # few tests use snapshots

        path = snapshot.directory if isinstance(snapshot, ClusterSnapshot) else Path(snapshot)
        return read(path.absolute(), self._directory)

    def _place(self, snapshot: ClusterSnapshot) -> None:
        from barnabas.testing.snapshot import place

        place(snapshot, self._data_dirs)
        if self._secure:
            for data_dir in self._data_dirs:
                data_dir.chmod(_PRIVATE)

    def snapshot(self, path: str | os.PathLike[str] | None = None) -> ClusterSnapshot:
        """Save the data of all brokers as it is at this moment, while they are paused for a few milliseconds.

        `path` is a new directory, or a file that ends in .tar.gz. Without it, the snapshot is deleted with the cluster.
        """
        from barnabas.testing.snapshot import take

        number = next(self._numbers)
        target = self._directory / f"snapshot-{number}" if path is None else Path(path).absolute()
        running = [broker for broker in self.brokers if broker.is_running and not broker.is_paused]
        try:
            for broker in running:
                broker.pause()
            return take(self._data_dirs, target, link=path is None)
        except OSError as error:
            raise ClusterError(f"{error.filename}: {(error.strerror or str(error)).lower()}") from error
        finally:
            for broker in running:
                broker.resume()

    def restore(self, snapshot: ClusterSnapshot | str | os.PathLike[str]) -> None:
        """Kill the brokers, replace their data by that of a snapshot, and start them again, on the same ports."""
        found = self._read(snapshot)
        for broker in self.brokers:
            broker.begin_end(kill=True)
        for broker in self.brokers:
            broker.until_ended()
        self._place(found)
        self._start_brokers()
        self._commit()

    def _commit(self) -> None:
        """Wait until all records of a snapshot can be read: they were committed, which the brokers find out again."""
        if len(self.brokers) > 1:
            for topic in self.brokers[0].control.call("GET", path_of("topics"))["topics"]:
                RecordLog(self._nodes, topic["topic"]).commit()

    def topic(
        self,
        name: str | None = None,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
        create: bool = True,
        timeout: float = WAIT_S,
    ) -> Topic:
        """Create a topic, by default of a name of its own, and return it; every broker serves it by then.

        With `create=False`, return the topic of that name as it is: one that an application creates.
        """
        topic = Topic(self._nodes, self._new_name("topic") if name is None else text("name", name))
        if create:
            configs = [{"name": key, "value": _text(value)} for key, value in mapping("config", config).items()]
            whole_number("partitions", partitions)
            body: dict[str, Any] = {"topic": topic.name, "partitions": partitions, "configs": configs}
            if replication_factor is not None:
                whole_number("replication_factor", replication_factor)
                body["replication_factor"] = replication_factor
            self._nodes.call("POST", path_of("topics"), body | {"timeout_ms": round(timeout * 1000)}, timeout)
            if len(self.brokers) > 1:
                topic.wait_exists(partitions, timeout)
        return topic

    def group(self, name: str | None = None) -> Group:
        """Return a consumer group, by default of a name of its own; it exists when a client has joined it."""
        return Group(self._nodes, self._new_name("group") if name is None else text("name", name))

    def fault(self, api: OneOrMore[str | int], **fields: Unpack[FaultFields]) -> Fault:
        """Install a rule for requests of an API, by its name or key, at all brokers: a context manager.

        `FaultFields` has its conditions and actions. A broker that starts again gets the rule again.
        """
        fault = Fault(self._nodes, api, fields)
        self._faults.add(fault)
        return fault

    def fence_producer(self, transactional_id: str) -> None:
        """Fence the producer of a transactional id, as another one with that id would; its transaction is aborted."""
        self._nodes.call("POST", path_of("transactions", text("transactional_id", transactional_id), "fence"))

    def abort_transaction(self, transactional_id: str) -> None:
        """Abort the open transaction of a transactional id, as after its timeout; return when it has ended.

        ClusterError if none is open.
        """
        self._nodes.call("POST", path_of("transactions", text("transactional_id", transactional_id), "abort"))

    def requests(
        self,
        *,
        client_id: str | None = None,
        api: str | None = None,
        topic: Topic | str | None = None,
        limit: int = REQUESTS,
    ) -> list[dict[str, Any]]:
        """Return the last requests of clients with their responses, decoded, in the order of their arrival.

        `limit` of each broker that serves, of a client, an API, or that name a topic. docs/control-api.yaml describes
        them (`Exchange`).
        """
        return requests(self._nodes, client_id=client_id, api=api, topic=topic and str(topic), limit=limit)

    def transcript(
        self,
        *,
        client_id: str | None = None,
        api: str | None = None,
        topic: Topic | str | None = None,
        limit: int = REQUESTS,
    ) -> str:
        """Return the same as `requests` as text, a line for each."""
        return transcript(self._nodes, client_id=client_id, api=api, topic=topic and str(topic), limit=limit)

    def existing(self) -> Names:
        """Return the names of the topics, except internal ones, and of the groups that there are."""
        found = self._nodes.call_all("GET", path_of("sweep"))
        return Names(found[0]["topics"], [group for answer in found for group in answer["groups"]])

    def sweep(self, keep: Names | None = None) -> Leftovers:
        """Delete all topics and groups, except those to keep, and return them. Members of the groups are removed."""
        body = {"keep_topics": keep.topics if keep else [], "keep_groups": keep.groups if keep else []}
        topics: list[str] = []
        groups: dict[str, list[str]] = {}
        for broker in self._nodes.serving:
            left = call_unless_ended(broker, "POST", path_of("sweep"), body)
            if left is not None:
                topics += left["topics"]
                groups |= left["groups"]
        return Leftovers(list(dict.fromkeys(topics)), groups)

    def start_ended(self) -> bool:
        """Start the brokers that have ended, by themselves or not; return whether there was one."""
        ended = [broker for broker in self.brokers if not broker.is_running]
        for broker in ended:
            broker.start()
        return bool(ended)

    def reset(self, keep: Names | None = None) -> Leftovers:
        """Start and resume all brokers, heal them, remove faults and set the clock back, then `sweep`."""
        for broker in self.brokers:
            if broker.is_paused:
                broker.resume()
            if broker.is_running and broker.network.is_isolated:
                broker.network.heal()
        for fault in list(self._faults):
            fault.remove()
        self.start_ended()
        self.clock.reset()
        left = Leftovers([], {})
        try:
            left = self.sweep(keep)
        except ClusterError:
            if all(broker.is_running for broker in self.brokers):
                raise
        if not self.start_ended():
            return left
        again = self.sweep(keep)  # a broker whose disk had failed ended only now
        return Leftovers(list(dict.fromkeys([*left.topics, *again.topics])), left.groups | again.groups)

    def _new_name(self, kind: str) -> str:
        return f"{self.name_prefix}{kind}-{next(self._numbers)}"


class AsyncCluster(View[Cluster]):
    """A `Cluster`. `sync` has the rest of its attributes."""

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers as `bootstrap.servers` of clients: HOST:PORT,..."""
        return self.sync.bootstrap

    @property
    def brokers(self) -> list[AsyncBroker]:
        """The brokers, in the order of their ids 1, 2, ..."""
        return [AsyncBroker(broker) for broker in self.sync.brokers]

    @property
    def clock(self) -> AsyncClock:
        """The clock of the brokers."""
        return AsyncClock(self.sync.clock)

    def client_config(self, library: str = "aiokafka", user: str = "admin") -> dict[str, Any]:
        """Return the settings of a client, as `Cluster.client_config` does."""
        return self.sync.client_config(library, user)

    topic = coroutine_to(AsyncTopic, Cluster.topic)
    fence_producer = coroutine(Cluster.fence_producer)
    abort_transaction = coroutine(Cluster.abort_transaction)
    requests = coroutine(Cluster.requests)
    transcript = coroutine(Cluster.transcript)
    snapshot = coroutine(Cluster.snapshot)
    restore = coroutine(Cluster.restore)

    def group(self, name: str | None = None) -> AsyncGroup:
        """Return a consumer group, by default of a name of its own; it exists when a client has joined it."""
        return AsyncGroup(self.sync.group(name))

    def fault(self, api: OneOrMore[str | int], **fields: Any) -> Lasting[Fault, AsyncFault]:
        """Install a rule as `Cluster.fault` does: `async with cluster.fault(...) as fault: ...`, or await it.

        `fields` are those of `FaultFields`; topics, groups and brokers may be those of this view.
        """
        plain = {name: _viewed(value) for name, value in fields.items()}
        return Lasting(lambda: self.sync.fault(api, **plain), AsyncFault, Fault.remove)


def _viewed(value: Any) -> Any:
    """Return the object, or the objects of a list, that a view shows; anything else as it is."""
    if isinstance(value, View):
        return value.sync
    return [_viewed(one) for one in value] if isinstance(value, list | tuple) else value


def _text(value: object) -> str:
    """Return the value of a setting as text: true and false as Kafka writes them, lists with commas."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _stored_cluster_id(data_dir: Path) -> str | None:
    """Return the cluster id of a broker's data; None if there is none."""
    try:
        lines = (data_dir / "meta.properties").read_text().splitlines()
    except OSError:
        return None
    return next((line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id=")), None)
