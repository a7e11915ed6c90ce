"""Random ids of topics and access control entries."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from random import Random
from uuid import UUID

from controller.commands.random_uuid import random_uuid


def test_ids_are_random_uuids_whose_text_does_not_begin_with_a_dash() -> None:
    ids = [random_uuid(random) for random in [Random(4)] for _ in range(2000)]
    assert len(set(ids)) == 2000
    assert {UUID(bytes=each).version for each in ids} == {4}
    first = {urlsafe_b64encode(each)[:1] for each in ids}
    assert b"-" not in first
    assert len(first) == 63
