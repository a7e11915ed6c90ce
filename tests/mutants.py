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
_SECURITY = "tests/unit/broker/security"

MUTANTS = (
    Mutant(
        "ListOffsets returns the log end for latest",
        "broker/replication/partition.py",
        "else log.high_watermark\n        if timestamp == LATEST:",
        "else log.log_end_offset\n        if timestamp == LATEST:",
        f"{_HANDLERS}/test_list_offsets.py",
        "test_consumers_get_committed_offsets_only",
        200,
    ),
    Mutant(
        "a follower that lags stays in the ISR",
        "broker/replication/isr.py",
        "one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms)}",
        "one.broker in partition.isr and one.lags(end, now_ms, lag_max_ms) and False}",
        _REPLICATION,
        "test_follower_beyond_max_lag_leaves_isr",
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
        "test_truncation_removes_epochs_producers_and_the_recovery_point_behind_it",
        84,
    ),
    Mutant(
        "a leader epoch that begins where a log is truncated stays",
        "storage/log/leader_epochs.py",
        "del self._entries[bisect_left(self._entries, end_offset, key=_start_offset) :]",
        "del self._entries[bisect_right(self._entries, end_offset, key=_start_offset) :]",
        _STORAGE,
        "test_truncation_removes_epochs_that_begin_at_the_new_end",
        55,
    ),
    Mutant(
        "the time index keeps entries past a truncation",
        "storage/log/segment.py",
        "        self.time_index.truncate_to(offset)\n        self.transaction_index.truncate_to(offset)",
        "        self.transaction_index.truncate_to(offset)",
        _STORAGE,
        "test_clean_shutdown_syncs_indexes_emptied_by_truncation",
        106,
    ),
    Mutant(
        "the recovery point stays past a truncation",
        "storage/log/log.py",
        "            self.recovery_point = min(self.recovery_point, end_offset)\n            self.log_start_offset",
        "            self.log_start_offset",
        _STORAGE,
        "test_truncation_removes_epochs_producers_and_the_recovery_point_behind_it",
        159,
    ),
    Mutant(
        "a leader takes any incarnation of a broker into the ISR",
        "broker/replication/isr.py",
        "    return follower.broker_epoch in (NO_EPOCH, known.epoch)",
        "    return True",
        _REPLICATION,
        "test_fenced_or_stopping_or_reregistered_broker_does_not_join_isr",
        235,
    ),
    Mutant(
        "a leader's epoch begins at its high watermark",
        "broker/replication/partition.py",
        "self.epoch_start_offset = self.log.log_end_offset",
        "self.epoch_start_offset = self.log.high_watermark",
        f"{_REPLICATION} {_HANDLERS}/test_list_offsets.py",
        "test_rule_4_new_leader_serves_only_provably_committed_records",
        92,
    ),
    Mutant(
        "a follower truncates to its own end of the leader's epoch",
        "broker/replication/follower_replica.py",
        "            end = min(end, end_offset)\n",
        "            pass\n",
        _REPLICATION,
        "test_records_missing_at_leader_are_truncated",
        70,
    ),
    Mutant(
        "AlterPartition takes a former partition epoch",
        "controller/commands/alter_partition.py",
        "    if wanted.partition_epoch < partition.partition_epoch:\n        return ErrorCode.INVALID_UPDATE_VERSION\n",
        "",
        _CONTROLLER,
        "test_rule_7_isr_change_with_a_stale_partition_epoch_is_rejected",
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
        "        error = group.check_member(committer.member_id, committer.instance_id)\n        if error ==",
        "        error = ErrorCode.NONE\n        if error ==",
        _GROUPS,
        "test_other_clients_cannot_commit",
        47,
    ),
    Mutant(
        "the retention of offsets counts from the commit, not from when the group empties",
        "broker/coordinator/group/offsets.py",
        "now_ms - (committed.commit_timestamp_ms if since_ms is None else since_ms) >= retention_ms",
        "now_ms - committed.commit_timestamp_ms >= retention_ms",
        _GROUPS,
        "test_offsets_and_groups_expire_a_retention_after_the_last_member_left",
        42,
    ),
    Mutant(
        "a follower's fetch session evicts that of another follower",
        "broker/replication/fetch_sessions.py",
        "if is_old or (newcomer.privileged and not session.privileged):",
        "if is_old or newcomer.privileged:",
        "tests/unit/broker/replication/test_fetch_sessions.py",
        "test_follower_session_does_not_evict_young_follower_session",
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
        "test_committed_append_returns_not_enough_replicas_after_append",
        11,
    ),
    Mutant(
        "recovery does not sync what it truncates",
        "storage/log/recovery.py",
        "                segment.file.sync()\n",
        "",
        f"{_STORAGE}/log/test_recovery.py",
        "test_recovery_syncs_its_truncation",
        4,
    ),
    Mutant(
        "min.compaction.lag.ms counts from a segment's first record",
        "storage/cleaner/cleanable_range.py",
        "segment.max_timestamp[0] > now_ms - lag_ms",
        "segment.first_timestamp > now_ms - lag_ms",
        f"{_STORAGE}/cleaner/test_cleanable_range.py",
        "test_rule_19_young_record_makes_its_whole_segment_uncleanable",
        5,
    ),
    Mutant(
        "a voter with a new directory keeps the log end of the old one",
        "controller/raft/leader.py",
        "if progress is None or progress.directory_id != directory_id:",
        "if progress is None:",
        f"{_CONTROLLER}/raft/test_leader.py",
        "test_voter_with_a_new_directory_id_does_not_inherit_its_old_log_end",
        5,
    ),
    Mutant(
        "one voter that fetches keeps the leader of any quorum",
        "controller/raft/leader.py",
        "fetched_ms[needed - 1]",
        "fetched_ms[0]",
        f"{_CONTROLLER}/raft/test_leader.py",
        "test_leader_of_five_resigns_without_fetches_of_a_majority",
        5,
    ),
    Mutant(
        "a closed group host reports commits",
        "broker/coordinator/runtime/shard_host.py",
        "if not self.is_open or outcomes.cancelled():",
        "if outcomes.cancelled():",
        "tests/unit/broker/coordinator/runtime/test_shard_host.py",
        "test_pending_commit_gets_not_coordinator_if_the_host_closes_before_replication",
        10,
    ),
    Mutant(
        "a damaged batch length hides the whole batches before it",
        "storage/log/segment.py",
        "            if end == start:\n                raise  # otherwise",
        "            if True:\n                raise  # otherwise",
        f"{_STORAGE}/log/test_segment.py",
        "test_whole_batches_before_a_damaged_length_are_read",
        6,
    ),
    Mutant(
        "leader commits entries of an earlier epoch before one of its own",
        "controller/raft/leader.py",
        "return committed > self.epoch_start and",
        "return committed >= self.epoch_start and",
        "tests/unit/controller/raft/test_leader.py",
        "test_entries_of_earlier_epochs_are_committed_only_with_one_of_the_current_epoch",
        1,
    ),
    Mutant(
        "an image without a newer epoch drops the proposed ISR",
        "broker/replication/partition.py",
        "or image.partition_epoch > self.partition_epoch:",
        "or image.partition_epoch >= self.partition_epoch:",
        f"{_REPLICATION}/test_partition.py",
        "test_image_without_a_newer_epoch_keeps_the_proposed_isr",
        1,
    ),
    Mutant(
        "min.insync.replicas is not bounded by the number of replicas",
        "broker/replication/partition.py",
        "return min(self.log.config.min_insync_replicas, len(self.replicas))",
        "return self.log.config.min_insync_replicas",
        f"{_REPLICATION}/test_partition.py",
        "test_min_insync_replicas_is_at_most_the_number_of_replicas",
        1,
    ),
    Mutant(
        "the verification of a batch on the fast path is not finished",
        "broker/replication/add_partitions_to_txn_manager.py",
        "            producers.finish_verification(header.producer_id, guard, is_known=True)",
        "            pass",
        f"{_HANDLERS}/test_produce_in_transactions.py",
        "test_verification_is_finished_before_the_batch_is_refused",
        2,
    ),
    Mutant(
        "a verification by this broker's coordinator is not finished",
        "broker/replication/add_partitions_to_txn_manager.py",
        "                _finish(producer_id, guards, decided)\n            else:",
        "                pass\n            else:",
        f"{_HANDLERS}/test_produce_in_transactions.py",
        "test_verification_is_finished_before_the_batch_is_refused",
        2,
    ),
    Mutant(
        "Renewal of a delegation token ignores its maximum lifetime",
        "controller/commands/delegation_tokens.py",
        "expiry_ms = min(found.max_ms, _sum(now_ms, period_ms))",
        "expiry_ms = _sum(now_ms, period_ms)",
        "tests/properties/test_delegation_tokens.py",
        "test_tokens_are_those_of_the_model_after_any_steps",
        10,
    ),
    Mutant(
        "An expired delegation token authenticates its bearer",
        "broker/security/scram.py",
        "if token.lifetime_ms < 0:",
        "if token.lifetime_ms is None:",
        "tests/unit/broker/security/test_token_credentials.py",
        "test_an_expired_token_is_refused",
        5,
    ),
    Mutant(
        "The bearer of a delegation token gets another token",
        "broker/handlers/delegation_tokens.py",
        "not context.token_authenticated\n        and protocol",
        "protocol",
        f"{_HANDLERS}/test_delegation_tokens.py",
        "test_clients_without_a_password_get_no_tokens",
        5,
    ),
    Mutant(
        "A client is authenticated by the challenge of its mechanism",
        "broker/security/sasl_authenticator.py",
        "if mechanism.user is None:",
        "if mechanism.user is False:",
        f"{_SECURITY}/test_sasl_authenticator.py",
        "test_client_is_authenticated_only_after_the_last_token",
        2,
    ),
    Mutant(
        "SCRAM ignores the channel binding of the client",
        "broker/security/scram.py",
        "if binding_bytes != self._binding:",
        "if not binding_bytes:",
        f"{_SECURITY}/test_scram.py",
        "test_channel_binding_is_the_header_of_the_first_message_whatever_the_proof",
        2,
    ),
    Mutant(
        "The HMAC of a delegation token is a password without the extension for tokens",
        "broker/security/scram.py",
        "if self._tokens is not None and self.token_authenticated:",
        "if self._tokens is not None:",
        f"{_SECURITY}/test_token_credentials.py",
        "test_a_token_is_no_user_without_the_extension_even_with_the_salt_of_the_token",
        2,
    ),
    Mutant(
        "A mapping rule applies to a subject that only begins as its pattern",
        "broker/security/ssl_principal_mapper.py",
        "if rule.pattern.fullmatch(subject):",
        "if rule.pattern.match(subject):",
        f"{_SECURITY}/test_ssl_principal_mapper.py",
        "test_first_matching_rule_names_the_client",
        2,
    ),
    Mutant(
        "A client without CLUSTER_ACTION fetches as the replica of broker 0",
        "broker/authorization/fetch.py",
        "if replica_of(context, request) < 0:",
        "if replica_of(context, request) <= 0:",
        "tests/unit/broker/authorization/test_fetch.py",
        "test_cve_2018_1288_only_a_client_with_cluster_action_can_be_a_replica",
        3,
    ),
    Mutant(
        "A user's third change in a request alters a credential that the response refuses",
        "controller/commands/scram_credentials.py",
        "        if user in errors:\n            continue\n",
        "",
        "tests/unit/controller/commands/test_scram_credentials.py",
        "test_user_in_three_changes_is_refused_and_keeps_its_credential",
        1,
    ),
    Mutant(
        "A client announces a request of any size before it is authenticated",
        "broker/network/connection_protocol.py",
        "FrameReader(server.scratch, listener.first_request_bytes, ",
        "FrameReader(server.scratch, server.limits.max_request_bytes, ",
        f"{_SECURITY}/test_sasl_dispatcher.py",
        "test_first_limit_of_requests_is_that_of_the_listener_before_any_of_their_bytes",
        32,
    ),
    Mutant(
        "The session of a delegation token counts as one of a password",
        "broker/network/connection.py",
        "self.token_authenticated = by_token",
        "self.token_authenticated = False",
        f"{_SECURITY}/test_sasl_authenticator.py",
        "test_session_counts_as_one_of_a_token_as_the_last_authentication_says",
        2,
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
