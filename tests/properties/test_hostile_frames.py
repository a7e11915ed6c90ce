"""Damaged requests through the decoder, the dispatcher and the handlers of a whole broker."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.api import ApiKey
from tests.fuzz.hostile import HostileBroker, good_frame, mutated


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileBroker]:
    """A broker that must shut down cleanly after all requests."""
    started = HostileBroker(str(tmp_path_factory.mktemp("data")))
    yield started
    started.stop()


@given(random=st.randoms(use_true_random=False), choice=st.integers(min_value=0))
def test_damaged_requests_are_answered_or_close_the_connection(
    broker: HostileBroker, random: Random, choice: int
) -> None:
    requests = broker.requests()
    broker.handle(mutated(good_frame(random, *requests[choice % len(requests)]), random))


@given(frame=st.binary(min_size=1, max_size=200))
def test_random_bytes_are_answered_or_close_the_connection(broker: HostileBroker, frame: bytes) -> None:
    broker.handle(frame)


@pytest.mark.parametrize("key", [key for key in ApiKey if key >= 0], ids=lambda key: key.name)
def test_every_api_accepts_a_request_of_zeros(broker: HostileBroker, key: ApiKey) -> None:
    for served, version in broker.requests():
        if served is key:
            for size in (0, 1, 10, 100):
                broker.handle(key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(6 + size))
