"""Apache Kafka 4.3.1, a single broker with its own controller, as the reference for responses."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from protocol.api import ApiKey
from tests.broker_process import free_address
from tests.oracles.apache_kafka import kafka_tool
from tests.raw_client import RawClient
from tests.setups import run

CLUSTER_ID = "WV5yoIVIQ7q2wIB0pOwZQg"


class KafkaServer:
    """A running Apache Kafka on its own data directory.

    `bootstrap` and `controller` are its addresses; they stay the same after a restart.
    """

    def __init__(
        self, folder: Path, more: Mapping[str, object] | None = None, features: Mapping[str, int] | None = None
    ) -> None:
        """Start it; `more` are further settings, `features` the levels that differ from Kafka's defaults.

        In a setting, `{bootstrap}` and `{controller}` stand for the addresses.
        """
        folder.mkdir()
        port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        self.controller = f"127.0.0.1:{controller_port}"
        self.data_dir = folder / "data"
        self._folder = folder
        self._properties = folder / "server.properties"
        self._properties.write_text(
            f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={self.data_dir}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
"""
            + "".join(f"{name}={self._with_addresses(value)}\n" for name, value in (more or {}).items())
        )
        levels = [part for name, level in (features or {}).items() for part in ("--feature", f"{name}={level}")]
        run(*kafka_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties), *levels))
        self.start()

    def _with_addresses(self, value: object) -> str:
        return str(value).replace("{bootstrap}", self.bootstrap).replace("{controller}", self.controller)

    def start(self) -> None:
        """Start it, the first time or again; `wait` returns once it is ready."""
        with open(self._folder / "server.log", "a") as log:
            self._process = subprocess.Popen(kafka_tool("kafka.Kafka", str(self._properties)), stdout=log, stderr=log)

    def wait(self, timeout_s: float = 60) -> None:
        """Return once it responds and lists itself as a broker."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                client = RawClient(self.bootstrap)
            except OSError:
                time.sleep(0.2)
                continue
            known = client.call(ApiKey.METADATA, 12, topics=[]).brokers
            client.close()
            if known:
                return
            time.sleep(0.2)
        raise RuntimeError("Apache Kafka did not start; see server.log beside its data")

    def stop(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def close(self, timeout_s: float = 60) -> None:
        """Shut it down cleanly, with all files complete."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout_s)


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now: Kafka cannot be configured with port 0."""
    return [int(free_address().rpartition(":")[2]) for _ in range(count)]
