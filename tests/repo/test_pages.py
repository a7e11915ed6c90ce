"""Every command and program in the README and its linked pages runs, and prints the output on the page."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.broker_process import COMMAND, free_address
from tests.oracles.apache_kafka import kafka_classpath, kafka_tool
from tests.repo.pages import INTERRUPT, PAGES, Block, anchors, blocks, prints, text_of
from tests.repo.tree import ROOT, files
from tests.setups import require
from tests.spark import small
from tests.spark.shared_driver import SharedDriver, shared_driver
from tests.typed import present

# Prefixes of commands that other tests run, and those tests.
RUN_ELSEWHERE = {
    "make run": "test_makefile.py::test_one_command_in_a_fresh_clone_starts_a_broker",
    "make test": "test_makefile.py::test_a_target_runs",
    "make demo": "test_makefile.py::test_a_target_runs",
    "pip install .": "test_wheel.py::test_modules_of_the_user_do_not_affect_the_broker",
    "docker compose up": "test_compose.py::test_brokers_with_these_commands_serve_on_both_listeners",
    "docker compose --profile demo up": "test_compose.py::test_job_accepts_its_options_and_has_the_broker_address",
    "kafka-console-producer.sh --bootstrap-server 127.0.0.1:9092 --topic letters": (
        "../clients/test_records.py::test_client_reads_back_what_it_produced"
    ),
    "kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9092 --topic letters": (
        "../clients/test_records.py::test_client_reads_back_what_it_produced"
    ),
}
# Settings files that another test starts brokers with.
SETTINGS_ELSEWHERE = {
    "node-1.properties": "test_operations.py::test_rolling_restart_loses_no_record_and_interrupts_no_producer",
}
# Languages of parts of settings files, and of lines that appear in no run of the page.
NOT_RUN = ("ini", "text")
NEEDS = {"kcat": "kcat", "pyspark": "java", r"kafka-console-consumer\.sh .*--command-config": "mvn"}
# Scripts of Apache Kafka, and the class that each starts.
KAFKA_TOOLS = {"kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer"}
# Prefixes of commands that serve until Ctrl-C, and the subcommand of `barnabas` that each runs.
SERVE = {"barnabas serve": "serve", "barnabas up": "up", "make run": "serve"}
# Commands and programs that start Spark's Java process.
SPARK = re.compile(r"barnabas spark run|\bpyspark\b")
# The connectors of the jobs on the pages.
CONNECTORS = ("kafka", "delta")
# Everyday they use one Java process in turn, at the full figures each has its own.
OWN_JAVA = os.environ.get("BARNABAS_TEST_OWN_JAVA", "0") == "1"
TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}")


class Reader:
    """Runs the commands of a page in order, in one folder and with the same ports.

    Commands and programs run with free ports in place of 9092 to 9094, 9192 and 9404. A broker runs in the foreground
    until `^C` on the page. The commands before that run as in another terminal; a second broker finds its port in use.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        first = three_free_ports()
        self._ports = {str(9092 + number): str(first + number) for number in range(3)}
        self._ports |= {port: free_address().rpartition(":")[2] for port in ("9192", "9404")}
        self._foreground: subprocess.Popen[str] | None = None
        self._driver: SharedDriver | None = None
        self._open = contextlib.ExitStack()
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "SPARK_SUBMIT_OPTS": small.SUBMIT_OPTS,
        }
        self.unset("BARNABAS_BROKERS")

    def unset(self, name: str) -> None:
        """Unset a variable; without BARNABAS_BROKERS the commands would use port 9092, so it gets this reader's."""
        self._environment.pop(name, None)
        self._environment["BARNABAS_BROKERS"] = self.here("127.0.0.1:9092")

    def follow(self, block: Block) -> None:
        if block.language == "console":
            for command, expected in block.commands:
                self.type(command, [self.here(line) for line in expected])
        elif block.language == "java":
            self.run_java(block)
        elif block.language == "properties":
            (self.folder / block.file_name).write_text(self.here(block.text))
        elif block.language in NOT_RUN:
            pass
        elif block.language == "log":
            log = sorted(TIME.sub("", (self.folder / "broker.log").read_text()).splitlines(keepends=True))
            for line in TIME.sub("", self.here(block.text)).splitlines():
                assert any(prints([line], logged) for logged in log), f"{line}\nis not among\n{''.join(log)}"
        else:
            self.run_program(block.text)

    def type(self, command: str, expected: list[str]) -> None:
        if command == INTERRUPT:
            self.interrupt()
        elif command.startswith("docker compose up"):
            assert self._foreground is None, "a broker still uses the ports of the containers"
        elif command.startswith(tuple(SERVE)):
            self.serve(command, expected)
        elif command.startswith("export "):
            name, _, value = self.here(command.removeprefix("export ")).partition("=")
            self._environment[name] = value
        elif command.startswith("unset "):
            self.unset(command.removeprefix("unset "))
        elif not command.startswith(tuple(RUN_ELSEWHERE)):
            script, _, arguments = command.partition(" ")
            if script in KAFKA_TOOLS:
                command = f"{shlex.join(kafka_tool(KAFKA_TOOLS[script]))} {arguments}"
            shell = ["bash", "-euo", "pipefail", "-c", self.here(command)]
            with self.environment(command) as environment:
                done = subprocess.run(
                    shell, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
                )
            assert (done.returncode, done.stderr) == (0, ""), command
            assert prints(expected, done.stdout), f"{command} printed\n{done.stdout}"

    def serve(self, command: str, expected: list[str]) -> None:
        program = next(SERVE[start] for start in SERVE if command.startswith(start))
        options = shlex.split(self.here(command))[2:]
        if not {"--listen", "--config"} & set(options):
            options = ["--listen", self.here("127.0.0.1:9092"), *options]
        with open(self.folder / "broker.log", "ab") as log:
            started = subprocess.Popen(
                [*COMMAND, program, *options],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        shown = "".join(present(started.stdout).readline() for _ in expected)
        if not shown:
            started.communicate()
            pytest.fail(f"{command}: {(self.folder / 'broker.log').read_text().splitlines()[-1]}")
        self._foreground = started
        assert prints(expected, shown), f"{command} printed\n{shown}"

    def interrupt(self) -> None:
        """Send SIGINT to the broker's process group, as a terminal does on Ctrl-C."""
        stopped, self._foreground = self._foreground, None
        if stopped is not None:  # else the foreground command is one of RUN_ELSEWHERE
            os.killpg(stopped.pid, signal.SIGINT)
            stopped.communicate(timeout=60)
            assert stopped.returncode == 0
            assert "Traceback" not in (self.folder / "broker.log").read_text()

    def run_program(self, text: str) -> None:
        program = self.folder / "test_program.py"
        program.write_text(self.here(text))
        how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "def test_" in text else []
        command: list[str | Path] = [sys.executable, *how, program]
        with self.environment(text) as environment:
            subprocess.run(command, cwd=self.folder, env=environment, timeout=300, check=True)

    @contextlib.contextmanager
    def environment(self, text: str) -> Iterator[dict[str, str]]:
        """The environment of a command or program; those that use Spark share a Java process.

        `spark.jars.packages` has an effect only where Java is started.
        """
        if not SPARK.search(text) or "spark.jars.packages" in text or OWN_JAVA:
            yield self._environment
            return
        if self._driver is None:
            self._driver = self._open.enter_context(shared_driver(self.folder, CONNECTORS))
        yield self._environment | self._driver.environment
        self._driver.stop_session()

    def close(self) -> None:
        """End the processes that are left."""
        self._open.close()
        self.interrupt()

    def run_java(self, block: Block) -> None:
        program = self.folder / block.file_name
        program.write_text(self.here(block.text))
        command: list[str | Path] = ["java", "-cp", kafka_classpath(), program]
        subprocess.run(command, cwd=self.folder, timeout=300, check=True)

    def here(self, text: str) -> str:
        """Return the text with this reader's ports, and its folder in place of /tmp."""
        text = text.replace("/tmp/", f"{self.folder}/")
        return re.sub(r"(?<=:)(9\d{3})\b", lambda port: self._ports.get(port[1], port[1]), text)


def three_free_ports() -> int:
    """Return the first of three consecutive free ports, for `barnabas up`."""
    while True:
        first = int(free_address().rpartition(":")[2])
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for number in range(3):
                stack.enter_context(socket.create_server(("127.0.0.1", first + number)))
            return first


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path)
    yield one
    one.close()


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_run_in_order_print_its_output(page: str, reader: Reader) -> None:
    missing: set[str] = set()
    for block in blocks(page):
        needed = {tool for sign, tool in NEEDS.items() if re.search(rf"\b{sign}\b", block.text)}
        if block.language == "java":
            needed |= {"java", "mvn"}
        if absent := {tool for tool in needed if shutil.which(tool) is None}:
            missing |= absent
        else:
            reader.follow(block)
    require(*missing)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language_that_the_tests_run(page: str) -> None:
    assert {block.language for block in blocks(page)} <= {"console", "python", "java", "properties", "log", *NOT_RUN}


def test_console_blocks_are_on_these_pages_only() -> None:
    markdown = [str(path.relative_to(ROOT)) for path in files() if path.suffix == ".md"]
    assert {page for page in markdown if "```console" in text_of(page)} <= set(PAGES)


@pytest.mark.parametrize(("start", "test"), RUN_ELSEWHERE.items())
def test_a_command_that_is_not_run_here_is_run_by_another_test(start: str, test: str) -> None:
    consoles = [block for page in PAGES for block in blocks(page) if block.language == "console"]
    assert [command for block in consoles for command, _ in block.commands if command.startswith(start)]
    assert_test_exists(test)


def test_every_file_of_settings_is_used() -> None:
    """A file is the argument of a command on its page, or another test reads it."""
    for page in PAGES:
        consoles = [block for block in blocks(page) if block.language == "console"]
        typed = " ".join(command for block in consoles for command, _ in block.commands)
        for block in blocks(page):
            if block.language == "properties" and f"--config {block.file_name}" not in typed:
                assert_test_exists(SETTINGS_ELSEWHERE[block.file_name])


def assert_test_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}" in (Path(__file__).parent / file).read_text(encoding="utf-8")


def test_the_readme_is_a_landing_page() -> None:
    assert len(text_of("README.md").splitlines()) <= 150


def test_connector_version_is_the_pinned_spark_version() -> None:
    connectors = re.findall(r"org\.apache\.spark:spark-sql-kafka-0-10_2\.13:[\w.]+", text_of("docs/SPARK.md"))
    assert set(connectors) == {f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}"}


def test_every_page_and_section_that_is_linked_exists() -> None:
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        page = str(path.relative_to(ROOT))
        for target, _, section in re.findall(r"\]\((?!https?://)([^)#]*)(#([^)]+))?\)", text_of(page)):
            linked = (path.parent / target).resolve() if target else path
            assert linked.exists(), f"{page}: {target}"
            if section:
                assert section in anchors(str(linked.relative_to(ROOT))), f"{page}: {target}#{section}"


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
def test_printed_output_is_compared_with_the_page(expected: list[str], printed: str, is_it: bool) -> None:
    assert prints(expected, printed) is is_it
