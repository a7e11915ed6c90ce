"""10,000 transactional ids on one broker: memory, load by a new coordinator, and the longest step of their expiration.

The load is that of a broker that restarts with all 50 partitions of `__transaction_state`: from its first response
until DescribeTransactions knows every id. Memory is resident memory, compared with a restart that loads no ids. The
sweep runs in this process, on the coordinator of one partition with all ids, in steps as in the event loop; CPU time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._loopback import PIPELINED, Client, request_frame
from benchmarks._rows import HEADINGS, Row, no_more_than, row
from benchmarks.start import SETTLING_S, barnabas, free_port, resident_mb, started, wait_for_answer
from controller.topic_names import TRANSACTION_STATE
from protocol.api import ApiKey, request_class
from protocol.errors import ErrorCode

IDS = 10_000

_TRANSACTION = 1  # the key type of FindCoordinator
_WITHIN_S = 60.0
_POLL_S = 0.02
_NOT_YET = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)


class Held(NamedTuple):
    """The cost of the ids: bytes of memory each when new and when loaded, and the seconds of the load."""

    new_bytes: float
    loaded_bytes: float
    load_s: float


def measure(ids: int = IDS) -> Held:
    """Create the ids on a new broker, and restart it."""
    names = [f"transactional-id-{number}" for number in range(ids)]
    with tempfile.TemporaryDirectory() as folder:
        directory, port = Path(folder), free_port()
        command = barnabas(directory, port)
        with started(command) as process:
            wait_for_answer(process, port)
            client = Client(port)
            _wait_until_loaded(client, names[:1], ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        with started(command) as process:
            wait_for_answer(process, port)
            client = Client(port)
            _wait_until_loaded(client, names[:500], ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
            time.sleep(SETTLING_S)
            empty_mb = resident_mb(process.pid)
            client.pipeline(_init_frames(names), ids, PIPELINED)
            time.sleep(SETTLING_S)
            created_mb = resident_mb(process.pid)
        with started(command) as process:
            wait_for_answer(process, port)
            begun = time.perf_counter()
            client = Client(port)
            _wait_until_loaded(client, names, ErrorCode.NONE)
            load_s = time.perf_counter() - begun
            time.sleep(SETTLING_S)
            loaded_mb = resident_mb(process.pid)
    return Held((created_mb - empty_mb) * 2**20 / ids, (loaded_mb - empty_mb) * 2**20 / ids, load_s)


def _init_frames(names: Sequence[str]) -> list[bytes]:
    request: Any = request_class(ApiKey.INIT_PRODUCER_ID)
    return [
        request_frame(ApiKey.INIT_PRODUCER_ID, 4, request(transactional_id=name, transaction_timeout_ms=60_000))
        for name in names
    ]


def _wait_until_loaded(client: Client, names: Sequence[str], expected: ErrorCode) -> None:
    """Return once the broker coordinates all these ids; RuntimeError unless each then has the `expected` error code."""
    find: Any = request_class(ApiKey.FIND_COORDINATOR)
    describe: Any = request_class(ApiKey.DESCRIBE_TRANSACTIONS)
    deadline = time.monotonic() + _WITHIN_S
    client.call(
        ApiKey.FIND_COORDINATOR, 4, find(key_type=_TRANSACTION, coordinator_keys=[names[0]])
    )  # creates the topic
    while True:
        states = client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, describe(transactional_ids=names)).transaction_states
        codes = {one.error_code for one in states}
        if codes == {expected} and len(states) == len(names):
            return
        if codes.isdisjoint(_NOT_YET) or time.monotonic() > deadline:
            raise RuntimeError(f"{len(states)} of {len(names)} ids, error codes {codes}")
        time.sleep(_POLL_S)


def sweep(ids: int = IDS) -> float:
    """Return the milliseconds of the longest step in which a coordinator removes expired ids."""
    from broker.coordinator.transaction.context import InitProducerId
    from tests.unit.broker.node import Node

    with tempfile.TemporaryDirectory() as folder:
        node = Node(f"{folder}/data")
        try:
            node.start()
            node.create(TRANSACTION_STATE, partitions=1)
            transactions = node.broker.transactions
            for number in range(ids):
                node.wait(transactions.init_producer_id(InitProducerId(f"transactional-id-{number}", 60_000)))
            transactions.settings = transactions.settings._replace(expiration_ms=-1)  # all have expired
            steps, longest_s = transactions.expire(), 0.0
            while True:
                begun_s = time.thread_time()
                try:
                    steps.send(None)
                except StopIteration:
                    break
                longest_s = max(longest_s, time.thread_time() - begun_s)
            left = sum(1 for _ in transactions.states())
            if left:
                raise RuntimeError(f"{left} of {ids} expired ids are left")
        finally:
            node.stop()
    return longest_s * 1e3


def rows(runs: int) -> list[Row]:
    """Return the rows of the table."""
    held = [measure() for _ in range(runs)]
    return [
        row("10,000 transactional ids: loaded by a new coordinator, s", no_more_than(2), [one.load_s for one in held]),
        row("the same: memory of each, bytes", no_more_than(2048), [one.new_bytes for one in held]),
        row("the same: memory of each once loaded, bytes", no_more_than(2048), [one.loaded_bytes for one in held]),
        row("the same: longest step of their expiration, ms", no_more_than(5), [sweep() for _ in range(runs)]),
    ]


def main(arguments: Sequence[str]) -> None:
    """Print the rows."""
    parser = argparse.ArgumentParser(prog="transactional_ids", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    options = parser.parse_args(arguments)
    print(HEADINGS, *rows(options.runs), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
