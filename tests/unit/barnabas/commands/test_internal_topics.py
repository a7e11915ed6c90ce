from __future__ import annotations

from barnabas.commands._internal_topics import HELD, held_by, is_internal
from controller.topic_names import INTERNAL_TOPICS


def test_internal_topics_are_those_of_the_brokers() -> None:
    assert set(HELD) == set(INTERNAL_TOPICS)
    assert all(is_internal(name) for name in INTERNAL_TOPICS)
    assert not is_internal("letters")
    assert not is_internal(None)


def test_internal_topic_of_a_later_version_holds_state() -> None:
    assert held_by("__later") == "state of the brokers"
