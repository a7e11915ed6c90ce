from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.broker_process import COMMAND
from tests.typed import present

RUN = [*COMMAND, "run"]
ENVIRONMENT = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, *words], env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_program_has_the_clusters_addresses_and_its_status_is_passed_on() -> None:
    script = "echo one | barnabas produce letters && barnabas consume letters --exit; "
    script += "echo $KAFKA_BOOTSTRAP_SERVERS; exit 7"
    done = run("--brokers", "2", "--topic", "letters:2", "-D", "num.partitions=3", "--", "sh", "-c", script)
    assert (done.returncode, done.stderr) == (7, "")
    record, addresses = done.stdout.splitlines()
    assert record == "one"
    assert len(addresses.split(",")) == 2


def test_a_program_of_a_secure_cluster_has_the_login_of_admin_and_the_files_of_client() -> None:
    python = """
import os
from kafka import KafkaProducer
value = lambda name: os.environ["KAFKA_" + name]
with KafkaProducer(bootstrap_servers=value("BOOTSTRAP_SERVERS"), security_protocol=value("SECURITY_PROTOCOL"),
        ssl_cafile=value("SSL_CA_LOCATION"), sasl_mechanism=value("SASL_MECHANISM"),
        sasl_plain_username=value("SASL_USERNAME"), sasl_plain_password=value("SASL_PASSWORD")) as producer:
    producer.send("letters", b"one").get(30)
"""
    script = 'python -c "$1"; barnabas consume letters --exit; '
    script += "barnabas consume letters --exit --command-config $KAFKA_CLIENT_FILES/client.properties"
    done = run("--secure", "--topic", "letters", "--", "sh", "-c", script, "sh", python)
    assert done.stdout == "one\n"
    assert done.stderr == "barnabas consume: there is no topic letters, or this user may not describe it\n"


def test_options_after_the_dashes_are_the_programs() -> None:
    assert run("--", "echo", "--brokers", "--", "-x").stdout == "--brokers -- -x\n"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "barnabas run: error: write the command to run after --, as in `barnabas run -- pytest`\n"),
        (("pytest", "--"), 2, "write the command to run after --"),
        (("--brokers", "0", "--", "ls"), 2, "argument --brokers"),
        (("-D", "num.io.threads=x", "--", "ls"), 2, "Invalid value x for configuration num.io.threads"),
        (("--", "no-such-program"), 127, "barnabas run: cannot run no-such-program: no such file or directory\n"),
        (("--", "/"), 126, "barnabas run: cannot run /: permission denied\n"),
        (("--", "sh", "-c", "kill -9 $$"), 137, ""),
    ],
)
def test_what_cannot_be_run_is_said_and_has_the_status_of_shells(
    words: tuple[str, ...], status: int, message: str
) -> None:
    done = run(*words)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_goes_to_the_program_and_the_brokers_outlive_it(number: signal.Signals) -> None:
    script = f"""
import os, signal, subprocess, sys
def stop(*_):
    subprocess.run(["barnabas", "produce", "t"], input=b"late", check=True)
    sys.exit(5)
signal.signal({int(number)}, stop)
print("ready", flush=True)
while True:
    signal.pause()
"""
    with subprocess.Popen(
        [*RUN, "--", sys.executable, "-c", script],
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        assert present(process.stdout).readline() == "ready\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        assert process.wait(60) == 5
