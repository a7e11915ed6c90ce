"""No process and no file of a cluster is left, however the process that started it ends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit.leftovers import Mark
from tests.typed import present

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

END_S = 20.0

LAUNCHERS = pytest.mark.parametrize("fork", ["1", "0"], ids=["forked", "spawned"])

# Each program prints a line when its brokers run, and then does what its end is about.
BEGIN = """
import os, signal, sys
from barnabas.testing import Cluster
cluster = Cluster(brokers=2).start()
print(cluster.directory, *(broker.pid for broker in cluster.brokers), flush=True)
"""
ENDS = {
    "exit_without_close": "sys.exit(3)",
    "exit_at_once": "os._exit(3)",
    "an_exception": "raise SystemExit(3)",
    "an_exception_in_the_block": "with cluster.__class__(): sys.exit(3)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "os.kill(os.getpid(), signal.SIGINT)",
    "killed_with_a_paused_broker": "cluster.brokers[0].pause(); os.kill(os.getpid(), signal.SIGKILL)",
    "exit_with_a_paused_broker": "cluster.brokers[0].pause(); sys.exit(3)",
}


@contextmanager
def program(source: str, mark: Mark, tmp_path: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program whose temporary files are in `tmp_path`."""
    with subprocess.Popen(
        [sys.executable, "-c", source],
        env=mark.environment(TMPDIR=str(tmp_path), **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("end", "fork"),
    [*((end, "1") for end in ENDS), ("killed", "0"), ("exit_at_once", "0"), ("killed_with_a_paused_broker", "0")],
)
def test_no_process_or_file_is_left(end: str, fork: str, tmp_path: Path) -> None:
    mark = Mark()
    with program(BEGIN + ENDS[end], mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        directory, *pids = present(process.stdout).readline().split()
        assert len(pids) == 2
        process.communicate(timeout=END_S)
    assert mark.left_after(END_S) == []
    assert not Path(directory).exists()
    assert list(tmp_path.iterdir()) == []


PYTHONS = "os.fork()"
"""The fork of `os` and `multiprocessing`, before which Python runs hooks."""
LIBCS = "__import__('ctypes').CDLL(None).fork()"
"""The fork of a library written in C, which no hook sees."""


@pytest.mark.parametrize(("fork", "how"), [("1", PYTHONS), ("0", PYTHONS), ("1", LIBCS)])
def test_brokers_end_with_the_program_while_a_fork_of_it_runs_on(fork: str, how: str, tmp_path: Path) -> None:
    mark = Mark()
    source = f"""
if {how}:
    os.kill(os.getpid(), signal.SIGKILL)
print(os.getpid(), flush=True)
sys.stdin.read()
"""
    with program(BEGIN + source, mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        output = present(process.stdout)
        output.readline()
        forked = int(output.readline())
        assert mark.left_after(END_S, but=forked) == []
        assert mark.processes() == [forked]
        assert list(tmp_path.iterdir()) == []
        process.communicate(timeout=END_S)
    assert mark.left_after(END_S) == []


@pytest.mark.parametrize(
    ("fork", "delay_ms"), [("1", 1), ("1", 60), ("1", 150), ("1", 250), ("1", 400), ("0", 100), ("0", 300)]
)
def test_an_interrupt_at_any_time_leaves_nothing(fork: str, delay_ms: int, tmp_path: Path) -> None:
    mark = Mark()
    source = f"""
import signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, {delay_ms} / 1000)
from barnabas.testing import Cluster
with Cluster(brokers=3):
    while True:
        signal.pause()
"""
    with program(source, mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        _, errors = process.communicate(timeout=END_S)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert mark.left_after(END_S) == []
    assert list(tmp_path.iterdir()) == []


def test_brokers_end_with_a_fork_server_that_is_killed_and_the_next_cluster_starts(tmp_path: Path) -> None:
    mark = Mark()
    source = (
        BEGIN
        + """
cluster.brokers[1].pause()
server = os.getsid(cluster.brokers[0].pid)
os.kill(server, signal.SIGKILL)
try:
    cluster.brokers[0].stop()
except Exception as error:
    print(error, flush=True)
with Cluster() as second:
    second.topic().produce(["served"])
    print("served", flush=True)
sys.stdin.read()
cluster.close()
"""
    )
    with program(source, mark, tmp_path) as process:
        output = present(process.stdout)
        pids = list(map(int, output.readline().split()[1:]))
        assert "has ended with status -9" in output.readline()
        assert output.readline() == "served\n"
        assert not set(pids) & set(mark.processes())
        _, errors = process.communicate(timeout=END_S)
    assert (process.returncode, errors) == (0, "")
    assert mark.left_after(END_S) == []
    assert list(tmp_path.iterdir()) == []


@LAUNCHERS
def test_a_fork_of_the_program_uses_the_cluster_and_starts_its_own(fork: str, tmp_path: Path) -> None:
    mark = Mark()
    source = (
        BEGIN
        + """
import multiprocessing
topic = cluster.topic()

def work():
    topic.produce(["from the fork"])
    try:
        cluster.brokers[0].kill()
    except Exception as error:
        print(error, flush=True)
    cluster.close()
    with Cluster() as own:
        own.topic().produce(["its own"])

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
print(child.exitcode, [record.value for record in topic.records()], flush=True)
cluster.close()
"""
    )
    with program(source, mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        output, errors = process.communicate(timeout=END_S)
    assert errors == ""
    _, refusal, result = output.splitlines()
    assert "of which this process is a fork" in refusal
    assert result == "0 [b'from the fork']"
    assert mark.left_after(END_S) == []
    assert list(tmp_path.iterdir()) == []


@LAUNCHERS
def test_a_cluster_outlives_the_thread_that_started_it(fork: str, tmp_path: Path) -> None:
    mark = Mark()
    source = """
import threading
from barnabas.testing import Cluster
clusters = []
starter = threading.Thread(target=lambda: clusters.append(Cluster().start()))
starter.start()
starter.join()
print(clusters[0].topic().produce(["served"]))
clusters[0].close()
"""
    with program(source, mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        output, errors = process.communicate(timeout=END_S)
    assert (output, errors) == ("[Position(partition=0, offset=0)]\n", "")
    assert mark.left_after(END_S) == []


@LAUNCHERS
def test_nested_clusters_end_independently(fork: str, tmp_path: Path) -> None:
    mark = Mark()
    source = """
from barnabas.testing import Cluster
with Cluster() as outer:
    with Cluster() as inner:
        assert outer.bootstrap != inner.bootstrap
        inner.topic("letters")
        print(inner.topic("letters", create=False).leaders)
    print(outer.topic("letters").produce(["served"]))
"""
    with program(source, mark, tmp_path, BARNABAS_TEST_FORK=fork) as process:
        output, errors = process.communicate(timeout=END_S)
    assert (output, errors) == ("{0: 1}\n[Position(partition=0, offset=0)]\n", "")
    assert mark.left_after(END_S) == []


def test_a_program_ends_with_the_run_command_that_is_killed(tmp_path: Path) -> None:
    mark = Mark()
    line = [sys.executable, "-m", "barnabas", "run", "--", "sh", "-c", "echo begun; exec sleep 60"]
    environment = mark.environment(TMPDIR=str(tmp_path))
    with subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) as command:
        assert present(command.stdout).readline() == "begun\n"
        command.kill()
    assert mark.left_after(END_S) == []
