from pathlib import Path

import pytest

from storage.disk import OsDisk
from storage.inspection import kinds
from storage.inspection.rows import DumpFilter, Row, rows
from tests.all_files import write_all_files

SEGMENT = f"t0-0/{18:020d}"
ALL = DumpFilter()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_all_files(folder)
    return folder


def rows_of(folder: Path, name: str, wanted: DumpFilter = ALL) -> list[Row]:
    return list(rows(OsDisk(), str(folder / name), wanted))


def test_every_file_has_rows_without_a_problem(folder: Path) -> None:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    assert len({kinds.kind_of(file.name) for file in files}) > 11
    for file in files:
        found = rows_of(folder, str(file.relative_to(folder)))
        assert found or file.stat().st_size in (0, 10), file
        assert not [row for row in found if "problem" in row], file


def test_a_batch_is_shown_with_its_records(folder: Path) -> None:
    first = rows_of(folder, f"{SEGMENT}.log")[0]
    assert (first["position"], first["base_offset"], first["last_offset"]) == (0, 18, 20)
    assert [record["value"] for record in first["records"]] == ["v" * 30, None, "w"]
    assert "records" not in rows_of(folder, f"{SEGMENT}.log", DumpFilter(records=False))[0]


def test_only_requested_offsets_are_shown(folder: Path) -> None:
    found = rows_of(folder, f"{SEGMENT}.log", DumpFilter(start=20, end=22))
    assert [record["offset"] for row in found for record in row["records"]] == [20, 21]
    for suffix in (".index", ".timeindex", ".txnindex"):
        some = rows_of(folder, SEGMENT + suffix, DumpFilter(start=34))
        assert len(some) < len(rows_of(folder, SEGMENT + suffix)) or suffix == ".txnindex"


def test_an_index_is_shown_with_whole_offsets(folder: Path) -> None:
    assert rows_of(folder, f"{SEGMENT}.index")[0].keys() == {"offset", "position"}
    assert all(row["offset"] >= 18 for row in rows_of(folder, f"{SEGMENT}.timeindex"))


def test_damage_is_a_row(folder: Path, tmp_path: Path) -> None:
    data = bytearray((folder / f"{SEGMENT}.log").read_bytes())
    data[30] ^= 1
    file = tmp_path / f"{0:020d}.log"
    file.write_bytes(data)
    first, second, *_ = rows(OsDisk(), str(file), DumpFilter())
    assert first["problem"].startswith("crc: ")
    assert second["base_offset"] == 21


@pytest.mark.parametrize(
    "name", ["meta.properties", "recovery-point-offset-checkpoint", "quorum-state", f"{7:020d}.snapshot"]
)
def test_a_small_file_that_cannot_be_read_is_a_row(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\\u1\n\xff\n{")
    (row,) = rows_of(tmp_path, name)
    assert row["problem"]


def test_foreign_file_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert rows_of(tmp_path, "notes.txt") == [{"problem": "not a Kafka file"}]
