"""`barnabas log verify` detects and names every damaged field, and any damaged byte of a binary file."""

from pathlib import Path
from random import Random

from storage.disk import OsDisk
from storage.inspection.directory import check_directory, check_log
from storage.inspection.findings import Finding
from tests import proofs
from tests.corruption.conftest import Damaged
from tests.corruption.damages import BINARY_SUFFIXES, Damage, every_byte, every_field, random_damage
from tests.examples import TIMES, examples


def findings(folder: Path, damage: Damage | None = None) -> list[Finding]:
    """Check the data directory, or if a log is damaged, only that log."""
    log, is_in_log, _ = (damage.path if damage else "").partition("/")
    return list(check_log(OsDisk(), str(folder / log)) if is_in_log else check_directory(OsDisk(), str(folder)))


def test_verify_finds_nothing_in_an_intact_directory(folder: Path) -> None:
    assert findings(folder) == []


def test_verify_finds_nothing_in_a_log_of_apache_kafka() -> None:
    """The log has committed and aborted transactions, and an open one."""
    log = Path(__file__).parents[1] / "golden" / "kafka_directory" / "txn-0"
    assert list(check_log(OsDisk(), str(log))) == []


def test_verify_names_every_damaged_field(folder: Path, damaged: Damaged) -> None:
    count, missed = 0, []
    for damage in every_field(folder):
        if TIMES == 1 and damage.what.endswith(("zeros", "ones")):
            continue
        count += 1
        with damaged(damage) as place:
            found = findings(place, damage)
        if not any(
            finding.path == f"{place}/{damage.path}"
            and finding.field in damage.fields
            and (finding.position is None or finding.position in damage.positions)
            for finding in found
        ):
            missed.append((str(damage), found))
    proofs.count("damaged fields that were found and named", count)
    assert missed == []
    assert count > 400


def test_verify_detects_damage_to_any_byte_of_a_binary_file(folder: Path, damaged: Damaged) -> None:
    missed = []
    for damage in every_byte(folder, max(1, 20 // TIMES)):
        with damaged(damage) as place:
            # In a compacted log only the index reveals a changed offset.
            if not any(
                finding.path.rpartition(".")[0] in f"{place}/{damage.path}" for finding in findings(place, damage)
            ):
                missed.append(str(damage))
    assert missed == []


def test_verify_detects_random_damage_and_no_tool_fails(folder: Path, damaged: Damaged) -> None:
    for damage in random_damage(folder, Random(1), examples(100)):
        with damaged(damage) as place:
            found = findings(place, damage)
        # Zeros at the end of an index are Apache Kafka's preallocation; an empty file is an empty index.
        if damage.path.endswith(BINARY_SUFFIXES) and not damage.path.endswith("index"):
            assert any(finding.path == f"{place}/{damage.path}" for finding in found), damage
