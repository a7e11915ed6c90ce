"""Legal and colliding topic names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.image import MetadataImage, TopicImage
from controller.topic_names import check_topic_name, colliding_topic
from protocol.errors import ErrorCode, KafkaError


def image_of(*topics: str) -> MetadataImage:
    return MetadataImage(cluster_id="cluster", topics={name: TopicImage(name, bytes(16), {}) for name in topics})


@pytest.mark.parametrize("name", ["a", "A-9._x", "x" * 249, "__consumer_offsets", "..."])
def test_legal_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "a:b"])
def test_illegal_names(name: str) -> None:
    with pytest.raises(KafkaError) as illegal:
        check_topic_name(name)
    assert illegal.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("others", [0, 100])
@pytest.mark.parametrize(
    ("name", "existing", "collides"),
    [
        ("a.b", "a_b", True),
        ("a_b", "a.b", True),
        ("a.b_c", "a_b.c", True),
        ("_a.", "a_.", False),
        ("__x", "..x", True),
        ("a.b", "a.b", False),
        ("a.b", "a-b", False),
        ("ab", "a_b", False),
        ("a.b.c.d.e.f.g.h.i.j.k", "a_b.c.d.e.f.g.h.i.j.k", True),
    ],
)
def test_names_that_differ_only_in_dots_and_underscores_collide(
    name: str, existing: str, collides: bool, others: int
) -> None:
    image = image_of(existing, *(f"other{number}" for number in range(others)))
    assert colliding_topic(name, image) == (existing if collides else None)


def test_topics_are_scanned_once_for_many_colliding_name_checks() -> None:
    class Topics(dict[str, TopicImage]):
        times = 0

        def __iter__(self) -> Iterator[str]:
            Topics.times += 1
            return super().__iter__()

    image = MetadataImage(cluster_id="cluster", topics=Topics(image_of("a_b.c.d.e").topics_by_name()))
    for _ in range(100):
        assert colliding_topic("a.b.c.d.e", image) == "a_b.c.d.e"
        assert colliding_topic("a.b.c.d.f", image) is None
    assert Topics.times == 1
