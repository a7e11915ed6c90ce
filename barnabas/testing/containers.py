"""Stand-ins for containers: a suite that was written for them changes one import.

    from barnabas.testing.containers import KafkaContainer                  # for testcontainers.kafka
    from barnabas.testing.containers import docker_ip, docker_services      # in conftest.py, for pytest-docker

No container is started: the broker is a process of this machine. `KAFKA_*` variables are settings, as in the images;
what describes a container only, such as its image, name, network and volumes, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from barnabas._cluster_settings import OURS
from barnabas.testing.cluster import Cluster
from barnabas.testing.errors import ClusterError

_PREFIX = "KAFKA_"
# Of the images' start scripts, and what a single broker with one listener has otherwise.
_NO_SETTINGS = (
    "heap.",
    "jmx.",
    "opts",
    "log4j.",
    "zookeeper.",
    "controller.",
    "listener",
    "inter.broker.",
    "broker.id",
)
_POLL_S = 0.1


class KafkaContainer:
    """A broker with the interface of testcontainers-python's `KafkaContainer`."""

    def __init__(self, image: str = "", port: int = 9093, env: dict[str, str] | None = None, **_: object) -> None:
        """Describe a broker; `port` is its port in the container that it stands for."""
        self.image = image
        self.port = port
        self.env: dict[str, str] = dict(env or {})
        self.cluster: Cluster | None = None
        """The cluster while it runs, with all that the test kit can do."""
        self._host_port: int | None = None

    def with_env(self, key: str, value: str) -> Self:
        """Set a variable: `KAFKA_LOG_RETENTION_HOURS` is the setting log.retention.hours."""
        self.env[key] = value
        return self

    def with_envs(self, **variables: str) -> Self:
        """Set variables."""
        self.env.update(variables)
        return self

    def with_bind_ports(self, container: int | str, host: int | str | None = None) -> Self:
        """Listen on the port `host` of this machine."""
        if str(container).partition("/")[0] == str(self.port) and host is not None:
            self._host_port = int(host)
        return self

    def with_kraft(self) -> Self:
        """Return self: there is no ZooKeeper."""
        return self

    def _without_effect(self, *_: object, **__: object) -> Self:
        """Return self: it describes a container."""
        return self

    with_cluster_id = with_command = with_exposed_ports = with_kwargs = with_name = with_network = _without_effect
    with_network_aliases = with_tmpfs_mount = with_volume_mapping = waiting_for = _without_effect
    maybe_emulate_amd64 = with_env_file = _without_effect

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002 - the cluster has its own
        """Start the broker; ClusterError with the cause if that fails."""
        ports = None if self._host_port is None else [self._host_port]
        self.cluster = Cluster(config=_settings(self.env), ports=ports).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002
        """End the broker, and delete its data."""
        cluster, self.cluster = self.cluster, None
        if cluster is not None:
            cluster.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _running(self) -> Cluster:
        if self.cluster is None:
            raise ClusterError("the broker does not run: call start(), or use it in a `with` block")
        return self.cluster

    def get_bootstrap_server(self) -> str:
        """Return the broker's HOST:PORT."""
        return self._running.bootstrap

    def get_container_host_ip(self) -> str:
        """Return the broker's host."""
        return self._running.bootstrap.rpartition(":")[0]

    def get_exposed_port(self, port: int | str) -> int:
        """Return the broker's port; ClusterError unless `port` is the one in the container."""
        if str(port) != str(self.port):
            raise ClusterError(f"there is no port {port}, only Kafka's, {self.port}")
        return int(self._running.bootstrap.rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return the standard output, which is empty, and the broker's log."""
        return b"", self._running.brokers[0].log.encode()

    @property
    def status(self) -> str:
        """Whether it is `running`."""
        return "exited" if self.cluster is None else "running"

    def exec(self, command: str | list[str]) -> Any:
        """Raise ClusterError: there is no container to run a command in."""
        raise ClusterError(f"there is no container to run {command!r} in; use the `barnabas` command")


def _settings(env: dict[str, str]) -> dict[str, str]:
    """Return the settings in the variables of an image; `_` stands for `.`, `__` for `_` and `___` for `-`."""
    found = {}
    for variable, value in env.items():
        words = variable.removeprefix("KAFKA_CFG_").removeprefix(_PREFIX)
        name = words.lower().replace("_", ".").replace("...", "-").replace("..", "_")
        if words != variable and name not in OURS and not name.startswith(_NO_SETTINGS):
            found[name] = str(value)
    return found


class KafkaServices:
    """The services of pytest-docker, of which the only one is a broker."""

    def __init__(self, cluster: Cluster) -> None:
        """Serve `cluster`."""
        self.cluster = cluster

    def port_for(self, service: str, container_port: int) -> int:  # noqa: ARG002 - there is one only
        """Return the broker's port."""
        return int(self.cluster.brokers[0].bootstrap.rpartition(":")[2])

    def wait_until_responsive(
        self, check: Callable[[], bool], timeout: float, pause: float = _POLL_S, **_: Any
    ) -> None:
        """Return when `check()` is true, which it is at once for a broker; ClusterError after `timeout` seconds."""
        import time

        deadline = time.monotonic() + timeout
        while not check():
            if time.monotonic() > deadline:
                raise ClusterError(f"the check has failed for {timeout:g} s, though the broker serves clients")
            time.sleep(pause)


@pytest.fixture(scope="session")
def docker_ip() -> str:
    """Return the address of the broker of `docker_services`."""
    return "127.0.0.1"


@pytest.fixture(scope="session")
def docker_services(kafka_session: Cluster) -> KafkaServices:
    """Return the session's broker with the interface of pytest-docker's services."""
    return KafkaServices(kafka_session)
