"""Output and exit status of `barnabas log`, with requests as the CLI sends them."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

from broker.log_tool.program import main
from storage.disk import OsDisk
from tests.all_files import write_all_files

SEGMENT = f"t0-0/{18:020d}"
NO_DATA_DIRECTORY = (
    "neither a broker's data directory (no meta.properties, no log directory) nor a log directory (no segment or other "
    "file of a log)\n"
)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    write_all_files(folder)
    # `dbus-1` looks like a log directory (topic-partition) but is not in a data directory.
    (tmp_path / "etc" / "dbus-1" / "system.d").mkdir(parents=True)
    (tmp_path / "etc" / "dbus-1" / "system.conf").touch()
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(command: str, *paths: str, **more: Any) -> tuple[int, str, str]:
        where = [os.path.normpath(folder / path) for path in paths or ("",)]
        status = main(["log", json.dumps({"command": command, "paths": where, **more})])
        return status, *capsys.readouterr()

    return run


def damage(folder: Path, name: str = f"{SEGMENT}.log", at: int = 200) -> None:
    file = folder / name
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.name != ".lock"}


def test_segment_is_dumped_as_a_table_with_its_records(run: Run) -> None:
    status, out, err = run("dump", f"{SEGMENT}.log")
    assert (status, err) == (0, "")
    title, columns, first, record, *_ = out.splitlines()
    assert title == f"data/{SEGMENT}.log: segment"
    assert columns.split()[:4] == ["POSITION", "BYTES", "OFFSET", "LAST"]
    assert first.split()[:4] == ["0", "116", "18", "20"]
    assert record == '  | 18  2027-01-15T08:00:00.020Z  key="k2"  value="' + "v" * 30 + '"'
    assert "transactional, control" in out


def test_every_file_of_a_data_directory_is_dumped(run: Run, folder: Path) -> None:
    status, out, _ = run("dump")
    assert status == 0
    titles = {line.partition(":")[0] for line in out.splitlines() if line.startswith("data/")}
    assert titles == {f"data/{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file()} - {
        "data/.lock"
    }


def test_json_output_has_one_object_per_line(run: Run, folder: Path) -> None:
    status, out, _ = run("dump", topic="t0", offsets="20:22", json=True)
    found = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    offsets = [record["offset"] for row in found for record in row.get("records", ())]
    assert offsets == [20, 21]
    assert {row["file"] for row in found} >= {f"{folder}/{SEGMENT}.log"}


def test_batches_are_dumped_without_their_records(run: Run) -> None:
    assert "  | " not in run("dump", f"{SEGMENT}.log", records=False)[1]


def test_dump_shows_damage_and_continues(run: Run, folder: Path) -> None:
    damage(folder)
    for as_json in (False, True):
        status, out, _ = run("dump", f"{SEGMENT}.log", json=as_json)
        assert status == 1
        assert "crc: " in out
        assert "33" in out.splitlines()[-2]


@pytest.mark.parametrize(
    ("path", "more", "problem"),
    [
        ("nowhere", {}, "no such file or directory"),
        ("../data/.lock", {}, "not a file of a Kafka log or data directory"),
        ("..", {}, NO_DATA_DIRECTORY),
        ("../etc", {}, NO_DATA_DIRECTORY),
        ("../etc/dbus-1", {}, NO_DATA_DIRECTORY),
        ("../etc", {"topic": "dbus"}, NO_DATA_DIRECTORY),
        ("", {"topic": "x"}, "has no log of x"),
        ("", {"topic": "t0", "partition": 3}, "has no log of t0-3"),
        ("t0-0", {"topic": "t0"}, "is a log directory"),
        (f"{SEGMENT}.log", {"topic": "t0"}, "is a file"),
        ("", {"offsets": "x"}, "expected FROM:TO"),
        ("", {"offsets": "9:9"}, "empty range from 9 to 9"),
    ],
)
def test_dump_error_is_one_line(run: Run, path: str, more: dict[str, Any], problem: str) -> None:
    status, out, err = run("dump", path, **more)
    assert (status, out) == (2, "")
    assert err.startswith("barnabas log dump: ")
    assert problem in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["dump", "verify", "repair"])
def test_directory_that_is_not_a_data_directory_is_refused(run: Run, command: str) -> None:
    assert run(command, "../etc") == (2, "", f"barnabas log {command}: etc: {NO_DATA_DIRECTORY}")


@pytest.mark.parametrize("left", ["meta.properties", "t0-0"])
def test_data_directory_with_missing_files_is_verified(run: Run, folder: Path, left: str) -> None:
    for path in folder.iterdir():
        if path.name != left:
            rmtree(path) if path.is_dir() else path.unlink()
    status, out, err = run("verify")
    assert (status, err) == (int(left == "t0-0"), "")
    assert ("data/meta.properties: cluster.id: file is missing" in out) is (left == "t0-0")


def test_verify_reports_a_directory_without_damage(run: Run) -> None:
    assert run("verify") == (0, "nothing is wrong\n", "")
    assert run("verify", json=True) == (0, "[]\n", "")


@pytest.mark.parametrize("path", ["", "t0-0", f"{SEGMENT}.log"])
def test_damage_is_reported_with_file_position_and_field(run: Run, folder: Path, path: str) -> None:
    damage(folder)
    status, out, _ = run("verify", path)
    assert status == 1
    assert f"data/{SEGMENT}.log at 133: crc: " in out
    assert out.endswith(("is wrong\n", "are wrong\n"))
    (found, *_) = json.loads(run("verify", path, json=True)[1])
    assert (found["path"], found["position"], found["field"]) == (f"{folder}/{SEGMENT}.log", 133, "crc")


def test_a_directory_in_use_is_verified_with_a_warning(run: Run, folder: Path) -> None:
    lock = OsDisk().lock(f"{folder}/.lock")
    assert "data is in use" in run("verify")[2]
    lock.release()
    assert run("verify")[2] == ""


def test_repair_without_execute_changes_nothing(run: Run, folder: Path) -> None:
    damage(folder)
    before = tree(folder)
    status, out, _ = run("repair")
    assert status == 0
    assert "99 bytes at 116 without a batch: moved to" in out
    assert out.endswith("nothing was written: repair with --execute\n")
    assert tree(folder) == before


def test_repair_with_execute_repairs(run: Run, folder: Path) -> None:
    damage(folder)
    damage(folder, "recovery-point-offset-checkpoint", 0)
    status, out, err = run("repair", execute=True)
    assert (status, err) == (0, "")
    assert "an empty batch fills offsets 21 to 22" in out
    assert run("verify")[0] == 0
    assert (folder / f"{SEGMENT}.log.116.damaged").stat().st_size == 99
    assert run("repair", execute=True) == (0, "nothing is wrong\n", "")


def test_unrepairable_file_is_left_alone_and_reported(run: Run, folder: Path) -> None:
    damage(folder, "__cluster_metadata-0/quorum-state", 2)
    for execute in (False, True):
        status, out, _ = run("repair", execute=execute)
        assert status == 1
        assert "left alone: data/__cluster_metadata-0/quorum-state" in out
    reported = json.loads(run("repair", json=True)[1])
    assert [(step["left"], step["done"]) for step in reported] == [(True, False)]


@pytest.mark.parametrize("execute", [False, True])
def test_a_directory_in_use_is_not_repaired(run: Run, folder: Path, execute: bool) -> None:
    damage(folder)
    lock = OsDisk().lock(f"{folder}/.lock")
    before = tree(folder)
    for path in ("", "t0-0"):
        status, out, err = run("repair", path, execute=execute)
        assert (status, out) == (2, "")
        assert "data is in use by a broker: stop it first, or repair a copy" in err
    lock.release()
    assert tree(folder) == before


def test_repair_of_a_single_file_is_refused(run: Run) -> None:
    status, _, err = run("repair", f"{SEGMENT}.log")
    assert status == 2
    assert "name the directory of the log" in err


def empty_log(folder: Path) -> None:
    (folder / "b-0").mkdir()


def file_for_log(folder: Path) -> None:
    (folder / "b-0").write_text("")


@pytest.mark.parametrize("harm", [empty_log, file_for_log])
def test_unrepairable_log_is_left_alone_and_repair_fails(run: Run, folder: Path, harm: Callable[[Path], None]) -> None:
    harm(folder)
    status, out, _ = run("repair")
    assert status == 1
    assert "left alone: data/b-0: base_offset: " in out
    assert "nothing is wrong" not in out
    assert "--execute" not in out
    reported = json.loads(run("repair", json=True)[1])
    assert (f"{folder}/b-0", True, False) in [(step["path"], step["left"], step["done"]) for step in reported]
    assert run("repair", execute=True)[0] == 1


def test_checkpoints_above_the_log_end_are_lowered_to_it(run: Run, folder: Path) -> None:
    log = folder / f"{SEGMENT}.log"
    log.write_bytes(log.read_bytes()[:120])
    (folder / "log-start-offset-checkpoint").write_text("0\n1\nt0 0 30\n")
    status, out, _ = run("repair")
    assert status == 0
    for name in ("replication", "log-start"):
        assert f"would be repaired: data/{name}-offset-checkpoint: sets t0-0 to 21 instead of " in out
    status, _, err = run("repair", execute=True)
    assert (status, err) == (0, "")
    assert (folder / "log-start-offset-checkpoint").read_text() == "0\n1\nt0 0 21\n"
    assert run("verify")[0] == 0


@pytest.mark.parametrize(
    "name",
    [
        f"{SEGMENT}.log",
        f"{SEGMENT}.index",
        f"{SEGMENT}.txnindex",
        f"t0-0/{35:020d}.snapshot",
        "t0-0/leader-epoch-checkpoint",
        "t0-0/partition.metadata",
        "__cluster_metadata-0/quorum-state",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
        "meta.properties",
    ],
)
def test_unreadable_file_is_a_finding_and_the_rest_is_verified(run: Run, folder: Path, name: str) -> None:
    damage(folder, "__consumer_offsets-0/partition.metadata", 0)
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    status, out, _ = run("verify")
    assert status == 1
    assert f"data/{name}: file: cannot be read: is a directory" in out
    assert "data/__consumer_offsets-0/partition.metadata at 3: version: " in out
    status, out, _ = run("repair")
    assert status == 1
    assert f"left alone: data/{name}: file: " in out
    assert "would be repaired: data/__consumer_offsets-0/partition.metadata" in out
    assert "would be repaired: data/replication" not in out


def test_index_files_without_a_segment_are_found_and_moved_aside(run: Run, folder: Path) -> None:
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        (folder / f"t0-0/{7:020d}.{suffix}").write_bytes((folder / f"{SEGMENT}.{suffix}").read_bytes())
    out = run("verify")[1]
    for suffix in ("index", "timeindex", "txnindex", "snapshot"):
        assert f"data/t0-0/{7:020d}.{suffix}: base_offset: no segment with this base offset" in out
    assert run("repair", execute=True)[0] == 0
    assert run("verify")[0] == 0


@pytest.mark.parametrize("name", ["__cluster_metadata-0", "__cluster_metadata-0/quorum-state"])
def test_missing_metadata_file_is_found_and_left_alone(run: Run, folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    assert f"data/{name}: " in run("verify")[1]
    status, out, _ = run("repair")
    assert status == 1
    assert f"left alone: data/{name}: " in out


def test_duplicate_segment_is_reported_once(run: Run, folder: Path) -> None:
    for suffix in ("log", "index", "timeindex"):
        (folder / f"t0-0/{9:020d}.{suffix}").write_bytes((folder / f"t0-0/{0:020d}.{suffix}").read_bytes())
    out = run("verify", "t0-0")[1]
    assert out.count("is not above") == 1


def test_files_moved_aside_by_repair_can_be_dumped(run: Run, folder: Path) -> None:
    damage(folder)
    damage(folder, "t0-0/leader-epoch-checkpoint", 0)
    run("repair", execute=True)
    status, out, _ = run("dump", f"{SEGMENT}.log.116.damaged")
    assert status == 1
    assert "! crc: " in out
    status, out, _ = run("dump", "t0-0/leader-epoch-checkpoint.damaged")
    assert status == 1
    assert "! " in out
    assert run("dump")[0] == 0


def test_offset_range_selects_files_with_offsets(run: Run) -> None:
    out = run("dump", offsets="20")[1]
    titles = [line.partition(": ")[2] for line in out.splitlines() if line.startswith("data/")]
    assert set(titles) == {"segment", "offset index", "time index", "transaction index"}
    assert "leader epoch checkpoint" in run("dump", "t0-0/leader-epoch-checkpoint", offsets="20")[1]


def test_invalid_topic_id_is_found_and_left_alone(run: Run, folder: Path) -> None:
    (folder / "t0-0/partition.metadata").write_text("version: 0\ntopic_id: VVVVVVVVVVVVVVVVVVVVVQ\n")
    assert "data/t0-0/partition.metadata at 2: topic_id: VVVVVVVVVVVVVVVVVVVVVQ is not a topic id" in run("verify")[1]
    status, out, _ = run("repair")
    assert status == 1
    assert "left alone: data/t0-0/partition.metadata: topic_id: " in out


def test_paths_in_messages_are_relative_to_the_working_directory(run: Run, folder: Path) -> None:
    assert run("dump", "nowhere")[2] == "barnabas log dump: data/nowhere: no such file or directory\n"
    damage(folder, "t0-0/partition.metadata", 0)
    assert str(folder) not in run("repair")[1]
