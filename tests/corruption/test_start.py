"""A broker on damaged files: it starts or logs why not, and serves no damaged batch as valid."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from broker.log_dirs.ownership import CannotStart
from protocol.errors import DecodeError, KafkaError
from protocol.record_batch import crc_matches, iter_batches
from storage.checkpoint import CheckpointError
from storage.disk import OsDisk
from storage.inspection.directory import check_log
from storage.log.corruption_checks import LogRefused
from storage.log.log import Log
from tests.all_files import opened
from tests.corruption.damages import CRC_FROM, METADATA, Damage, every_field, random_damage
from tests.examples import TIMES, examples
from tests.logs import content
from tests.unit.broker.whole_broker import WholeBroker


def batches(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the part of each batch that the CRC covers, and whether the CRC matches."""
    for at, header in iter_batches(data):
        batch = data[at : at + header.size_bytes]
        yield batch[CRC_FROM:], crc_matches(batch, header)


@pytest.fixture(scope="module")
def whole(folder: Path) -> set[bytes]:
    """Return the CRC-covered part of every valid batch."""
    return {covered for file in folder.rglob("*.log") for covered, _ in batches(file.read_bytes())}


def damages(folder: Path, step: int) -> list[Damage]:
    found = [*list(every_field(folder))[:: max(1, step // TIMES)], *random_damage(folder, Random(2), examples(20))]
    return [damage for damage in found if not damage.path.startswith((METADATA, "bootstrap"))]


def served(log: Log) -> Iterator[tuple[bytes, bool]]:
    """Read a log as consumers do, up to its end or an error."""
    with suppress(KafkaError, DecodeError):
        yield from batches(content(log))


@pytest.mark.parametrize("clean", [True, False])
def test_broker_serves_no_damaged_batch_as_valid(folder: Path, tmp_path: Path, whole: set[bytes], clean: bool) -> None:
    for number, damage in enumerate(damages(folder, 32)):
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        damage.do(place)
        if not clean:
            for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
                (place / name).unlink()
        try:
            manager = opened(place)
        except (LogRefused, CheckpointError) as error:
            refused = str(error)
        else:
            refused = ""
        if refused:
            assert damage.path.partition("/")[0] in refused, damage
            continue
        for log in manager:
            for covered, matches in served(log):
                assert covered in whole or not matches, damage
                assert matches or clean, damage
        manager.close()
        shutil.rmtree(place)


def test_verify_finds_no_problem_after_recovery_from_damage(folder: Path, tmp_path: Path) -> None:
    for number, damage in enumerate(damages(folder, 40)):
        if not damage.path.startswith("t0-0/"):
            continue
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        damage.do(place)
        for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (place / name).unlink()
        try:
            opened(place).close()
        except LogRefused:
            continue
        # An offset plausible at its place may be left by compaction; a topic id is not the log's own: the metadata
        # restores it when the topic is known.
        found = [
            one
            for one in check_log(OsDisk(), str(place / "t0-0"))
            if one.field not in ("base_offset", "topic_id", "version")
        ]
        assert found == [], damage


def start(place: Path) -> str | None:
    """Start a broker and stop it again; return why it did not start, or None."""
    one = WholeBroker(str(place), node_id="1")
    try:
        one.wait(one.start())
    except CannotStart as error:
        return str(error)
    finally:
        one.wait(one.node.shared.server.stop(0) if one.node.shared.phase == "starting" else one.stop())
        one.loop.close()
    return None


def test_broker_starts_on_damaged_metadata_or_logs_why_not(folder: Path, tmp_path: Path) -> None:
    found = [damage for damage in every_field(folder) if damage.path.startswith((METADATA, "bootstrap"))]
    started = 0
    for number, damage in enumerate(found[:: max(1, 12 // TIMES)]):
        place = tmp_path / str(number)
        shutil.copytree(folder, place)
        damage.do(place)
        refused = start(place)
        if refused is None:
            started += 1
        else:
            assert damage.path.partition("/")[0] in refused, damage
        shutil.rmtree(place)
    # Older snapshots and the bootstrap's offsets are no longer read.
    assert started < len(found) // 2
