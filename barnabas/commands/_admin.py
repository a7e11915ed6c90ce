"""kafka-python's admin client with failover to another broker, and errors that name the unreachable ones.

A dead broker stays in Metadata for some time, here as in Apache Kafka. kafka-python 3.0.12 picks any listed broker, and
fails with it. Only a request that was never sent is sent to another broker. Responses that refuse a request have what
the user needs (`_rights`).
"""

import os
import re
from collections.abc import Container
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError

from barnabas.commands._kafka_client import RefusedError
from barnabas.commands._output import CommandError, plain
from barnabas.commands._rights import explain_refusal

AWAY = (KafkaConnectionError, KafkaTimeoutError, NodeNotReadyError)


class Admin(KafkaAdminClient):  # type: ignore[misc]
    """An admin client for a cluster in which brokers may be unreachable."""

    def __init__(self, **settings: Any) -> None:
        """Connect with kafka-python's settings."""
        super().__init__(**settings)
        self._reasons: dict[int | str, str] = {}
        self._send_to = self._manager.send
        self._manager.send = self._send

    def away(self) -> dict[int, str]:
        """Return the listed brokers that cannot be reached, each with its error message."""
        connecting = {number: self._manager.call_soon(self._connect, number) for number in self.listed()}
        found = {}
        for number, connected in connecting.items():
            try:
                self._manager.run(lambda connected=connected: connected)
            except CommandError as error:
                found[number] = str(error)
        return found

    def listed(self) -> list[int]:
        """Return the brokers in Metadata."""
        return sorted(broker.node_id for broker in self._manager.cluster.brokers())

    def answering(self, away: Container[int] | None = None) -> list[int]:
        """Return the reachable brokers; `away` are the others, if already known."""
        gone = self.away() if away is None else away
        return [number for number in self.listed() if number not in gone]

    async def _send(self, request: Any, node_id: int | None = None, request_timeout_ms: float | None = None) -> Any:
        number = await self._any() if node_id is None else node_id
        await self._connect(number)
        response = await self._send_to(request, node_id=number, request_timeout_ms=request_timeout_ms)
        explain_refusal(self.config, request, response)
        return response

    async def _any(self) -> int | str:
        """Return a reachable broker; try each once."""
        failures: dict[int | str, str] = {}
        while True:
            number: int | str | None = self._manager.least_loaded_node()
            if number is None or number in failures:
                break
            try:
                await self._connect(number)
            except CommandError as error:
                failures[number] = str(error)
            else:
                return number
        raise CommandError("; ".join(failures.values()) or "no broker answers")

    async def _connect(self, number: int | str) -> None:
        try:
            await self._manager.get_connection(number, timeout_ms=self.config["bootstrap_timeout_ms"])
        except AWAY as error:
            broker = self._manager.cluster.broker_metadata(number)
            if not isinstance(error, NodeNotReadyError):  # which means only that a recent attempt failed
                self._reasons[number] = _reason(error)
            why = self._reasons.get(number, "no answer")
            raise CommandError(f"broker {number} cannot be reached at {broker.host}:{broker.port} ({why})") from error
        except RefusedError as error:
            broker = self._manager.cluster.broker_metadata(number)
            raise CommandError(
                f"broker {number} cannot be reached at {broker.host}:{broker.port} ({error.why})"
            ) from error

    async def _refresh_controller_id(self, timeout_ms: float = 0) -> None:
        """Set no controller, so that any broker is used: brokers forward requests for the controller."""


def _reason(error: Exception) -> str:
    number = re.match(r"(?:KafkaConnectionError: )?(\d+) E[A-Z]+$", str(error))
    return os.strerror(int(number[1])).lower() if number else plain(str(error))
