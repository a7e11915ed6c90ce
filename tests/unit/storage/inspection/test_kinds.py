import pytest

from storage.inspection import kinds
from storage.inspection.kinds import Kind

BASE = f"{7:020d}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{BASE}.log", Kind.LOG),
        (f"{BASE}.index", Kind.OFFSET_INDEX),
        (f"{BASE}.timeindex", Kind.TIME_INDEX),
        (f"{BASE}.txnindex", Kind.TXN_INDEX),
        (f"{BASE}.snapshot", Kind.PRODUCERS),
        (f"{BASE}.log.deleted", Kind.LOG),
        (f"{BASE}.index.swap", Kind.OFFSET_INDEX),
        (f"{BASE}-0000000001.checkpoint", Kind.SNAPSHOT),
        ("bootstrap.checkpoint", Kind.SNAPSHOT),
        ("cleaner-offset-checkpoint", Kind.OFFSETS),
        ("quorum-state", Kind.QUORUM),
        (f"{BASE}.txt", None),
        ("7.log", None),
    ],
)
def test_file_name_gives_the_kind(name: str, kind: Kind | None) -> None:
    assert kinds.kind_of(name) is kind


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("notes.txt", True),
        ("lost+found", True),
        ("notes.part", True),
        (".lock", False),
        ("x.tmp", False),
        (f"{BASE}-0000000001.checkpoint.part", False),
        (f"{BASE}.log.4.damaged", False),
    ],
)
def test_other_file_names_are_foreign(name: str, foreign: bool) -> None:
    assert kinds.is_foreign(name) is foreign


@pytest.mark.parametrize(
    ("name", "topic"), [("a-b-0", "a-b"), (f"t-1.{'0f' * 16}-delete", "t"), (f"t-1.{'0f' * 16}-stray", "t"), ("t", "")]
)
def test_directory_name_gives_the_topic(name: str, topic: str) -> None:
    assert kinds.topic_of(f"/data/{name}") == topic
    assert kinds.is_log_directory(name) is bool(topic)
