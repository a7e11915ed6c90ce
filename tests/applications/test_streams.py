"""Kafka Streams with `exactly_once_v2` on three brokers: the application and the brokers are killed in the middle.

`BARNABAS_TEST_APPLICATION_KILLS` is the number of kills of each.
"""

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

from tests import proofs
from tests.applications.jvm import Process, java
from tests.applications.topics import Reader, Record, committed_offsets, create_topics, produce
from tests.chaos.cluster import Cluster, wait_until

KILLS = int(os.environ.get("BARNABAS_TEST_APPLICATION_KILLS", "3"))
LINES, WORDS_OF_A_LINE, ORDERS = 3000, 5, 3000
VOCABULARY = [f"word{number}" for number in range(200)]
REGIONS = {f"customer{number}": f"region{number % 7}" for number in range(100)}
INPUTS, OUTPUTS = ("lines", "customers", "orders"), ("counts", "joined")


class Input:
    """Lines of words, and orders of customers, from a seed; `words` and `orders` are those produced so far."""

    def __init__(self, bootstrap: str) -> None:
        self.words: Counter[str] = Counter()
        self.orders: list[tuple[str, str]] = []
        self._bootstrap = bootstrap
        self._random = Random(7)

    def produce(self) -> None:
        produce(self._bootstrap, "lines", ((None, line) for line in islice(self._lines(), LINES)))
        first = len(self.orders)
        new = [(f"customer{self._random.randrange(100)}", f"order{first + number}") for number in range(ORDERS)]
        self.orders += new
        produce(self._bootstrap, "orders", new)

    def _lines(self) -> Iterator[str]:
        while True:
            words = self._random.choices(VOCABULARY, k=WORDS_OF_A_LINE)
            self.words.update(words)
            yield " ".join(words)

    def is_complete(self, records: dict[str, list[Record]]) -> bool:
        """Return whether there are as many output records as the input makes."""
        return len(records["counts"]) >= self.words.total() and len(records["joined"]) >= len(self.orders)


def test_counts_and_joins_equal_the_input_though_application_and_brokers_are_killed(
    cluster: Cluster, tmp_path: Path
) -> None:
    bootstrap, state = cluster.bootstrap, tmp_path / "state"
    create_topics(bootstrap, (*INPUTS, *OUTPUTS), partitions=3)
    produce(bootstrap, "customers", REGIONS.items())
    command = java("WordsAndOrders", bootstrap, state, "exactly_once_v2")
    given = Input(bootstrap)
    with Process(command, tmp_path / "streams.log") as application, Reader(bootstrap, *OUTPUTS) as reader:
        reader.check = application.check

        def table_is_read() -> bool:
            application.check()
            return read_customers(bootstrap) == len(REGIONS)

        wait_until(table_is_read, "the table read", 120)
        for kill in range(KILLS):
            given.produce()
            reader.read_more("counts", "some words counted")
            application.kill()
            records = reader.read_to_end()
            assert not given.is_complete(records)
            before = sum(map(len, records.values()))
            if kill % 3 == 1:
                shutil.rmtree(state)  # as on another machine: the state comes from the changelogs
            broker = cluster.nodes[1 + kill % 3]
            broker.kill()
            application.start()
            # All words may be counted, with joins left to do.
            reader.read_until(partial(has_more, before), "results after the kill")
            broker.start()
            cluster.wait_until_whole()
        reader.read_until(given.is_complete, "all of the input processed")
        application.stop()
        records = reader.read_to_end()
    counts = {word: [str(number) for number in range(1, count + 1)] for word, count in given.words.items()}
    assert values_by_key(records["counts"]) == counts
    joined: dict[str | None, list[str | None]] = defaultdict(list)
    for customer, order in given.orders:
        joined[customer].append(f"{REGIONS[customer]} {order}")
    assert values_by_key(records["joined"]) == joined
    proofs.count("records that Kafka Streams processed exactly once", given.words.total() + len(given.orders))
    proofs.count("kills of Kafka Streams in the middle", KILLS)


def has_more(before: int, records: dict[str, list[Record]]) -> bool:
    """Return whether there are more than `before` records in all topics."""
    return sum(map(len, records.values())) > before


def read_customers(bootstrap: str) -> int:
    """Return the number of customers in the application's table."""
    return sum(committed_offsets(bootstrap, "words-and-orders", "customers", partitions=3))


def values_by_key(records: list[Record]) -> dict[str | None, list[str | None]]:
    found: dict[str | None, list[str | None]] = defaultdict(list)
    for record in records:
        found[record.key].append(record.value)
    return found
