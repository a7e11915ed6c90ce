"""`barnabas log`: each command is replaced by the server's program."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.all_files import write_all_files
from tests.setups import require
from tests.unit.barnabas.conftest import Command

READ_ONLY_COMMANDS = [("verify",), ("dump",), ("repair", "--dry-run")]


def log(*arguments: str, cwd: Path, within: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*within, sys.executable, "-m", "barnabas", "log", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_all_files(tmp_path / "data")
    return tmp_path


def test_files_are_dumped_verified_and_repaired(place: Path) -> None:
    dumped = log("dump", "data", "-t", "t0", "-p", "0", "-o", "20:21", "--json", cwd=place)
    assert (dumped.returncode, dumped.stderr) == (0, "")
    rows = [json.loads(line) for line in dumped.stdout.splitlines()]
    assert [record["offset"] for row in rows for record in row.get("records", ())] == [20]
    verified = log("verify", "data/t0-0", cwd=place)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "nothing is wrong\n", "")
    repaired = log("repair", "data", "--execute", cwd=place)
    assert (repaired.returncode, repaired.stdout) == (0, "nothing is wrong\n")


def read_only_mount(directory: Path) -> list[str]:
    """Return a prefix command that mounts `directory` read-only, in its own namespace."""
    require("unshare")
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    within = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(directory)]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system allows no mount namespaces")
    return within


def without_write_permission(directory: Path) -> list[str]:
    """Make `directory` read-only; return a prefix command that drops root's permission override."""
    require("unshare")
    for path in (directory, *directory.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    within = ["unshare", "--user"]
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system allows no user namespaces")
    return within


@pytest.mark.parametrize("restrict", [read_only_mount, without_write_permission])
@pytest.mark.parametrize("has_lock", [True, False])
@pytest.mark.parametrize("command", READ_ONLY_COMMANDS, ids=" ".join)
def test_read_only_files_are_read(
    place: Path, restrict: Callable[[Path], list[str]], has_lock: bool, command: tuple[str, ...]
) -> None:
    if has_lock:
        (place / "data/.lock").write_text("1\n")
    within = restrict(place / "data")
    try:
        done = log(*command, "data", cwd=place, within=within)
    finally:
        for path in (place / "data", *place.rglob("data/**/")):
            path.chmod(0o755)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing is wrong\n" or command == ("dump",)


def test_repair_of_read_only_files_reports_the_error(place: Path) -> None:
    done = log("repair", "data", "--execute", cwd=place, within=read_only_mount(place / "data"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "barnabas log repair: data/.lock: Read-only file system\n"


def test_reader_that_closes_the_pipe_is_no_error(place: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "log", "dump", *["data"] * 50]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_full_disk_is_reported_in_one_line(place: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "log", "dump", "data"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "barnabas log dump: cannot write standard output: No space left on device\n"
    assert done.returncode == 2


def test_partition_option_needs_a_topic(call: Command) -> None:
    shown = call("log", "dump", "data", "-p", "1")
    assert (shown.status, shown.err) == (2, "barnabas log dump: --partition requires --topic\n")


def test_repair_accepts_only_one_of_dry_run_and_execute(call: Command) -> None:
    assert call("log", "repair", "data", "--dry-run", "--execute").status == 2


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_help_has_examples(call: Command, command: str) -> None:
    shown = call("log", command, "--help")
    assert shown.status == 0
    assert f"  barnabas log {command} barnabas-data" in shown.out


def test_completion_offers_options_and_leaves_files_to_the_shell(call: Command) -> None:
    assert call("complete", "log", "v").lines == [
        "verify\tcheck files against their formats and each other; list the findings"
    ]
    assert "--execute" in call("complete", "log", "repair", "--e").out
    assert call("complete", "log", "dump", "").out == ""
    assert call("complete", "log", "dump", "x", "--decoder", "o").lines == ["offsets"]


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_an_empty_path_is_not_the_working_directory(call: Command, command: str) -> None:
    shown = call("log", command, "")
    assert (shown.status, shown.err) == (
        2,
        f"barnabas log {command}: a PATH is empty; for the working directory write .\n",
    )


def test_help_of_repair_does_not_promise_files(call: Command) -> None:
    assert "a file, the directory" not in call("log", "repair", "--help").out
    assert "a file, the directory" in call("log", "verify", "--help").out
