"""Mutated requests from this commit's seeds: each is answered, deferred or ends its connection, within a time limit.

``BARNABAS_TEST_FRAMES`` is their number; ``make fuzz`` sends others, for a given time.
"""

import logging
import os
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import pytest

from tests import proofs
from tests.fuzz.hostile import MOST_CPU_S, HostileBroker, MisbehavedError, frame_of, good_frame
from tests.seeds import first_seed

FRAMES = int(os.environ.get("BARNABAS_TEST_FRAMES", "20000"))


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)  # the broker's warnings about malformed requests


def test_mutated_requests_of_these_seeds_have_allowed_outcomes(tmp_path: Path) -> None:
    broker = HostileBroker(str(tmp_path))
    first, outcomes = first_seed(), set()
    for seed in range(first, first + FRAMES):
        frame = frame_of(seed, broker)
        try:
            outcomes.add(broker.handle(frame))
        except MisbehavedError as failure:
            pytest.fail(f"{failure}; frame: {frame.hex()}; replay: python -m tests.fuzz --replay {seed}")
    broker.stop()
    assert {"answered", "closed", "waits"} <= outcomes
    proofs.count("damaged requests", FRAMES)


def test_handler_that_blocks_the_event_loop_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = HostileBroker(str(tmp_path))
    key, version = broker.requests()[0]
    frame = good_frame(Random(1), key, version)
    dispatch = broker._dispatch

    def slow(*arguments: Any) -> object:
        ends = thread_time() + 1.1 * MOST_CPU_S
        while thread_time() < ends:
            pass
        return dispatch(*arguments)

    monkeypatch.setattr(broker, "_dispatch", slow)
    with pytest.raises(MisbehavedError, match="the loop was held for"):
        broker.handle(frame)
    broker.stop()
