"""After any power cut all synced records are there, and no record that was never written.

``BARNABAS_TEST_STATES`` sets the number of states; ``make crash`` runs others, and replays one.
"""

import os
from functools import partial
from itertools import islice

from tests import proofs
from tests.crash import pairs
from tests.crash.states import check_states

STATES = int(os.environ.get("BARNABAS_TEST_STATES", "5000"))
PAIRED_WORKLOADS = STATES // 2500


def test_logs_recover_from_every_power_cut_state() -> None:
    failures = [str(failure) for failure in islice(check_states(1, range(STATES)), 5)]
    assert not failures, "\n".join(failures)
    proofs.count("states of a power cut", STATES)


def test_changes_around_a_rename_or_sync_may_be_reordered() -> None:
    tried = partial(proofs.count, "states with two changes in the other order beside a rename or sync")
    numbers = range(PAIRED_WORKLOADS * pairs.MOST_STATES)
    failures = [str(failure) for failure in islice(pairs.check_states(1, numbers, tried), 5)]
    assert not failures, "\n".join(failures)
