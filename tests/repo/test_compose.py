"""The container files, without an engine: Compose's loader reads them, and our parsers read their commands."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.commands._parser import find, make_parser
from broker.__main__ import _settings
from broker.settings import Settings
from broker.startup.command_line import parse
from storage.disk import OsDisk
from tests.broker_process import COMMAND, BrokerProcess, free_address
from tests.repo.tree import ROOT
from tests.setups import prepared, require, run
from tests.typed import present

LOADER = Path(__file__).parent / "compose"
PROJECT = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def project() -> PROJECT:
    """Load docker-compose.yml with Compose's loader: schema, interpolation, references; every profile is active."""
    require("go")
    sources = [*LOADER.glob("go.*"), *LOADER.glob("*.go")]
    built = prepared("compose", sources, lambda folder: run("go", "build", "-o", f"{folder}/load", ".", cwd=LOADER))

    def load(**environment: str) -> dict[str, Any]:
        clean = {name: value for name, value in os.environ.items() if name != "ADVERTISE"}
        command = [built / "load", ROOT / "docker-compose.yml"]
        printed = subprocess.run(command, env=clean | environment, capture_output=True, check=True).stdout
        result: dict[str, Any] = json.loads(printed)["services"]
        return result

    return load


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the Dockerfile's stages, each with its instructions and those of its base stage."""
    text = re.sub(r"\\\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            base, name = present(re.fullmatch(r"(\S+) AS (\S+)", rest)).groups()
            current = found[name] = list(found.get(base, []))
        elif instruction and not instruction.startswith("#"):
            current.append((instruction, rest.strip()))
    return found


def last(stage: str, instruction: str) -> str:
    return [rest for name, rest in stages()[stage] if name == instruction][-1]


def settings_of(command: list[str]) -> Settings:
    """Return the settings of `barnabas serve` with this command."""
    assert command[0] == "serve"
    environment = dict(rest.split("=", 1) for name, rest in stages()["broker"] if name == "ENV")
    return _settings(parse(command[1:]), OsDisk(), environment)


def listeners_of(command: list[str]) -> tuple[set[str], set[str]]:
    settings = settings_of(command)
    return {str(e) for e in settings.listeners}, {str(e) for e in settings.advertised_listeners}


def commands(services: dict[str, Any]) -> list[list[str]]:
    """Return the commands of the brokers, by their ids."""
    return [services[f"broker-{number}"]["command"] for number in (1, 2, 3)]


def test_containers_and_host_each_have_a_reachable_listener(project: PROJECT) -> None:
    for number, command in enumerate(commands(project()), 1):
        port = 9091 + number
        listeners, advertised = listeners_of(command)
        assert listeners == {"INTERNAL://:29092", f"EXTERNAL://:{port}", "CONTROLLER://:29093"}
        assert advertised == {f"INTERNAL://broker-{number}:29092", f"EXTERNAL://localhost:{port}"}
        published = project()[f"broker-{number}"]["ports"]
        assert [(one["target"], one["published"]) for one in published] == [(port, str(port))]


def test_brokers_are_one_cluster_with_replication_factor_3_and_min_isr_2(project: PROJECT) -> None:
    settings = [settings_of(command) for command in commands(project())]
    assert [one.node_id for one in settings] == [1, 2, 3]
    assert {tuple(map(str, one.voters)) for one in settings} == {
        tuple(f"{number}@broker-{number}:29093" for number in (1, 2, 3))
    }
    assert {(one["default.replication.factor"], one["min.insync.replicas"]) for one in settings} == {(3, 2)}


def test_brokers_with_these_commands_serve_on_both_listeners(project: PROJECT, tmp_path: Path) -> None:
    ports: dict[str, str] = {}
    with ExitStack() as stack:

        def here(match: re.Match[str]) -> str:
            """Return a port of this machine in place of a container's port."""
            if match[0] not in ports:
                free = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
                ports[match[0]] = str(free.getsockname()[1])
            return f"localhost:{ports[match[0]]}"

        reported = []
        for number, command in enumerate(commands(project()), 1):
            text = "\n".join(command).replace("//:", f"//broker-{number}:").replace("localhost:", f"broker-{number}:")
            text = re.sub(r"broker-\d:\d+", here, text).replace("127.0.0.1:9404", "127.0.0.1:0")
            reported.append(text.replace("/var/lib/barnabas", str(tmp_path / str(number))).split("\n"))
    brokers = []
    try:
        for number, command in enumerate(reported, 1):
            with open(tmp_path / f"log{number}", "w+b") as log:
                brokers.append(subprocess.Popen([*COMMAND, *command], stdout=subprocess.PIPE, stderr=log))
        for number, broker in enumerate(brokers, 1):
            assert present(broker.stdout).readline().startswith(b"ready: localhost:"), (
                tmp_path / f"log{number}"
            ).read_text()
        inside, outside = ports["broker-1:29092"], ports["broker-3:9094"]
        run(*COMMAND, "topic", "create", "made-inside", "--brokers", f"localhost:{inside}")
        assert run(*COMMAND, "topic", "list", "-q", "--brokers", f"localhost:{outside}") == "made-inside\n"
        assert run(*COMMAND, "health", "--brokers", f"localhost:{inside}").startswith("healthy: yes")
    finally:
        for broker in brokers:
            broker.terminate()
        for broker in brokers:
            broker.communicate()
    assert [broker.returncode for broker in brokers] == [0, 0, 0]


def test_advertised_address_comes_from_the_environment(project: PROJECT) -> None:
    _, advertised = listeners_of(commands(project(ADVERTISE="kafka.example.com"))[2])
    assert advertised == {"INTERNAL://broker-3:29092", "EXTERNAL://kafka.example.com:9094"}


def test_every_setting_of_the_brokers_exists(project: PROJECT) -> None:
    assert [settings_of(command).unknown for command in commands(project())] == [{}] * 3


def test_the_image_alone_can_be_reached_through_its_exposed_port() -> None:
    listeners, advertised = listeners_of(json.loads(last("broker", "CMD")))
    assert (listeners, advertised) == ({"PLAINTEXT://0.0.0.0:9092"}, {"PLAINTEXT://localhost:9092"})
    assert last("broker", "EXPOSE") == "9092"
    assert json.loads(last("broker", "ENTRYPOINT")) == ["barnabas"]


def test_data_is_in_volumes_that_the_brokers_can_write(project: PROJECT) -> None:
    sources = set()
    for number, command in enumerate(commands(project()), 1):
        (directory,) = settings_of(command).log_dirs
        (volume,) = project()[f"broker-{number}"]["volumes"]
        assert volume["target"] == directory == last("broker", "VOLUME")
        sources.add(volume["source"])
    assert len(sources) == 3
    assert settings_of(json.loads(last("broker", "CMD"))).log_dirs == (directory,)
    assert f"install -d -o {last('broker', 'USER')} {directory}" in dict(stages()["broker"])["RUN"]


def test_health_check_passes_for_a_broker_without_its_cluster(project: PROJECT, tmp_path: Path) -> None:
    services = project()
    kind, program, *arguments = services["broker-1"]["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "python")
    assert all(services[f"broker-{number}"]["healthcheck"] == services["broker-1"]["healthcheck"] for number in (2, 3))
    assert all("--metrics=127.0.0.1:9404" in command for command in commands(services))
    metrics = free_address()
    check = [sys.executable, *(argument.replace("127.0.0.1:9404", metrics) for argument in arguments)]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1
    with BrokerProcess(tmp_path, {"barnabas.metrics.listener": metrics}):
        assert subprocess.run(check, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("service", ["flights", "flight-delays"])
def test_job_accepts_its_options_and_has_the_broker_address(project: PROJECT, service: str) -> None:
    module, *options = project()[service]["command"]
    assert json.loads(last("spark", "ENTRYPOINT")) == ["python", "-m"]
    assert {"--bootstrap=broker-1:29092", "--brokers=broker-1:29092"} & set(options)
    # With --help, an unknown option is still an error, and nothing runs.
    known = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert all(option.partition("=")[0] in known.stdout for option in options)


def test_every_service_is_a_stage_of_the_dockerfile(project: PROJECT) -> None:
    assert {service["build"]["target"] for service in project().values()} == set(stages()) == {"broker", "spark"}


def test_flights_start_after_healthy_cluster_and_job_after_flights(project: PROJECT) -> None:
    services = project()
    conditions = {name: service.get("depends_on", {}) for name, service in services.items()}
    assert conditions["cluster-is-well"]["broker-1"]["condition"] == "service_healthy"
    assert conditions["flights"]["cluster-is-well"]["condition"] == "service_completed_successfully"
    assert conditions["flight-delays"]["flights"]["condition"] == "service_completed_successfully"
    found = find(services["cluster-is-well"]["command"])
    options = make_parser(found).parse_args(found.rest)
    assert (options.brokers, options.exit_when_healthy, options.give_up) == (["broker-1:29092"], True, 120)


def test_files_copied_into_an_image_exist_and_are_in_the_build_context() -> None:
    ignored = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    sources = {shlex.split(rest)[0] for stage in stages() for name, rest in stages()[stage] if name == "COPY"}
    assert sources == {".", "requirements/run.txt", "requirements/dev.txt"}
    assert all((ROOT / source).exists() for source in sources)
    assert not ignored & {"README.md", "LICENSE", "pyproject.toml", "requirements", "barnabas", "spark_jobs"}
