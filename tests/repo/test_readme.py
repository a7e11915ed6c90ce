"""Whoever does what the README says gets what it says: every command and program in it is run."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from itertools import count
from pathlib import Path

import pytest

from tests.broker_process import COMMAND, READY
from tests.repo.readme import Block, prints, sections
from tests.repo.tree import ROOT
from tests.setups import require

# How commands begin that other tests run, and which tests those are.
RUN_ELSEWHERE = {
    "make run": "test_makefile.py::test_one_command_in_a_fresh_clone_ends_with_a_broker",
    "make test": "test_makefile.py::test_a_target_runs",
    "make demo": "test_makefile.py::test_a_target_runs",
    "pip install .": "test_wheel.py::test_a_broker_serves_whatever_modules_its_user_has",
    "docker compose up": "test_compose.py::test_brokers_started_so_serve_on_both_listeners",
    "docker compose --profile demo up": "test_compose.py::test_a_job_takes_these_options_and_finds_the_broker",
    "kafka-console-": "../clients/test_records.py::test_client_reads_back_what_it_produced",
}
NEEDS = {"kcat": "kcat", "pyspark": "java"}


class Reader:
    """Someone who works through a section in a folder of their own, on a port that is free in place of 9092."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = ""
        self._broker: subprocess.Popen[str] | None = None
        self._environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def follow(self, blocks: list[Block]) -> None:
        for block in blocks:
            if block.language == "console":
                for command, expected in block.commands:
                    self.type(command, expected)
            elif block.language == "properties":
                (self.folder / "server.properties").write_text(self.here(block.text, ":0"))
            else:
                self.run_program(block.text)

    def type(self, command: str, expected: list[str]) -> None:
        if command.startswith(tuple(RUN_ELSEWHERE)):
            return
        if command.startswith(("barnabas serve", "barnabas up")):
            _, program, *options = shlex.split(self.here(command, ":0"))
            self.serve(*options, expected=expected, program=program)
            return
        self._need_broker()
        shell = ["bash", "-euo", "pipefail", "-c", self.here(command, "")]
        done = subprocess.run(
            shell, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert prints(expected, done.stdout), f"{command} printed\n{done.stdout}"

    def run_program(self, text: str) -> None:
        self._need_broker()
        program = self.folder / "test_program.py"
        program.write_text(self.here(text, ""))
        how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "def test_" in text else []
        command = [sys.executable, *how, program]
        subprocess.run(command, cwd=self.folder, env=self._environment, timeout=300, check=True)

    def serve(self, *options: str, expected: list[str], program: str = "serve") -> None:
        """Start a broker, or a cluster, in the place of any that runs."""
        self.stop()
        if not {"--listen", "--config"} & set(options):
            options = (*options, "--listen", "127.0.0.1:0")
        command = [*COMMAND, program, *options]
        with open(self.folder / "broker.log", "ab") as log:
            self._broker = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True)
        said = self._broker.stdout.readline()
        self.address = said.removeprefix(READY).strip()
        self._environment["BARNABAS_BROKERS"] = self.address
        ports = count(9092)
        assert prints(expected, re.sub(r":\d+", lambda _: f":{next(ports)}", said))

    def stop(self) -> None:
        if self._broker is not None:
            self._broker.terminate()
            self._broker.communicate(timeout=30)
            assert self._broker.returncode == 0
            assert "Traceback" not in (self.folder / "broker.log").read_text()

    def here(self, text: str, port: str) -> str:
        """Return the text with this broker's address, or at least its port, and with this folder for /tmp."""
        text = text.replace("/tmp/", f"{self.folder}/")
        text = re.sub(r"127\.0\.0\.1:9092(,127\.0\.0\.1:\d+)+", "127.0.0.1:9092", text)  # all of them are told
        return text.replace(":9092", port) if port else text.replace("127.0.0.1:9092", self.address)

    def _need_broker(self) -> None:
        if self._broker is None:
            self.serve("--ephemeral", "-Dgroup.initial.rebalance.delay.ms=0", expected=["ready: 127.0.0.1:9092"])


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path)
    yield one
    one.stop()


@pytest.mark.parametrize("section", sections())
def test_what_a_section_says_works(section: str, reader: Reader) -> None:
    blocks = sections()[section]
    for sign, tool in NEEDS.items():
        if any(re.search(rf"\b{sign}\b", block.text) for block in blocks):
            require(tool)
    reader.follow(blocks)


def test_every_block_is_of_a_kind_that_is_run() -> None:
    kinds = {block.language for blocks in sections().values() for block in blocks}
    assert kinds == {"console", "python", "properties"}


@pytest.mark.parametrize(("start", "test"), RUN_ELSEWHERE.items())
def test_what_is_not_run_here_is_run_by_another_test(start: str, test: str) -> None:
    consoles = [block for blocks in sections().values() for block in blocks if block.language == "console"]
    assert [command for block in consoles for command, _ in block.commands if command.startswith(start)]
    file, _, name = test.partition("::")
    assert f"def {name}" in (Path(__file__).parent / file).read_text(encoding="utf-8")


def test_the_connector_is_that_of_the_pinned_spark() -> None:
    (spark,) = sections()["From Spark"]
    assert f'"org.apache.spark:spark-sql-kafka-0-10_2.13:{version("pyspark")}"' in spark.text


def test_every_page_that_is_linked_exists() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
        assert not [link for link in links if not (page.parent / link).exists()], page.name


@pytest.mark.parametrize(
    ("expected", "printed", "is_it"),
    [
        (["a", "b"], "a\nb\n", True),
        (["a"], "a\nb\n", False),
        (["a", "..."], "a\nb\nc\n", True),
        (["a", "..."], "a\n", True),
        (["id=...  n"], "id=4+2  n\n", True),
        (["id=...  n"], "id=4\n", False),
        ([], "", True),
        ([], "a\n", False),
    ],
)
def test_what_a_command_prints_is_compared(expected: list[str], printed: str, is_it: bool) -> None:
    assert prints(expected, printed) is is_it
