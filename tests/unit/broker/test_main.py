"""The program: options, ready line, signals, exit status. Every broker here is a process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import Signals

import pytest

from protocol.api import ApiKey
from protocol.messages.produce import ProduceRequest
from protocol.record_batch import build_batch
from tests.raw_client import RawClient
from tests.typed import present

ROOT = Path(__file__).parents[3]


@contextmanager
def serve(
    *arguments: str,
    by: tuple[str, ...] = (),
    stdin: int | None = None,
    pass_fds: tuple[int, ...] = (),
    **environment: str,
) -> Iterator[subprocess.Popen[str]]:
    """Run the program directly or as a child of `by`; the fixture kills it if the test leaves it running."""
    process = subprocess.Popen(
        [*by, sys.executable, "-m", "broker", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=pass_fds,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ready_port(process: subprocess.Popen[str]) -> int:
    line = present(process.stdout).readline()
    assert line.startswith("ready: 127.0.0.1:"), present(process.stderr).read()
    return int(line.removeprefix("ready: 127.0.0.1:"))


def stopped(process: subprocess.Popen[str], number: Signals = signal.SIGTERM) -> tuple[int, str, str]:
    """Stop the broker; return its status and its output since the ready line."""
    process.send_signal(number)
    output, log = process.communicate(timeout=30)
    return process.returncode, output, log


def run_to_its_end(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "broker", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, str, str, str]:
    return ("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_broker_prints_ready_line_and_stops_with_status_0_on_signal(
    place: tuple[str, str, str, str], number: Signals
) -> None:
    with serve(*place) as process:
        socket.create_connection(("127.0.0.1", ready_port(process))).close()
        status, output, log = stopped(process, number)
    assert (status, output) == (0, "")
    assert "Traceback" not in log


def test_start_is_logged_in_one_line(place: tuple[str, str, str, str]) -> None:
    with serve(*place) as process:
        port = ready_port(process)
        _, _, log = stopped(process)
    (line,) = (line for line in log.splitlines() if "Barnabas" in line)
    for part in (" 0.", f"PLAINTEXT://127.0.0.1:{port}", "cluster ", place[-1]):
        assert part in line


def test_a_broker_that_is_started_in_a_group_is_ready_once_it_knows_the_group(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--start-group=00112233445566aa:1") as process:
        ready_port(process)
        assert stopped(process)[0] == 0


def test_a_group_without_a_tag_is_refused(place: tuple[str, str, str, str]) -> None:
    status, output, log = run_to_its_end(*place, "--start-group=3")
    assert (status, output) == (2, "")
    assert "--start-group 3: write it as TAG:BROKERS, the tag of 16 hexadecimal digits" in log


LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@LOOPS
def test_broker_stops_with_status_0_at_eof_if_stdin_is_its_parent(place: tuple[str, str, str, str], loop: str) -> None:
    with serve(*place, "--exit-with-parent", "--loop", loop, stdin=subprocess.PIPE) as process:
        ready_port(process)
        present(process.stdin).write("this is not looked at")
        present(process.stdin).flush()
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Stopped: " in log


@LOOPS
def test_stdin_without_eof_is_refused(place: tuple[str, str, str, str], loop: str) -> None:
    with serve(*place, "--exit-with-parent", "--loop", loop, stdin=subprocess.DEVNULL) as process:
        _, log = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "--exit-with-parent: standard input must be a pipe" in log


@LOOPS
def test_inherited_socket_is_served(place: tuple[str, str, str, str], loop: str) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port, handed = bound.getsockname()[1], f"--socket=PLAINTEXT={bound.fileno()}"
        listeners = f"-Dlisteners=PLAINTEXT://127.0.0.1:{port}"
        with serve(*place[2:], listeners, handed, "--loop", loop, pass_fds=[bound.fileno()]) as process:  # type: ignore[arg-type]  # always this type here
            assert ready_port(process) == port
            socket.create_connection(("127.0.0.1", port)).close()
            assert stopped(process)[0] == 0


def test_node_waiting_for_quorum_stops_on_signal(place: tuple[str, str, str, str]) -> None:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(3)]
        ports = [one.getsockname()[1] for one in sockets]
        sockets[0].close()
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in enumerate(ports, 1))
        listeners = f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{ports[0]}"
        options = ("-Dnode.id=1", f"-Dlisteners={listeners}", f"-Dcontroller.quorum.voters={voters}")
        process = stack.enter_context(serve(*place[2:], *options))
        sockets[1].accept()[0].close()  # The node requests votes.
        assert stopped(process)[:2] == (0, "")


def test_broker_that_never_joined_leaves_data_as_after_previous_stop(
    place: tuple[str, str, str, str], tmp_path: Path
) -> None:
    with serve(*place) as process:
        ready_port(process)
        stopped(process)
    mark = tmp_path / "data" / ".kafka_cleanshutdown"
    left = mark.read_text()
    metadata = tmp_path / "data" / "__cluster_metadata-0"
    shutil.rmtree(metadata)  # It belongs to another quorum.
    metadata.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as controller:
        controller.settimeout(30)
        voters = f"-Dcontroller.quorum.voters=2@127.0.0.1:{controller.getsockname()[1]}"
        options = (*place, "-Dprocess.roles=broker", "-Dnode.id=1", voters)
        with serve(*options) as process:
            controller.accept()[0].close()
            assert stopped(process)[0] == 0
        assert mark.read_text() == left
        status, _, log = run_to_its_end(*options, "-Dinitial.broker.registration.timeout.ms=200")
    assert (status, mark.read_text()) == (2, left)
    assert "no controller answered" in log.splitlines()[-1]


def test_broker_runs_on_asyncio_loop(place: tuple[str, str, str, str]) -> None:
    for arguments, environment in (((), {"BARNABAS_LOOP": "asyncio"}), (("--loop", "asyncio"), {})):
        with serve(*place, *arguments, **environment) as process:  # type: ignore[arg-type]  # keywords of several types
            socket.create_connection(("127.0.0.1", ready_port(process))).close()
            assert stopped(process)[0] == 0


def test_recovery_is_needed_after_kill_but_not_after_clean_stop(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--topic", "t") as process:
        ready_port(process)
        stopped(process)
    with serve(*place) as process:
        ready_port(process)
        process.kill()
        assert "unclean" not in present(process.stderr).read()
    with serve(*place) as process:
        ready_port(process)
        assert "The last shutdown was unclean" in stopped(process)[2]


def test_unwritable_log_stops_broker_with_one_log_line(place: tuple[str, str, str, str], tmp_path: Path) -> None:
    with serve(*place, "--topic", "topic") as process:
        port = ready_port(process)
        log_file = tmp_path / "data" / "topic-0" / f"{0:020d}.log"
        log_file.unlink()
        log_file.mkdir()
        partition = ProduceRequest.Topic.Partition(index=0, records=build_batch([(None, b"lost")]))
        topics = [ProduceRequest.Topic(name="topic", partition_data=[partition])]
        client = RawClient(f"127.0.0.1:{port}")
        client.send(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics)
        _, log = process.communicate(timeout=30)
        client.close()
    assert process.returncode == 1
    assert "Traceback" not in log
    assert "asyncio" not in log
    (line,) = (line for line in log.splitlines() if "Stopping" in line)
    assert f"failed: {log_file}: Is a directory; check the path and its file system" in line


def test_identity_survives_restart(place: tuple[str, str, str, str], tmp_path: Path) -> None:
    seen = set()
    for _ in range(2):
        with serve(*place) as process:
            ready_port(process)
            stopped(process)
        seen.add((tmp_path / "data" / "meta.properties").read_text())
    assert len(seen) == 1


def test_configured_topics_exist_at_ready_line(place: tuple[str, str, str, str], tmp_path: Path) -> None:
    for _ in range(2):  # The second time they exist already.
        with serve(*place, "--topic", "one:3", "--topic", "two") as process:
            ready_port(process)
            names = {path.name for path in (tmp_path / "data").iterdir()}
            assert {"one-0", "one-1", "one-2", "two-0"} <= names
            assert stopped(process)[0] == 0


def test_ephemeral_data_is_deleted_at_stop(tmp_path: Path) -> None:
    with serve("--listen", "127.0.0.1:0", "--ephemeral", TMPDIR=str(tmp_path)) as process:
        ready_port(process)
        assert len(list(tmp_path.iterdir())) == 1
        assert stopped(process)[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_a_second_broker_on_the_same_data_is_refused_with_the_pid_of_the_first(
    place: tuple[str, str, str, str],
) -> None:
    with serve(*place) as process:
        ready_port(process)
        status, output, log = run_to_its_end(*place)
        assert (status, output) == (2, "")
        assert f"in use by process {process.pid}" in log
        assert "Traceback" not in log
        assert stopped(process)[0] == 0


def test_port_in_use_is_named_and_data_is_unchanged(place: tuple[str, str, str, str], tmp_path: Path) -> None:
    with serve(*place) as process:
        ready_port(process)
        stopped(process)
    data = tmp_path / "data"
    before = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file() and path.name != ".lock"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        status, output, log = run_to_its_end("--listen", address, "--data-dir", str(data))
    assert (status, output) == (2, "")
    assert f"cannot listen on {address}: address already in use; choose another port with --listen HOST:PORT" in log
    assert "Traceback" not in log
    after = {path.name: path.read_bytes() for path in data.iterdir() if path.is_file() and path.name != ".lock"}
    assert after == before


def test_refused_start_leaves_new_directory_new(place: tuple[str, str, str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert run_to_its_end("--listen", address, *place[2:])[0] == 2
    assert [path.name for path in (tmp_path / "data").iterdir()] == [".lock"]
    with serve(*place) as process:
        ready_port(process)
        assert "unclean" not in stopped(process)[2]


def test_a_bad_setting_is_named_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("\nnum.partitions=many\n")
    status, output, log = run_to_its_end("--config", str(file))
    assert (status, output) == (2, "")
    assert log == (
        f"barnabas: {file}, line 2: Invalid value many for configuration num.partitions: Not a number of type INT\n"
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--config", "/no/such/file"), "--config /no/such/file: no such file or directory"),
        (("--config", "/proc"), "--config /proc: is a directory"),
        (("-D", "num.partitions"), "-D num.partitions: write it as key=value"),
        (("--listen", "localhost"), "--listen localhost: write it as HOST:PORT"),
        (("--listen", "::1:9092"), "--listen ::1:9092: write it as HOST:PORT, with [] around"),
        (("--listen", "a b:1"), "--listen a b:1: "),
        (("--advertise", "h:none"), "--advertise h:none: write it as HOST:PORT"),
        (
            ("--listen", "127.0.0.1:0", "-D", "listeners=PLAINTEXT://:1"),
            "--listen 127.0.0.1:0 and -D listeners=PLAINTEXT://:1: both set listeners; leave one out",
        ),
        (
            ("--data-dir", "/proc/a", "-D", "log.dirs=/proc/b"),
            "--data-dir /proc/a and -D log.dirs=/proc/b: both set log.dirs",
        ),
        (
            ("--data-dir", "/proc/a", "-D", "log.dir=/proc/b"),
            "--data-dir /proc/a and -D log.dir=/proc/b: both set log.dirs",
        ),
        (("--socket", "PLAINTEXT"), "--socket PLAINTEXT: write it as LISTENER=DESCRIPTOR"),
        (("--socket", "SSL=0"), "--socket SSL=0: write it as LISTENER=DESCRIPTOR, with one of the"),
        (("--socket", "PLAINTEXT=999"), "--socket PLAINTEXT=999: bad file descriptor"),
        (("--ephemeral", "-D", "log.dirs=/proc/b"), "--ephemeral and -D log.dirs=/proc/b: both set log.dirs"),
        (("--data-dir", ""), "must not be empty"),
        (("-D", "log.dir="), "must not be empty"),
        (("--metrics", "nowhere"), "--metrics nowhere: write it as HOST:PORT"),
        (
            ("-D", "barnabas.metrics.listener=:x"),
            "-D barnabas.metrics.listener: barnabas.metrics.listener: write it as HOST:PORT",
        ),
        (
            ("--ephemeral", "--listen", "127.0.0.1:0", "--metrics", "192.0.2.1:9404"),
            "cannot listen on 192.0.2.1:9404 for metrics: cannot assign requested address",
        ),
        (("--topic", "t:none"), "--topic t:none: write it as NAME or NAME:PARTITIONS"),
        (("--topic", "t:10001"), "--topic t:10001: a topic can be created with at most 10000 partitions"),
        (("--ephemeral", "--topic", "a/b", "--listen", "127.0.0.1:0"), "--topic a/b: "),
        (("--data-dir", "/proc/nowhere", "--topic", "bad name"), "--topic bad name: "),
        (("--data-dir", "/proc/nowhere", "--topic", "t:0"), "--topic t:0: write it as"),
        (
            ("--listen", "0.0.0.0:0"),
            "--listen 0.0.0.0:0: clients cannot connect to 0.0.0.0:0; set the address of this broker with --advertise",
        ),
        (("--data-dir", "/proc/nowhere", "--listen", "127.0.0.1:0"), "the data directory cannot be used: "),
    ],
)
def test_start_failure_is_explained_in_one_line(arguments: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    status, output, log = run_to_its_end(*arguments, "--log-level", "error")
    assert (status, output) == (2, "")
    assert log.startswith("barnabas: ")
    assert log.count("\n") == 1
    assert problem in log


def test_the_data_of_another_node_is_refused(place: tuple[str, str, str, str]) -> None:
    with serve(*place) as process:
        ready_port(process)
        stopped(process)
    status, _, log = run_to_its_end(*place, "-D", "node.id=7")
    assert status == 2
    assert "has node.id=1, but the configuration has node.id=7" in log


def test_options_override_file_and_definitions_override_options(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"listeners=PLAINTEXT://127.0.0.1:1\nnode.id=3\nlog.dirs={tmp_path}/data\n")
    arguments = ("--config", str(file), "--listen", "127.0.0.1:0", "-D", "node.id=4")
    with serve(*arguments) as process:
        ready_port(process)
        _, _, log = stopped(process)
    assert "node 4 of cluster" in log
    assert "node.id=4" in (tmp_path / "data" / "meta.properties").read_text()


def test_options_override_all_related_settings_of_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"listeners=PLAINTEXT://127.0.0.1:1\nadvertised.listeners=PLAINTEXT://else:1\nlog.dir={tmp_path}/no\n"
    )
    with serve("--config", str(file), "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")) as process:
        ready_port(process)
        assert stopped(process)[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "server.properties"]


def test_definition_overrides_default(tmp_path: Path) -> None:
    with serve("-D", "listeners=PLAINTEXT://127.0.0.1:0", "-D", f"log.dir={tmp_path}/data") as process:
        ready_port(process)
        assert stopped(process)[0] == 0
    assert (tmp_path / "data" / "meta.properties").exists()


def test_unknown_settings_are_logged_once(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "-D", "no.such.setting=1") as process:
        ready_port(process)
        _, _, log = stopped(process)
    assert log.count("no.such.setting") == 1


def test_unknown_setting_is_logged_with_suggestion(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "-D", "num.partition=3", "-D", "flush.messages=1") as process:
        ready_port(process)
        log = stopped(process)[2]
    assert "num.partition (did you mean num.partitions?)" in log
    assert "flush.messages (did you mean log.flush.interval.messages?)" in log


def test_default_replication_factor_above_broker_count_is_logged(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "-D", "default.replication.factor=3") as process:
        ready_port(process)
        assert "default.replication.factor=3, but there is one broker" in stopped(process)[2]


def test_first_line_has_listen_address_not_advertised_one(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--advertise", "broker.example.org:1234") as process:
        present(process.stdout).readline()
        line = stopped(process)[2].splitlines()[0]
    assert "listens on PLAINTEXT://127.0.0.1:" in line
    assert "broker.example.org" not in line


def test_advertised_address_may_differ_from_listen_address(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--advertise", "broker.example.org:1234") as process:
        assert present(process.stdout).readline() == "ready: broker.example.org:1234\n"
        assert stopped(process)[0] == 0


def test_client_connections_leave_descriptors_for_logs(place: tuple[str, str, str, str]) -> None:
    """The hard limit applies; half of such a low limit is reserved for connections."""
    few_files = ("sh", "-c", 'ulimit -Sn 100; ulimit -Hn 200; exec "$0" "$@"')
    query_versions = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
    with serve(*place, by=few_files) as process, ExitStack() as clients:
        port = ready_port(process)
        answers = []
        for _ in range(110):
            client = clients.enter_context(socket.create_connection(("127.0.0.1", port)))
            try:
                client.sendall(query_versions)
                answers.append(client.recv(4))
            except ConnectionError:
                answers.append(b"")
        assert [bool(answer) for answer in answers] == [True] * 100 + [False] * 10
        clients.close()
        status, _, log = stopped(process)
    assert status == 0
    assert "the open file limit (100 connections) is reached" in log


def test_the_log_can_be_json(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--log-format", "json") as process:
        ready_port(process)
        _, _, log = stopped(process)
    assert {json.loads(line)["level"] for line in log.splitlines()} == {"info"}


def test_start_on_empty_directory_imports_no_groups_and_only_node_messages(
    place: tuple[str, str, str, str],
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "broker", *place],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        ready_port(process)
        _, _, log = stopped(process)
    finally:
        process.kill()
        process.communicate()
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines() if line.startswith("import time:")}
    assert "broker.network.socket_server" in imported
    of_its_own_controller = ("broker_heartbeat", "broker_registration")
    of_the_quorum = ("api_versions", "begin_quorum_epoch", "end_quorum_epoch", "fetch", "fetch_snapshot", "vote")
    of_other_brokers = ("alter_partition", "list_offsets")
    wanted = {f"protocol.messages.{name}" for name in (*of_its_own_controller, *of_the_quorum, *of_other_brokers)}
    assert wanted == {name for name in imported if name.startswith(("broker.coordinator.group", "protocol.messages."))}


def test_metrics_and_probes_are_served_on_configured_address(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--metrics", "127.0.0.1:0") as process:
        ready_port(process)
        address = present(re.search(r"http://127\.0\.0\.1:\d+", present(process.stderr).readline()))[0]
        with urllib.request.urlopen(f"{address}/readyz", timeout=30) as answer:
            assert answer.read() == b"ready\n"
        with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
            assert b'\nbarnabas_info{version="' in answer.read()
        assert stopped(process)[0] == 0


def test_the_url_of_the_control_api_is_printed_before_the_ready_line(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--control", "127.0.0.1:0", BARNABAS_CONTROL_TOKEN="secret") as process:
        line = present(process.stdout).readline()
        assert re.fullmatch(r"control: http://:secret@127\.0\.0\.1:\d+\n", line)
        ready_port(process)
        address = f"http://127.0.0.1:{line.strip().rpartition(':')[2]}/v1"
        request = urllib.request.Request(address, headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert json.load(answer)["phase"] == "serving"
        assert stopped(process)[0] == 0


def test_a_control_api_without_a_token_gets_a_random_one(place: tuple[str, str, str, str]) -> None:
    with serve(*place, "--control", "127.0.0.1:0") as process:
        line = present(process.stdout).readline()
        assert re.match(r"control: http://:[0-9a-f]{36}@", line)
        assert stopped(process)[0] == 0


def test_the_control_api_is_served_on_an_inherited_socket(place: tuple[str, str, str, str]) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        handed = ("--control", f"127.0.0.1:{port}", f"--socket=CONTROL={bound.fileno()}")
        with serve(*place, *handed, pass_fds=(bound.fileno(),)) as process:
            assert present(process.stdout).readline().endswith(f"@127.0.0.1:{port}\n")
            assert stopped(process)[0] == 0


def test_a_broker_without_the_control_api_has_no_socket_for_it(tmp_path: Path) -> None:
    status, _, errors = run_to_its_end("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--socket=CONTROL=0")
    assert status == 2
    assert "--socket CONTROL=0: write it as LISTENER=DESCRIPTOR, with one of the listeners" in errors


@pytest.mark.parametrize(("profile", "syncs"), [((), True), (("--test-profile",), False)])
def test_the_test_profile_syncs_nothing(profile: tuple[str, ...], syncs: bool, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "os.fsync = os.fdatasync = lambda _: sys.stderr.write('synced\\n')\n"
        "from broker.__main__ import main\n"
        "sys.exit(main())\n"
    )
    arguments = ("--listen=127.0.0.1:0", f"--data-dir={tmp_path}", "--topic=t", *profile)
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        ready_port(process)
        status, _, errors = stopped(process)
    assert status == 0
    assert ("synced" in errors) is syncs
