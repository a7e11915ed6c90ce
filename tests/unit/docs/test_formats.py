import re

import pytest

import protocol.records.metadata as metadata_records
from protocol.fields import fields_of
from protocol.records.quorum_state import QuorumStateData
from protocol.schema import Message
from storage.checkpoint import MetaProperties, format_meta_properties
from storage.inspection import kinds, layouts
from storage.inspection.layouts import Layout
from storage.log.leader_epochs import EpochEntry
from tests import formats
from tests.all_files import CONFIG, NOW_MS, opened, write_all_files
from tests.formats import PAGE, ByteField
from tests.typed import present

BINARY = {
    "a batch": (formats.BATCH, layouts.BATCH),
    ".index": (formats.OFFSET_ENTRY, layouts.OFFSET_ENTRY),
    ".timeindex": (formats.TIME_ENTRY, layouts.TIME_ENTRY),
    ".txnindex": (formats.TXN_ENTRY, layouts.TXN_ENTRY),
    ".snapshot": (formats.SNAPSHOT, layouts.SNAPSHOT),
    "a producer": (formats.PRODUCER, layouts.PRODUCER),
}


@pytest.mark.parametrize("what", BINARY)
def test_the_fields_are_those_of_the_code(what: str) -> None:
    described, declared = BINARY[what]
    assert [field for field in described if field.size is not None] == [ByteField(*field) for field in declared.fields]


@pytest.mark.parametrize("what", BINARY)
def test_fields_follow_each_other_without_a_gap(what: str) -> None:
    described, declared = BINARY[what]
    ends = [field.offset + (field.size or 0) for field in described]
    assert [field.offset for field in described] == [0, *ends][: len(described)]
    assert described[-1].size is not None or described[-1].offset == declared.size


def test_struct_layouts_have_the_size_of_their_fields() -> None:
    named = [value for value in vars(layouts).values() if isinstance(value, Layout)]
    assert len(named) == len(BINARY)
    assert all(sum(field.size for field in each.fields) == each.size for each in named)


def test_the_fields_of_texts_are_those_of_the_code() -> None:
    assert [field.name for field in formats.EPOCHS[2:]] == list(EpochEntry._fields)
    written = format_meta_properties(MetaProperties("c", 1, bytes(16))).splitlines()
    assert [field.name for field in formats.META] == [line.partition("=")[0] for line in written]
    first, *rest = (field.name for field in fields_of(QuorumStateData) if 1 in field.versions)
    described = [re.sub("[A-Z]", lambda found: "_" + found[0].lower(), field.name) for field in formats.QUORUM]
    assert described == ["data_version", first, *rest]


def test_every_metadata_record_is_listed_with_its_number() -> None:
    declared = {
        (each.API_KEY, name)
        for name, each in vars(metadata_records).items()
        if isinstance(each, type) and issubclass(each, Message) and each is not Message
    }
    listed = {(int(number), name) for number, name in re.findall(r"\| (\d+) \| (\w+Record) ", PAGE)}
    assert listed == declared


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all files and directories that can be in a data directory."""
    folder = tmp_path_factory.mktemp("data")
    write_all_files(folder, topics=4)
    names = {path.name for path in folder.rglob("*")}
    manager = opened(folder)
    log = manager.get("t0", 0)
    present(log).config = CONFIG._replace(retention_bytes=0)
    present(log).delete_old_segments(NOW_MS)
    manager.delete("t1", 0)
    manager.mark_stray("t2", 0)
    manager.checkpoint()
    names |= {path.name for path in folder.rglob("*")}
    manager.close()
    return names | {path.name for path in folder.rglob("*")}


def described_names() -> list[str]:
    """Return the names in the page's drawing of a data directory, as patterns."""
    drawn = PAGE.partition("```\n")[2].partition("```")[0].splitlines()[1:]
    names = [line.strip().partition("  ")[0].rstrip("/") for line in drawn]
    return [
        re.escape(name)
        .replace(re.escape("<end offset>-<epoch>"), "[0-9]{20}-[0-9]{10}")
        .replace(re.escape("<32 hex digits>"), "[0-9a-f]{32}")
        .replace(re.escape("<topic>-<partition>"), ".+-[0-9]+")
        .replace(r"\*", ".*")
        .replace(re.escape("<base offset>"), "[0-9]{20}")
        .replace(re.escape("<offset>"), "[0-9]{20}")
        for name in names
    ]


def test_every_kind_of_file_in_a_data_directory_is_described(found: set[str]) -> None:
    patterns = described_names()
    assert {name for name in found if not any(re.fullmatch(pattern, name) for pattern in patterns)} == set()


def test_log_tool_recognizes_every_kind_of_file(found: set[str]) -> None:
    directories = {name for name in found if kinds.is_log_directory(name)}
    assert {kinds.kind_of(name) for name in found - directories} >= set(kinds.Kind) - {kinds.Kind.MOVES}
    assert {name for name in found - directories if kinds.is_foreign(name)} == set()
