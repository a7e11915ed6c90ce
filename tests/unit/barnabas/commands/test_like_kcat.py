"""`consume` and `produce` with the same options and bytes as kcat."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.broker_process import BrokerProcess
from tests.setups import require
from tests.unit.barnabas.conftest import Command

LINES = b"a\nb:c\n:d\ne:\nu\xcc\x88:\xff\x00\n"


@pytest.fixture
def kcat(shared_broker: BrokerProcess, topic: str) -> Callable[..., bytes]:
    require("kcat")

    def run(*options: str, stdin: bytes = b"") -> bytes:
        # At a partition's end librdkafka waits for an empty response.
        command = ["kcat", "-b", shared_broker.bootstrap, "-X", "fetch.wait.max.ms=10", "-t", topic, *options]
        return subprocess.run(command, input=stdin, capture_output=True, check=True, timeout=60).stdout

    return run


@pytest.fixture
def consumed(topic: str, shared_broker: BrokerProcess) -> Callable[..., bytes]:
    """Return the output of `barnabas consume` as bytes; decoding would lose some."""

    def run(*options: str) -> bytes:
        command = [sys.executable, "-m", "barnabas", "consume", topic, "-e", "-b", shared_broker.bootstrap, *options]
        return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    return run


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-f", r"%t %p %o [%k] [%s] %K %S %T %h\n"],
        ["-f", r"%R%s"],
        ["-f", r"%k\t%%\x41\065\101\\\n"],
        ["-Z", "-f", r"%k=%s\n"],
        ["-K", r"\t", "-D", "|"],
        ["-Z", "-K", ":"],
        ["-o", "-2"],
        ["-o", "beginning", "-c", "2"],
        ["-o", "1"],
    ],
)
def test_records_are_printed_alike(
    kcat: Callable[..., bytes], consumed: Callable[..., bytes], options: list[str]
) -> None:
    kcat("-P", "-K:", "-Z", "-H", "one=1", "-H", "two=", "-H", "three", "-H", "one=2", stdin=LINES)
    printed = kcat("-C", "-e", "-q", *options)
    assert printed
    assert consumed(*options) == printed


@pytest.mark.parametrize(
    "options", [["-K:"], ["-K:", "-Z"], ["-K:", "-k", "all"], ["-k", "all"], ["-D", ":"], ["-H", "a=1", "-z", "gzip"]]
)
def test_lines_become_the_same_records(
    kcat: Callable[..., bytes], consumed: Callable[..., bytes], barnabas: Command, topic: str, options: list[str]
) -> None:
    kcat("-P", *options, stdin=LINES)
    count = len(consumed("-f", "."))
    assert barnabas("produce", topic, *options, stdin=LINES).status == 0
    printed = consumed("-f", r"[%k] [%s] %K %S %h\x1d").split(b"\x1d")[:-1]
    assert len(printed) == 2 * count
    assert printed[:count] == printed[count:]


def test_json_of_kcat_is_produced_again(
    kcat: Callable[..., bytes], consumed: Callable[..., bytes], barnabas: Command, topic: str
) -> None:
    kcat("-P", "-K:", "-H", "a=1", "-H", "a=2", stdin=b"k:v\n")
    assert barnabas("produce", topic, "--json", stdin=kcat("-C", "-e", "-q", "-J")).status == 0
    first, second = consumed("-f", r"%k %s %h %T\n").splitlines()
    assert first == second
