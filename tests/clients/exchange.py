"""Records to send through a client, and the records that it returns."""

import subprocess
import time
from collections.abc import Sequence

from tests.clients.clients import Client, Record

HEADERS = [["trace", "a1"], ["sent-by", "Sortini"]]


def sample(prefix: str) -> list[Record]:
    """Return records with and without key and value; the long one makes compression worthwhile."""
    keys_and_values = (
        (f"{prefix}-key", "a value"),
        (None, "no key, and läßt nothing out ☃"),
        (f"{prefix}-tombstone", None),
        (f"{prefix}-long", "The Castle stands on a hill. " * 200),
    )
    # Whole seconds, a minute ago: no client rounds it, and no retention deletes it.
    timestamp = int(time.time() - 60) * 1000
    return [Record(key, value, HEADERS, timestamp + at * 1000) for at, (key, value) in enumerate(keys_and_values)]


def printed(client: Client, command: Sequence[str], stdin: str | None = None) -> list[Record]:
    """Run a client's command to its end and return the records that it printed."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [record for record in map(client.parse, done.stdout.splitlines()) if record]


def content(records: Sequence[Record]) -> list[tuple[str | None, str | None, list[list[str]]]]:
    return [(record.key, record.value, sorted(record.headers)) for record in records]
