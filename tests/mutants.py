"""Mutants of the product: one subtle change each, and the test that finds it.

`python -m tests.mutants [NAME ...]` runs the mutants' tests on an unchanged copy of the tree, where they must pass. It
then applies each mutant to the copy and prints the first test that fails and the time that took. A mutant is found if
that test is its `found_by`; an error in a test or module does not count. The status is 1 if a mutant was not found.
`docs/SIMULATION.md` has the table.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
_ERROR = re.compile(r"^ERROR (.+)", re.MULTILINE)


class Mutant(NamedTuple):
    """A change of one file, and the tests that find it."""

    name: str
    path: str
    old: str
    new: str
    tests: str
    """Test files or folders to run."""
    found_by: str
    """The first test that failed in the last run."""
    seconds: int
    """Seconds until it failed."""

    def apply(self, root: Path) -> None:
        """Change the file below `root`; raise ValueError unless the text to replace occurs exactly once."""
        file = root / self.path
        text = file.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {text.count(self.old)} places in {self.path}")
        file.write_text(text.replace(self.old, self.new), encoding="utf-8")


_STORAGE, _REPLICATION, _HANDLERS = "tests/unit/storage", "tests/unit/broker/replication", "tests/unit/broker/handlers"
_CONTROLLER, _GROUPS = "tests/unit/controller", "tests/unit/broker/coordinator/group"

MUTANTS = (
    Mutant(
        "ListOffsets returns the log end for latest",
        "broker/replication/partition.py",
        "else log.high_watermark\n        if timestamp == LATEST:",
        "else log.log_end_offset\n        if timestamp == LATEST:",
        f"{_HANDLERS}/test_list_offsets.py",
        "test_consumers_see_what_is_committed",
        200,
    ),
    Mutant(
        "a follower that lags stays in the ISR",
        "broker/replication/isr.py",
        "one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms)}",
        "one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms) and False}",
        _REPLICATION,
        "test_who_has_been_behind_for_too_long_leaves",
        46,
    ),
    Mutant(
        "a truncation keeps the producer state",
        "storage/log/log.py",
        "            self.producers = recover_producers(\n"
        "                self._files, segments.all, end_offset, high_watermark=self.high_watermark\n"
        "            )\n",
        "",
        _STORAGE,
        "test_truncation_forgets_epochs_producers_and_the_recovery_point_behind_it",
        84,
    ),
    Mutant(
        "a leader epoch that begins where a log is truncated stays",
        "storage/log/leader_epochs.py",
        "del self._entries[bisect_left(self._entries, end_offset, key=_start_offset) :]",
        "del self._entries[bisect_right(self._entries, end_offset, key=_start_offset) :]",
        _STORAGE,
        "test_truncation_drops_what_begins_at_the_new_end",
        55,
    ),
    Mutant(
        "the time index keeps entries past a truncation",
        "storage/log/segment.py",
        "        self.time_index.truncate_to(offset)\n        self.transaction_index.truncate_to(offset)",
        "        self.transaction_index.truncate_to(offset)",
        _STORAGE,
        "test_indexes_that_a_truncation_has_emptied_are_synced_by_a_clean_stop",
        106,
    ),
    Mutant(
        "the recovery point stays past a truncation",
        "storage/log/log.py",
        "            self.recovery_point = min(self.recovery_point, end_offset)\n            self.log_start_offset",
        "            self.log_start_offset",
        _STORAGE,
        "test_truncation_forgets_epochs_producers_and_the_recovery_point_behind_it",
        159,
    ),
    Mutant(
        "a leader takes any incarnation of a broker into the ISR",
        "broker/replication/isr.py",
        "    return follower.broker_epoch in (NO_EPOCH, known.epoch)",
        "    return True",
        _REPLICATION,
        "test_who_is_not_alive_in_the_incarnation_that_fetches_does_not",
        235,
    ),
    Mutant(
        "a leader's epoch begins at its high watermark",
        "broker/replication/partition.py",
        "self.epoch_start_offset = self.log.log_end_offset",
        "self.epoch_start_offset = self.log.high_watermark",
        f"{_REPLICATION} {_HANDLERS}/test_list_offsets.py",
        "test_rule_4_a_new_leader_serves_only_what_it_can_prove_committed",
        92,
    ),
    Mutant(
        "a follower truncates to its own end of the leader's epoch",
        "broker/replication/follower_replica.py",
        "            end = min(end, end_offset)\n",
        "            pass\n",
        _REPLICATION,
        "test_what_the_leader_does_not_have_goes",
        70,
    ),
    Mutant(
        "AlterPartition takes a former partition epoch",
        "controller/commands/alter_partition.py",
        "    if wanted.partition_epoch < partition.partition_epoch:\n        return ErrorCode.INVALID_UPDATE_VERSION\n",
        "",
        _CONTROLLER,
        "test_rule_7_a_wish_that_does_not_know_the_last_isr_is_refused",
        19,
    ),
    Mutant(
        "the removal of a replica keeps the leader epoch",
        "controller/partition_change.py",
        "        elif not set(old.replicas) <= set(self.replicas):\n            change.leader = leader\n",
        "",
        _CONTROLLER,
        "test_an_isr_with_all_new_replicas_completes_a_reassignment",
        30,
    ),
    Mutant(
        "a commit of a removed member is taken",
        "broker/coordinator/group/shard.py",
        "        error = group.check_member(who.member_id, who.instance_id)\n        if error ==",
        "        error = ErrorCode.NONE\n        if error ==",
        _GROUPS,
        "test_nobody_else",
        47,
    ),
    Mutant(
        "the retention of offsets counts from the commit, not from when the group empties",
        "broker/coordinator/group/offsets.py",
        "now_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms",
        "now_ms - committed.commit_timestamp_ms >= retention_ms",
        _GROUPS,
        "test_offsets_and_groups_go_a_week_after_the_last_member",
        42,
    ),
    Mutant(
        "a follower's fetch session evicts that of another follower",
        "broker/replication/fetch_sessions.py",
        "if grown_old or (newcomer.privileged and not session.privileged):",
        "if grown_old or newcomer.privileged:",
        "tests/unit/broker/replication/test_fetch_sessions.py",
        "test_a_replicas_session_leaves_a_young_one_of_another_replica_its_place",
        31,
    ),
    Mutant(
        "a proposed ISR counts for min.insync.replicas",
        "broker/replication/partition.py",
        "log, in_sync = self.log, len(self.isr)",
        "log, in_sync = self.log, len(self.maximal_isr)",
        f"{_REPLICATION}/test_partition.py",
        "test_rule_3_a_proposed_isr_does_not_count_for_min_insync_replicas",
        6,
    ),
    Mutant(
        "a write is acknowledged whatever the size of the ISR when it is committed",
        "broker/replication/partition.py",
        "enough = len(self.isr) >= self.min_isr",
        "enough = True",
        f"{_REPLICATION}/test_partition.py",
        "test_a_committed_write_is_reported_where_too_few_replicas_remain_in_sync",
        11,
    ),
    Mutant(
        "recovery does not sync what it truncates",
        "storage/log/recovery.py",
        "                segment.file.sync()\n",
        "",
        f"{_STORAGE}/log/test_recovery.py",
        "test_what_is_cut_off_is_synced_before_recovery_ends",
        4,
    ),
    Mutant(
        "min.compaction.lag.ms counts from a segment's first record",
        "storage/cleaner/log_to_clean.py",
        "segment.max_timestamp[0] > now_ms - lag_ms",
        "segment.first_timestamp > now_ms - lag_ms",
        f"{_STORAGE}/cleaner/test_log_to_clean.py",
        "test_rule_19_one_young_record_keeps_a_segment_that_begins_with_an_old_one",
        5,
    ),
    Mutant(
        "a voter with a new directory keeps the log end of the old one",
        "controller/raft/leader.py",
        "if progress is None or progress.directory_id != directory_id:",
        "if progress is None:",
        f"{_CONTROLLER}/raft/test_leader.py",
        "test_a_voter_with_another_directory_does_not_count_for_what_the_old_one_stored",
        5,
    ),
    Mutant(
        "one voter that fetches keeps the leader of any quorum",
        "controller/raft/leader.py",
        "heard[needed - 1]",
        "heard[0]",
        f"{_CONTROLLER}/raft/test_leader.py",
        "test_a_leader_needs_the_fetches_of_a_majority_to_remain_one",
        5,
    ),
    Mutant(
        "a closed group host reports commits",
        "broker/coordinator/runtime/shard_host.py",
        "if not self.open or outcomes.cancelled():",
        "if outcomes.cancelled():",
        "tests/unit/broker/coordinator/runtime/test_shard_host.py",
        "test_a_closed_host_does_not_vouch_for_what_is_committed_afterwards",
        10,
    ),
    Mutant(
        "a damaged batch length hides the whole batches before it",
        "storage/log/segment.py",
        "            if end == start:\n                raise  # else",
        "            if True:\n                raise  # else",
        f"{_STORAGE}/log/test_segment.py",
        "test_whole_batches_before_a_damaged_length_are_read",
        6,
    ),
)


def main(names: list[str]) -> int:
    """Run the mutants whose names contain one of `names`, or all; return 1 if one was not found."""
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        _copy_tree(copy)
        tests = sorted({path for mutant in chosen for path in mutant.tests.split()})
        status, output = _run(copy, tests)
        if status:
            print(f"the tests do not pass without a mutant:\n{output}", flush=True)
            return 1
        for mutant in chosen:
            started = time.monotonic()
            original = (copy / mutant.path).read_bytes()
            mutant.apply(copy)
            _, output = _run(copy, mutant.tests.split())
            (copy / mutant.path).write_bytes(original)
            problem = why_not_found(mutant, output)
            missed += problem is not None
            seconds = time.monotonic() - started
            print(f"{mutant.name}: {problem or f'found by {mutant.found_by}'} ({seconds:.0f} s)", flush=True)
    return 1 if missed else 0


def why_not_found(mutant: Mutant, output: str) -> str | None:
    """Return why the tests with this `output` did not find a mutant; None if the expected test did."""
    errors = _ERROR.findall(output)
    if errors:
        return f"ERROR, not a failure: {', '.join(errors)}"
    failed = _FAILED.findall(output)
    if not failed:
        return "SURVIVES"
    if mutant.found_by in {name.partition("[")[0].rpartition("::")[2] for name in failed}:
        return None
    return f"NOT FOUND by {mutant.found_by}, but by {', '.join(failed)}"


def _copy_tree(copy: Path) -> None:
    listed = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    for name in filter(None, files):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)


def _run(copy: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests in the copy up to the first failure; return pytest's status and output."""
    # No bytecode: a mutant's could match the size and mtime (in seconds) of the next mutant's source.
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
