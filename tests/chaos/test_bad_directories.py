"""Data directories that a broker must refuse: it names the file and the remedy, and changes nothing."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from broker.metadata.metadata_log import MetadataLog
from controller.raft.log import Entry
from controller.snapshot import encode_snapshot
from protocol.record_batch import build_batch
from protocol.records.metadata import FeatureLevelRecord
from storage.disk import OsDisk
from storage.log.config import LogConfig
from storage.log_manager import LogManager
from tests.all_files import NOW_MS, VOTERS, write_log
from tests.broker_process import COMMAND
from tests.setups import require

LOG, METADATA = "letters-0", "__cluster_metadata-0"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a broker after a clean shutdown, with a log of several segments."""
    place = tmp_path_factory.mktemp("original")
    done = serve(place / "data", "--topic", "letters", stop=True)
    assert done.returncode == 0, done.stderr
    manager = LogManager(OsDisk(), [str(place / "data")], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    for log in manager.load():
        log.config = CONFIG
    written = manager.get("letters", 0)
    assert written is not None
    write_log(written)
    manager.close()
    assert len(bases(place / "data")) > 3
    return place / "data"


@pytest.fixture
def data(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "data")
    return tmp_path / "data"


def serve(
    data: Path, *options: str, within: tuple[str, ...] = (), stop: bool = False
) -> subprocess.CompletedProcess[str]:
    """Start the program; let it run to its end, or stop it when it is ready."""
    command = [*within, *COMMAND, "serve", "--listen", "127.0.0.1:0", *options]
    if "--data-dir" not in options and not any(option.startswith("-Dlog.dirs") for option in options):
        command += ["--data-dir", str(data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        shown = process.stdout.readline()
        if shown and stop:
            process.terminate()
        elif shown:
            process.kill()
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, shown + out, err)


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return every file with its content, except the lock, in which every start writes its pid."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != ".lock"
    }


def bases(data: Path) -> list[int]:
    return sorted(int(path.stem) for path in (data / LOG).glob("*.log"))


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def lose_a_segment(data: Path) -> None:
    for suffix in SUFFIXES:
        (data / LOG / f"{bases(data)[1]:020d}{suffix}").unlink(missing_ok=True)


def segment_as_directory(data: Path) -> None:
    file = data / LOG / f"{bases(data)[-1]:020d}.log"
    file.unlink()
    file.mkdir()


def overlap(data: Path) -> None:
    base = bases(data)[1]
    for suffix in (".log", ".index", ".timeindex"):
        shutil.copy(data / LOG / f"{base:020d}{suffix}", data / LOG / f"{base + 1:020d}{suffix}")


def other_magic(data: Path) -> None:
    file = data / LOG / f"{bases(data)[-1]:020d}.log"
    content = bytearray(file.read_bytes())
    content[16] = 3
    file.write_bytes(content)


def later_metadata_version(data: Path) -> None:
    add_metadata(data, FeatureLevelRecord(name="metadata.version", feature_level=99))


def unknown_feature(data: Path) -> None:
    add_metadata(data, FeatureLevelRecord(name="teleportation.version", feature_level=1))


def add_metadata(data: Path, record: FeatureLevelRecord) -> None:
    manager = LogManager(OsDisk(), [str(data)], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    config = LogConfig(cleanup_policy=frozenset(), file_delete_delay_ms=0)
    log = MetadataLog.open(OsDisk(), manager.directories[0], VOTERS, config=config, now_ms=NOW_MS)
    log.append([Entry(log.end_offset, log.end_epoch, (record,))], NOW_MS)
    log.close(NOW_MS)
    for _ in manager.load():
        pass
    manager.close()


def unknown_metadata_record(data: Path) -> None:
    file = max((data / METADATA).glob("*.checkpoint"))
    head, *rest = encode_snapshot([], epoch=0, now_ms=0, last_timestamp_ms=0, voters=VOTERS)
    strange = build_batch([(None, bytes([1, 99, 0, 1, 2]))], base_offset=3)
    footer = next(iter(reversed(rest)))
    footer[:8] = (4).to_bytes(8, "big")
    file.write_bytes(bytes(head) + bytes(strange) + bytes(footer))


def no_footer(data: Path) -> None:
    file = max((data / METADATA).glob("*.checkpoint"))
    file.write_bytes(file.read_bytes()[:-10])


def damaged_metadata(data: Path) -> None:
    file = data / METADATA / f"{0:020d}.log"
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)


Break = Callable[[Path], object]
REFUSED: dict[str, tuple[Break, str, str]] = {
    "another node": (
        lambda data: replace(data / "meta.properties", "node.id=1", "node.id=7"),
        "meta.properties has node.id=7, but the configuration has node.id=1", "choose another directory",
    ),
    "a later meta.properties": (
        lambda data: replace(data / "meta.properties", "version=1", "version=2"),
        "meta.properties, line 1: version 2 is unknown", "choose another directory",
    ),
    "no cluster id": (
        lambda data: replace(data / "meta.properties", "cluster.id=", "cluster="),
        "meta.properties, line 1: cluster.id is missing", "restore that file",
    ),
    "no meta.properties": (
        lambda data: (data / "meta.properties").unlink(),
        "data holds logs, such as __cluster_metadata-0, but no meta.properties", "restore that file",
    ),
    "a later recovery checkpoint": (
        lambda data: (data / "recovery-point-offset-checkpoint").write_text("1\n0\n"),
        "recovery-point-offset-checkpoint, line 1: version 1 is unknown", "start the broker that wrote it",
    ),
    "a later epoch checkpoint": (
        lambda data: (data / LOG / "leader-epoch-checkpoint").write_text("1\n0\n"),
        f"{LOG}/leader-epoch-checkpoint, line 1: version 1 is unknown", "start the broker that wrote it",
    ),
    "a later partition.metadata": (
        lambda data: replace(data / LOG / "partition.metadata", "version: 0", "version: 1"),
        f"{LOG}/partition.metadata, line 1: version 1 is unknown", "start the broker that wrote it",
    ),
    "a later quorum-state": (
        lambda data: replace(data / METADATA / "quorum-state", '"data_version":1', '"data_version":2'),
        f"{METADATA}/quorum-state", "unknown version 2",
    ),
    "a later metadata.version": (later_metadata_version, METADATA, "metadata.version=99, which is above 30, the"),
    "an unknown feature": (unknown_feature, METADATA, "teleportation.version=1, which is unknown to this version"),
    "an unknown metadata record": (unknown_metadata_record, ".checkpoint", "unknown metadata record 99"),
    "a snapshot that is not whole": (no_footer, ".checkpoint", "the snapshot has no footer"),
    "a damaged metadata log": (damaged_metadata, METADATA, "does not match its CRC-32C"),
    "batches of another format": (other_magic, f"{LOG}/", "begins with a batch of format version 3"),
    "a segment that is missing": (lose_a_segment, f"{LOG}/", "a segment is missing; restore its files"),
    "two segments that overlap": (overlap, f"{LOG}/", "two segments have the same offsets; move away the one"),
    "a file in the place of a log": (
        lambda data: (shutil.rmtree(data / LOG), (data / LOG).write_text("")),  # type: ignore[func-returns-value]  # called for its effect
        f"{LOG} is a file", "restore the directory, or move the file away",
    ),
    "a directory in the place of a segment": (
        segment_as_directory, f"{LOG}/", ".log is a directory, not a log file: restore the file",
    ),
    "a directory in the place of an index": (
        lambda data: ((data / LOG / f"{0:020d}.index").unlink(), (data / LOG / f"{0:020d}.index").mkdir()),  # type: ignore[func-returns-value]  # called for its effect
        f"{LOG}/{0:020d}.index is a directory", "restore the file, or move the directory away",
    ),
    "a log start behind the end": (
        lambda data: (data / "log-start-offset-checkpoint").write_text("0\n1\nletters 0 1000\n"),
        "log-start-offset-checkpoint", "correct that line",
    ),
    "a file in its place": (
        lambda data: (shutil.rmtree(data), data.write_text("")),  # type: ignore[func-returns-value]  # called for its effect
        "data is a file", "not a directory",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refused_start_names_file_and_remedy_and_changes_nothing(what: str, data: Path) -> None:
    breaks, file, advice = REFUSED[what]
    breaks(data)
    before = tree(data.parent)
    done = serve(data)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("barnabas: ")
    assert file in last
    assert advice in last
    assert "Traceback" not in done.stderr
    assert tree(data.parent) == before


def test_directories_with_two_cluster_ids_are_refused(data: Path, original: Path) -> None:
    other = data.parent / "other"
    shutil.copytree(original, other)
    replace(other / "meta.properties", "cluster.id=", "cluster.id=x")
    before = tree(data.parent)
    done = serve(data, f"-Dlog.dirs={data},{other}")
    assert done.returncode == 2
    assert f"{other}/meta.properties has cluster.id=x" in done.stderr
    assert tree(data.parent) == before


def test_refused_directory_starts_once_it_is_repaired(data: Path, original: Path) -> None:
    lose_a_segment(data)
    assert serve(data).returncode == 2
    shutil.rmtree(data)
    shutil.copytree(original, data)
    done = serve(data, stop=True)
    assert done.returncode == 0
    assert "unclean" not in done.stderr


def test_repair_lets_broker_start_without_missing_segment(data: Path) -> None:
    lose_a_segment(data)
    repair = subprocess.run(
        [*COMMAND, "log", "repair", str(data), "--execute"], capture_output=True, text=True, check=False
    )
    assert repair.returncode == 0, repair.stderr
    assert serve(data, stop=True).returncode == 0


def test_foreign_files_are_ignored_and_logged_once(data: Path) -> None:
    (data / "notes.txt").write_text("mine")
    (data / "lost+found").mkdir()
    done = serve(data, stop=True)
    assert done.returncode == 0
    (line,) = (line for line in done.stderr.splitlines() if "notes.txt" in line)
    assert line.endswith(f"Ignoring unknown files: {data}/lost+found, {data}/notes.txt")
    assert (data / "notes.txt").read_text() == "mine"


@pytest.fixture
def without_rights() -> tuple[str, ...]:
    """A command prefix under which file permissions apply, also for root."""
    if os.geteuid():
        return ()
    require("unshare")
    within = ("unshare", "--user")
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode:
        pytest.skip("rights cannot be given up here")
    return within


@pytest.fixture
def forbidden(data: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    path = data / request.param
    mode = path.stat().st_mode
    path.chmod(0)
    yield path
    path.chmod(mode)


@pytest.mark.parametrize("forbidden", ["", "meta.properties", METADATA], indirect=True)
def test_unreadable_file_is_named(forbidden: Path, data: Path, without_rights: tuple[str, ...]) -> None:
    done = serve(data, within=without_rights)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Permission denied" in done.stderr
    assert str(forbidden) in done.stderr
    assert "Traceback" not in done.stderr
