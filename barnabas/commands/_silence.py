"""Report on standard error when no broker answers a client, and when one answers again.

kafka-python reconnects silently, for minutes. A thread watches whether anything is received; after `SILENT_S` without
data it probes each known broker, as an idle client receives nothing either (a group member that waits for others).
"""

import argparse
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from barnabas.commands._client import API_VERSIONS, reason
from barnabas.commands._output import complain, some

SILENT_S = 1.0
"""After how long without received data the brokers are probed."""

PROBE_S = 0.7
TURN_S = 0.2


class Silence:
    """Tracks whether a client has received data lately, and reports it."""

    def __init__(self, options: argparse.Namespace, client: Any, cluster: Any) -> None:
        """Watch a client made with `options`; `cluster` is its metadata."""
        self.silent = False
        self._options = options
        self._cluster = cluster
        protocol = client.config["security_protocol"]
        self._proxied = any(client.config.get(name) for name in ("proxy_url", "socks5_proxy"))
        self._request = API_VERSIONS if protocol == "PLAINTEXT" else None
        self._arrived_s = time.monotonic()

    def data_arrived(self) -> None:
        """Record that data was received."""
        self._arrived_s = time.monotonic()

    def check(self, waits: bool) -> None:
        """Report if the client waits for a response and no broker answers, and when one answers again."""
        now_s = time.monotonic()
        if now_s - self._arrived_s < SILENT_S:
            if self.silent:
                self.silent = False
                complain(self._options.command, "a broker answers again")
            return
        if self.silent or self._proxied:
            return
        if not waits:
            self._arrived_s = now_s
            return
        failures = self._probe()
        if not all(failures.values()):
            self._arrived_s = time.monotonic()
        elif self._arrived_s < now_s:  # nothing was received meanwhile
            self.silent = True
            reasons = some([f"{address} ({why})" for address, why in failures.items()])
            complain(self._options.command, f"no broker answers: {reasons}; retrying")

    def _probe(self) -> dict[str, str | None]:
        """Return why each known broker does not answer; None for one that does."""
        known = [f"{broker.host}:{broker.port}" for broker in self._cluster.brokers()]
        addresses = list(dict.fromkeys([*known, *self._options.brokers]))
        with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
            return dict(zip(addresses, pool.map(self._why_not, addresses), strict=True))

    def _why_not(self, address: str) -> str | None:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), PROBE_S) as connection:
                if self._request is not None:
                    connection.sendall(self._request)
                    if not connection.recv(4):
                        return "connection closed"
        except OSError as error:
            return reason(error)
        return None


@contextmanager
def listening(silence: Silence) -> Iterator[None]:
    """Within the block, call `silence.data_arrived` for all data that this process receives from brokers."""
    from kafka.net.connection import KafkaConnection

    data_received = KafkaConnection.data_received

    def received(connection: Any, data: bytes) -> None:
        silence.data_arrived()
        data_received(connection, data)

    KafkaConnection.data_received = received
    try:
        yield
    finally:
        KafkaConnection.data_received = data_received


@contextmanager
def repeating(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` every `TURN_S`, in a thread, until the block ends."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(TURN_S):
            check()

    thread = threading.Thread(target=run, name="barnabas-silence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PROBE_S)
