"""Rules of the code base, checked in the code itself. `docs/ARCHITECTURE.md` has the reasons."""

import ast
import fnmatch
import re
import tomllib

import pytest

from tests.repo.tree import ROOT, calls, files, imports_of, modules, parsed, runtime_imports

SERVER = ("protocol", "storage", "controller", "broker")
PRODUCT = (*SERVER, "simulation", "barnabas", "spark_jobs")

# The pure modules of the broker; protocol, controller and storage (except its disk) are pure as a whole.
PURE_IN_BROKER = (
    "broker/routes.py",
    "broker/authorization/requirement.py",
    "broker/network/connection.py",
    "broker/network/connection_counts.py",
    "broker/error_responses.py",
    "broker/replication/delayed_fetch.py",
    "broker/replication/fetch_sessions.py",
    "broker/replication/fetcher_state.py",
    "broker/replication/replica_state.py",
    "broker/replication/isr.py",
    "broker/replication/alter_partition_manager.py",
    "broker/metadata/metadata_view.py",
    "broker/network/listeners.py",
    "broker/metadata/process_roles.py",
    "broker/replication/partition.py",
    "broker/runtime/deadline_queue.py",
    "broker/runtime/purgatory.py",
    "broker/replication/record_validation.py",
    "broker/replication/follower_replica.py",
    "broker/replication/verification_queue.py",
    "broker/regex/classes.py",
    "broker/regex/parser.py",
    "broker/regex/program.py",
    "broker/settings.py",
    "broker/monitoring/topic_stats.py",
    "broker/security/distinguished_name.py",
    "broker/security/ssl_principal_mapper.py",
    "broker/security/security_error.py",
    "broker/security/sasl_authenticator.py",
    "broker/security/sasl_mechanisms.py",
    "broker/security/scram.py",
    "broker/security/token_credentials.py",
    "broker/coordinator/group/classic_group.py",
    "broker/coordinator/group/join.py",
    "broker/coordinator/group/leave.py",
    "broker/coordinator/group/offsets.py",
    "broker/coordinator/group/rebalance.py",
    "broker/coordinator/group/records.py",
    "broker/coordinator/group/shard.py",
    "broker/coordinator/group/sync.py",
    "broker/coordinator/runtime/timers.py",
    "broker/coordinator/transaction/context.py",
    "broker/coordinator/transaction/records.py",
    "broker/coordinator/transaction/request_checks.py",
    "broker/coordinator/transaction/shard.py",
    "broker/coordinator/transaction/transaction_metadata.py",
    "broker/coordinator/transaction/transaction_partitions.py",
    "broker/coordinator/group/context.py",
    "broker/coordinator/runtime/context.py",
    "broker/monitoring/telemetry_subscriptions.py",
    "broker/monitoring/telemetry.py",
    "broker/control/faults/rule.py",
    "broker/control/faults/request_content.py",
)
EFFECTS = ("asyncio", "datetime", "os", "random", "secrets", "selectors", "socket", "threading", "time", "uuid")
DISK = "storage/disk.py"
FILE_MODULES = ("fcntl", "glob", "mmap", "pathlib", "shutil", "tempfile")
FILE_CALLS = re.compile(
    r"(io\.|codecs\.)?open|os\.(open|fdopen|f?sync|fdatasync|rename|replace|link|remove|unlink|rmdir|f?truncate|"
    r"makedirs|mkdir|listdir|scandir|walk|stat|p?readv?|p?writev?|posix_fallocate|path\.(exists|isfile|isdir|getsize))"
)

# Libraries that only these modules may use.
ONE_PLACE = {
    "uvloop": {"broker/__main__.py"},
    "crc32c": {"protocol/checksum.py"},
    "cramjam": {"protocol/compression.py"},
    "lz4": {"protocol/compression.py"},
    "zlib": {"protocol/compression.py"},
    "signal": {"broker/__main__.py", "broker/startup/fork_server.py"},
    "random": {"broker/shared_server.py", "broker/control/faults/fault_api.py"},
    "time": {"broker/__main__.py", "broker/node.py", "broker/runtime/log_output.py", "broker/shared_server.py"},
    "argparse": {"broker/startup/command_line.py"},
    "h11": {"broker/control/http_api.py"},
    "concurrent": {"broker/runtime/executors.py"},
}
NOWHERE = ("threading", "multiprocessing", "subprocess", "secrets", "uuid", "dotenv")

MAX_LINES = 600

# Modules without their own unit test file, and the tests that cover them. One test compares all declarations;
# transcripts of the shard cover the phases of the group protocol; starting and stopping the program covers the broker's
# assembly; plain values are tested through their users.
TESTED_ELSEWHERE = {
    "barnabas/commands/clock/*.py": "tests/unit/barnabas/commands/test_controls.py",
    "barnabas/commands/_fault_rules.py": "tests/unit/barnabas/commands/test_controls.py",
    "barnabas/commands/fault/*.py": "tests/unit/barnabas/commands/test_controls.py",
    "barnabas/commands/trace.py": "tests/unit/barnabas/commands/test_controls.py",
    "protocol/messages/*.py": "tests/oracles/test_definitions.py",
    "controller/configs/broker.py": "tests/unit/controller/configs/test_tables.py",
    "controller/configs/*_configs.py": "tests/unit/controller/configs/test_tables.py",
    "controller/configs/unsupported*.py": "tests/unit/controller/configs/test_tables.py",
    "controller/configs/topic.py": "tests/unit/controller/configs/test_tables.py",
    "controller/commands/controller_result.py": "tests/unit/controller/commands/test_topics.py",
    "controller/raft/messages.py": "tests/scripts/raft/test_raft.py",
    "broker/coordinator/group/join.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/group/leave.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/group/rebalance.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/group/sync.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/group/context.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/runtime/context.py": "tests/scripts/groups/test_groups.py",
    "broker/coordinator/transaction/context.py": "tests/scripts/transactions/test_transactions.py",
    "broker/coordinator/transaction/request_checks.py": "tests/scripts/transactions/test_transactions.py",
    "broker/coordinator/transaction/shard.py": "tests/scripts/transactions/test_transactions.py",
    "broker/coordinator/transaction/construction.py": (
        "tests/unit/broker/coordinator/transaction/test_transaction_coordinator.py"
    ),
    "controller/scram.py": "tests/unit/broker/security/test_scram.py",
    "broker/security/listener_tls.py": "tests/unit/broker/network/test_tls_transport.py",
    "broker/security/security_error.py": "tests/unit/broker/security/test_key_stores.py",
    "broker/handlers/controller_command.py": "tests/unit/broker/test_routes.py",
    "broker/handlers/produce_appends.py": "tests/unit/broker/handlers/test_produce.py",
    "broker/node.py": "tests/unit/broker/test_main.py",
    "broker/controller_server.py": "tests/unit/broker/test_whole_cluster.py",
    "broker/monitoring/monitored.py": "tests/unit/broker/monitoring/test_monitor.py",
    "broker/control/control.py": "tests/unit/broker/control/test_control_server.py",
    "broker/control/controlled.py": "tests/unit/broker/control/test_control_server.py",
    "broker/control/api_problem.py": "tests/unit/broker/control/test_api.py",
    "broker/control/faults/*_faults.py": "tests/unit/broker/control/faults/test_fault_injector.py",
    "broker/control/faults/fault_state.py": "tests/unit/broker/control/faults/test_fault_injector.py",
    "broker/control/faults/outcomes.py": "tests/unit/broker/control/faults/test_fault_injector.py",
    "broker/control/faults/response_frames.py": "tests/unit/broker/control/faults/test_fault_injector.py",
    "broker/control/transcript/decoding.py": "tests/unit/broker/control/transcript/test_transcript_api.py",
    "broker/control/transcript/recorder.py": "tests/unit/broker/control/transcript/test_transcript_api.py",
    "broker/control/network_cuts.py": "tests/unit/broker/control/test_network.py",
    "broker/control/peers.py": "tests/unit/broker/control/test_network.py",
    "broker/control/gated_loop.py": "tests/clients/test_cut_brokers.py",
    "broker/control/leaders.py": "tests/clients/test_cut_brokers.py",
    "broker/control/partitions.py": "tests/unit/broker/control/test_log_ends.py",
    "broker/monitoring/*_tables.py": "tests/unit/broker/monitoring/test_monitor.py",
    "storage/log/log_checkpoint.py": "tests/unit/storage/log/test_loader.py",
    "storage/inspection/metadata_files.py": "tests/corruption/test_verify.py",
    "storage/inspection/partition.py": "tests/corruption/test_verify.py",
    "storage/inspection/repair.py": "tests/corruption/test_repair.py",
    "broker/log_tool/[drtv]*.py": "tests/unit/broker/log_tool/test_program.py",
    "barnabas/commands/log/*.py": "tests/unit/barnabas/commands/log/test_log.py",
    "barnabas/testing/_simulation.py": "tests/unit/barnabas/testing/test_simulated.py",
    "barnabas/testing/_spawner.py": "tests/kit/test_no_orphans.py",
    "barnabas/testing/_fork_client.py": "tests/kit/test_no_orphans.py",
    "barnabas/testing/_launchers.py": "tests/kit/test_no_orphans.py",
    "barnabas/testing/_processes.py": "tests/kit/test_no_orphans.py",
    "barnabas/testing/_leaders.py": "tests/unit/barnabas/testing/test_topic.py",
    "barnabas/testing/_record_log.py": "tests/unit/barnabas/testing/test_topic.py",
    "barnabas/testing/_nodes.py": "tests/unit/barnabas/testing/test_group.py",
    "barnabas/testing/errors.py": "tests/unit/barnabas/testing/test_cluster.py",
    "barnabas/testing/_report.py": "tests/kit/test_plugin.py",
    "barnabas/testing/plugin.py": "tests/kit/test_plugin.py",
    "barnabas/commands/_cluster_options.py": "tests/unit/barnabas/commands/test_run.py",
    "broker/security/listener_oauthbearer.py": "tests/unit/broker/security/test_listener_sasl.py",
    "barnabas/commands/_log.py": "tests/unit/barnabas/commands/log/test_log.py",
}


# Public classes of the test kit, which have the names that users of Kafka expect.
USERS_NAMES = {"Cluster", "Topic"}


def pure_modules() -> list[str]:
    return [
        *(
            module
            for module in modules("protocol", "storage", "controller")
            if module not in (DISK, "protocol/__main__.py")
        ),
        *PURE_IN_BROKER,
    ]


def test_pure_module_imports_and_calls_no_io() -> None:
    ways_out = {module: imports_of(parsed(module), *EFFECTS) for module in pure_modules()}
    assert not {module: found for module, found in ways_out.items() if found}


def test_pure_broker_module_imports_only_pure_modules() -> None:
    impure = {name.removesuffix(".py").replace("/", ".") for name in modules("broker")} - {
        name.removesuffix(".py").replace("/", ".") for name in PURE_IN_BROKER
    }
    used = {module: runtime_imports(parsed(module)) & impure for module in PURE_IN_BROKER}
    assert not {module: found for module, found in used.items() if found}


def test_only_the_broker_and_the_command_import_the_event_loop() -> None:
    others = modules("protocol", "storage", "controller", "spark_jobs", "docs")
    assert not [module for module in others if imports_of(parsed(module), "asyncio", "uvloop")]


def test_only_the_disk_accesses_files() -> None:
    # --ephemeral creates its temporary directory before there is a disk; pipes are not files of a log.
    allowed = {
        "broker/__main__.py": {"tempfile", "tempfile.mkdtemp", "os.read"},
        "broker/startup/fork_server.py": {"os.read", "os.write"},
        "broker/security/ssl_contexts.py": {"os.write"},
    }
    for module in modules(*SERVER):
        if module != DISK:
            tree = parsed(module)
            touched = imports_of(tree, *FILE_MODULES) | {call for call in calls(tree) if FILE_CALLS.fullmatch(call)}
            assert not touched - allowed.get(module, set()), module


@pytest.mark.parametrize(("library", "places"), ONE_PLACE.items())
def test_library_is_imported_only_by_its_modules(library: str, places: set[str]) -> None:
    assert {module for module in modules(*SERVER) if imports_of(parsed(module), library)} == places


def test_server_starts_no_threads_or_processes_and_creates_no_randomness() -> None:
    assert not [module for module in modules(*SERVER) if imports_of(parsed(module), *NOWHERE)]


def test_a_client_library_is_imported_when_a_command_runs_and_not_before() -> None:
    # They subclass clients of that library, so they are imported as late.
    themselves = ("barnabas.commands._admin", "barnabas.commands._kafka_client")
    at_the_top = [
        module
        for module in modules("barnabas")
        for statement in parsed(module).body
        if isinstance(statement, ast.Import | ast.ImportFrom) and imports_of(statement, "kafka", *themselves)
        if not module.endswith(("/_admin.py", "/_kafka_client.py"))
    ]
    assert not at_the_top


def test_product_has_no_assert() -> None:
    asserts = {m: [n.lineno for n in ast.walk(parsed(m)) if isinstance(n, ast.Assert)] for m in modules(*PRODUCT)}
    assert not {module: lines for module, lines in asserts.items() if lines}


def test_every_module_has_a_docstring() -> None:
    assert not [module for module in modules(*PRODUCT, "docs", "benchmarks") if not ast.get_docstring(parsed(module))]


def test_each_class_name_has_one_meaning() -> None:
    """A message's struct is named within its message; other classes are looked up by their names alone."""
    found: dict[str, list[str]] = {}
    for module in modules(*PRODUCT):
        if not module.startswith(("protocol/messages/", "protocol/records/")):
            for node in parsed(module).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(module)
    assert len(found) > 400
    assert {name: places for name, places in found.items() if len(places) > 1 and name not in USERS_NAMES} == {}


def test_file_is_not_longer_than_the_maximum() -> None:
    assert not [module for module in modules(*PRODUCT, "docs", "benchmarks", "tests") if length(module) > MAX_LINES]


def test_most_files_are_short() -> None:
    lengths = sorted(map(length, modules(*SERVER)))
    assert lengths[len(lengths) // 2] <= 200


def length(module: str) -> int:
    return len((ROOT / module).read_text(encoding="utf-8").splitlines())


def own_test_file(module: str) -> str:
    """Return the path of a module's unit tests: the same path, with `test_` before the name."""
    folder, _, name = module.removesuffix(".py").rpartition("/")
    return f"tests/unit/{folder}/test_{name.strip('_')}.py"


def without_own_tests() -> list[str]:
    with_code = (module for module in modules(*SERVER, "barnabas", "docs") if not module.endswith("__init__.py"))
    return [module for module in with_code if not (ROOT / own_test_file(module)).exists()]


def test_every_module_has_a_test_file_or_an_exemption() -> None:
    assert not [m for m in without_own_tests() if not any(fnmatch.fnmatch(m, known) for known in TESTED_ELSEWHERE)]


@pytest.mark.parametrize(("pattern", "tests"), TESTED_ELSEWHERE.items())
def test_exemption_from_a_test_file_is_valid(pattern: str, tests: str) -> None:
    assert (ROOT / tests).exists()
    assert fnmatch.filter(without_own_tests(), pattern), "it has one now"


def test_a_deterministic_test_neither_sleeps_nor_mocks() -> None:
    deterministic = {module: parsed(module) for module in modules("tests/unit", "tests/scripts", "tests/properties")}
    assert not [module for module, tree in deterministic.items() if "time.sleep" in calls(tree)]
    assert not [module for module, tree in deterministic.items() if imports_of(tree, "unittest")]


def test_tests_are_no_package() -> None:
    assert not [path for path in files() if path.name == "__init__.py" and "tests" in path.relative_to(ROOT).parts]


def test_no_file_refers_outside_the_repository() -> None:
    """No file has a path of one machine, or a path outside the checkout."""
    elsewhere = re.compile(rb"(?<![\w.])/(work|root|Users)/\w|\.\./shared")
    this = "tests/repo/test_tidy.py"
    texts = {str(path.relative_to(ROOT)): path.read_bytes() for path in files() if path.suffix != ".bin"}
    assert not [name for name, text in texts.items() if name != this and elsewhere.search(text)]


@pytest.mark.parametrize("name", ["requirements/run.txt", "requirements/dev.txt"])
def test_requirements_are_pinned_by_hash_and_name_no_registry(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    requirements = [
        line for line in re.sub(r"\\\n", "", text).splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    assert not [line for line in requirements if not re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:", line)]
    assert not re.search(r"://|(^|\s)-(-index|-extra|-find|-trusted|i |f )", text, re.MULTILINE)


@pytest.mark.parametrize(("extras", "name"), [((), "run"), (("spark", "delta", "test", "demo", "bench"), "dev")])
def test_every_declared_dependency_is_pinned(extras: tuple[str, ...], name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["dependencies"] + [item for extra in extras for item in project["optional-dependencies"][extra]]
    pinned = set(
        re.findall(r"^([\w.-]+)==", (ROOT / f"requirements/{name}.txt").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {re.split(r"[^\w.-]", item)[0].lower() for item in declared}
    assert named - {project["name"]} <= pinned  # an extra may include another one of the project


def test_no_lock_file_records_download_addresses() -> None:
    locks = {"uv.lock", "poetry.lock", "Pipfile.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml"}
    assert not [path for path in files() if path.name in locks]
