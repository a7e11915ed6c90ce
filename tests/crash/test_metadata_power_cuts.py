"""No power cut loses a synced entry of the metadata log.

Runs a tenth of the number of states of topic logs; ``make crash METADATA=1`` runs others, and replays one.
"""

from __future__ import annotations

import os
from itertools import islice

from tests import proofs
from tests.crash.metadata_states import check_states

STATES = int(os.environ.get("BARNABAS_TEST_STATES", "5000")) // 10


def test_metadata_log_recovers_from_every_power_cut_state() -> None:
    failures = [str(failure) for failure in islice(check_states(1, range(STATES)), 5)]
    assert not failures, "\n".join(failures)
    proofs.count("states of a power cut of the metadata log", STATES)
