"""The commands on files, as they are typed: each becomes the server's program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.all_files import write_all_files


def log(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", "log", *arguments]
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


def test_a_reader_that_has_seen_enough_is_no_error(place: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "log", "dump", *["data"] * 50]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


def test_a_full_disk_is_told_in_one_line(place: Path) -> None:
    command = [sys.executable, "-m", "barnabas", "log", "dump", "data"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == "barnabas log dump: cannot write standard output: No space left on device\n"
    assert done.returncode == 2


def test_a_partition_belongs_to_a_topic(call) -> None:
    said = call("log", "dump", "data", "-p", "1")
    assert (said.status, said.err) == (2, "barnabas log dump: --partition belongs to --topic\n")


def test_a_repair_is_either_tried_or_done(call) -> None:
    assert call("log", "repair", "data", "--dry-run", "--execute").status == 2


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_help_has_examples(call, command: str) -> None:
    said = call("log", command, "--help")
    assert said.status == 0
    assert f"  barnabas log {command} barnabas-data" in said.out


def test_the_shell_is_offered_options_and_left_its_files(call) -> None:
    assert call("complete", "log", "v").lines == [
        "verify\tcheck everything against its format and the rest; list what is wrong"
    ]
    assert "--execute" in call("complete", "log", "repair", "--e").out
    assert call("complete", "log", "dump", "").out == ""
    assert call("complete", "log", "dump", "x", "--decoder", "o").lines == ["offsets"]


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_an_empty_path_is_not_the_working_directory(call, command: str) -> None:
    said = call("log", command, "")
    assert (said.status, said.err) == (
        2,
        f"barnabas log {command}: a PATH is empty; for the working directory write .\n",
    )


def test_the_help_of_repair_promises_no_files(call) -> None:
    assert "a file, the directory" not in call("log", "repair", "--help").out
    assert "a file, the directory" in call("log", "verify", "--help").out
