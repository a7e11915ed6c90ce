"""The invariants that every run of the simulator checks, and the exception that names a broken one."""

from __future__ import annotations

from enum import Enum


class Invariant(Enum):
    """The invariants; the values appear in `docs/SIMULATION.md`."""

    __hash__ = object.__hash__  # Enum's __hash__ is a Python function, and each check counts by its invariant

    # Of one replica
    OFFSETS_ARE_ORDERED = "log start <= high watermark <= log end"
    HIGH_WATERMARK_RISES = "a high watermark never goes back"
    EPOCHS_RISE = "leader epochs and partition epochs never go back"
    COMMITTED_IS_SYNCED = "with `fsync=always`, committed records are synced"

    # Of all replicas of a partition
    ONE_LEADER = "one leader in a leader epoch"
    COMMITTED_IS_THE_SAME = "committed batches are the same on every replica, for ever"
    COMPACTED_KEEPS_LAST = "a compacted log keeps the last record of each key"
    COMPACTED_KEEPS_OFFSETS = "what a compacted log has was committed there, at that offset"
    ISR_HAS_COMMITTED = "members of the ISR have everything below the high watermark"
    ISR_KEEPS_COMMITTED = "members of the ISR truncate nothing that is committed"
    COMMITTED_BY_MIN_ISR = "at least `min.insync.replicas` replicas have what is committed"

    # Of the metadata quorum
    ONE_QUORUM_LEADER = "one node leads the quorum in an epoch"
    METADATA_ON_A_MAJORITY = "a majority of voters has all committed metadata"
    METADATA_RISES = "applied metadata never goes back"
    METADATA_IS_THE_SAME = "the metadata at an offset is the same on every node"
    VOTES_ARE_KEPT = "a voter never forgets its vote"
    QUORUM_COMMITS_ITS_EPOCH = "a quorum leader commits only up to an entry of its own epoch"

    # Visible to producers and consumers
    RESPONSES_ARE_ORDERED = "whole responses, in the order of the requests"
    PRODUCE_ANSWERS = "Produce and InitProducerId return expected errors only"
    PRODUCER_IDS_ARE_UNIQUE = "a producer id is given once"
    SEQUENCES_ARE_KEPT = "an idempotent producer is refused only after a loss of its records"
    FETCH_ANSWERS = "Fetch returns expected errors only"
    FETCH_SESSION_EPOCHS = "a fetch session refuses every epoch but the next"
    LEADER_EPOCHS_ARE_FENCED = "a fetch in another leader epoch is refused"
    FETCHED_HIGH_WATERMARK_RISES = "a consumer sees no high watermark go back"
    READS_ARE_COMMITTED = "no consumer reads at or past the high watermark"
    READS_HAVE_NO_GAPS = "a consumer reads every offset"
    READS_ARE_IN_RANGE = "OFFSET_OUT_OF_RANGE only below a log start that was moved"
    RECORDS_ARE_WHOLE = "every batch that is read can be decoded"
    RECORDS_ARE_SENT = "every record that is read was sent"
    RECORDS_STAY = "acknowledged and read records stay where they are, unchanged"
    RECORDS_ARE_UNIQUE = "an idempotent producer's record is in the log once"
    RECORDS_ARE_IN_ORDER = "an idempotent producer's records are in the order in which it sent them"
    LATEST_IS_COMMITTED = "ListOffsets(latest) is not above the high watermark"
    TIMES_ARE_FOUND = "ListOffsets finds the first record of a time, and one with the largest timestamp"
    EPOCHS_END = "OffsetForLeaderEpoch returns where the records of an epoch end"
    LATEST_IS_NOT_BEHIND = "ListOffsets(latest) is not below an offset that was acknowledged or read"
    DELETED_RECORDS_STAY_DELETED = "the log start is between the last and the largest deletion of records"
    DELETE_RECORDS_ANSWERS = "DeleteRecords returns expected errors only"

    # Visible to groups
    GROUP_ANSWERS = "group APIs return expected errors only"
    OFFSETS_STAY = "committed offsets stay"
    ONE_GROUP_LEADER = "one member leads a generation"
    ASSIGNMENTS_ARE_THE_LEADERS = "a member is assigned what the leader of its generation sent"
    GENERATIONS_ARE_FENCED = "a commit of a former generation is refused"

    # Of transactions
    TRANSACTION_ANSWERS = "transactional APIs return expected errors only"
    TRANSACTIONAL_EPOCHS_RISE = "the epochs of a transactional id rise"
    FENCED_PRODUCERS_STAY_FENCED = "a fenced producer stays fenced"
    TRANSACTION_STATES_FOLLOW = "a transactional id goes from one state to the next, as stored"
    DECIDED_BEFORE_MARKERS = "a transaction's result is committed before its first marker is written"
    MARKED_BEFORE_COMPLETED = "a transaction is completed once its markers are committed"
    PREPARED_TRANSACTIONS_STAY = "a prepared transaction stays open until its external coordinator ends it"
    ONE_OUTCOME = "a transaction has the same result in every partition"
    OUTCOME_AS_ANSWERED = "a transaction has the result that its producer received"
    NO_RECORD_AFTER_MARKER = "no record of a transaction follows its marker"
    STABLE_OFFSET_IS_EXACT = "the last stable offset is before the first open transaction, and no lower"
    STABLE_OFFSET_RISES = "a consumer sees no last stable offset go back"
    READ_COMMITTED_IS_COMMITTED = "a read_committed consumer gets no record of an open or aborted transaction"
    TRANSACTIONAL_RECORDS_STAY = "visible records stay where they are, once"
    TRANSACTIONS_ARE_ATOMIC = "all records of a transaction are visible, or none"
    TRANSACTIONS_COMPLETE = "in the end every transaction is completed"
    OFFSETS_ARE_OF_COMMITTED = "a group's offset is that of a committed transaction, never a pending one"
    PROCESSED_ONCE = "each input record is processed exactly once"
    COORDINATOR_HAS_ITS_LOG = "a transaction coordinator has the state of its log"

    # Visible to administrators
    ADMIN_ANSWERS = "APIs of topics and settings return expected errors only"
    TOPIC_IDS_ARE_UNIQUE = "a topic id is given once"
    TOPICS_STAY = "a created topic stays, with its id and partitions, until it is deleted"
    NEW_TOPICS_ARE_EMPTY = "a new topic has no records but its own"
    NEW_TOPICS_ARE_WRITABLE = "a created topic can be written to at once"
    TOPIC_RECORDS_STAY = "a record that was written to a new topic stays"
    SETTINGS_STAY = "a setting of a topic stays"
    DELETED_TOPICS_ARE_GONE = "a deleted topic is gone"
    FORMER_TOPIC_IDS_ARE_REFUSED = "requests by the id of a deleted topic are refused"

    # Of credentials
    CREDENTIAL_ANSWERS = "APIs of credentials and tokens return expected errors only"
    CREDENTIALS_STAY = "a broker accepts the credentials and tokens that it knows were created"
    REMOVED_CREDENTIALS_ARE_REFUSED = "a broker refuses what it knows was removed, and tokens that have expired"

    # Of processes, and of the run
    NO_TRACEBACK = "no traceback in the log, no exception in the loop"
    NO_BUSY_LOOP = "no two brokers exchange requests that change nothing"
    STARTS = "a broker starts"
    STOPS_IN_ORDER = "a broker stops in order, and leaves no task"
    CLIENTS_END = "no client fails"
    PROGRESS = "everything continues once all faults have healed"
    OTHER_DIRECTORIES_SERVE = "a broker goes on with its other directories where one fails"
    ACKS_ALL_GOES_ON = "acks=all goes on without a follower that does not reach its leader"
    PRODUCERS_ARE_TRUNCATED = "the producers of a log are those of its records"
    EVERY_CHECK_RAN = "every check ran that the scenario has work for"
    REPLICAS_CONVERGE = "in the end all nodes have the same metadata, and all replicas the same bytes"


class InvariantBroken(AssertionError):  # noqa: N818 - what a checker found, not an error of its own
    """What a checker found; `invariant` is a member of the checker's own enumeration."""

    def __init__(self, invariant: Enum, problem: str) -> None:
        super().__init__(problem)
        self.invariant = invariant


class Violation(InvariantBroken):
    """A broken `Invariant` of a simulated run."""


EVERYWHERE = frozenset(
    {
        Invariant.OFFSETS_ARE_ORDERED,
        Invariant.HIGH_WATERMARK_RISES,
        Invariant.EPOCHS_RISE,
        Invariant.ONE_LEADER,
        Invariant.ONE_QUORUM_LEADER,
        Invariant.METADATA_ON_A_MAJORITY,
        Invariant.METADATA_RISES,
        Invariant.VOTES_ARE_KEPT,
        Invariant.RESPONSES_ARE_ORDERED,
        Invariant.PRODUCER_IDS_ARE_UNIQUE,
        Invariant.FETCHED_HIGH_WATERMARK_RISES,
        Invariant.READS_ARE_COMMITTED,
        Invariant.READS_HAVE_NO_GAPS,
        Invariant.RECORDS_ARE_SENT,
        Invariant.RECORDS_STAY,
        Invariant.RECORDS_ARE_UNIQUE,
        Invariant.RECORDS_ARE_IN_ORDER,
        Invariant.LATEST_IS_COMMITTED,
        Invariant.OFFSETS_STAY,
        Invariant.NEW_TOPICS_ARE_WRITABLE,
    }
)
"""Invariants that every complete run checks, however short it is."""

IN_CLUSTERS = frozenset(
    {
        Invariant.COMMITTED_IS_THE_SAME,
        Invariant.ISR_HAS_COMMITTED,
        Invariant.COMMITTED_BY_MIN_ISR,
        Invariant.METADATA_IS_THE_SAME,
        Invariant.LATEST_IS_NOT_BEHIND,
    }
)
"""Invariants that every complete run of a cluster checks in addition."""

IN_TRANSACTIONS = frozenset(
    {
        Invariant.TRANSACTIONAL_EPOCHS_RISE,
        Invariant.FENCED_PRODUCERS_STAY_FENCED,
        Invariant.TRANSACTION_STATES_FOLLOW,
        Invariant.DECIDED_BEFORE_MARKERS,
        Invariant.MARKED_BEFORE_COMPLETED,
        Invariant.PREPARED_TRANSACTIONS_STAY,
        Invariant.ONE_OUTCOME,
        Invariant.OUTCOME_AS_ANSWERED,
        Invariant.NO_RECORD_AFTER_MARKER,
        Invariant.STABLE_OFFSET_IS_EXACT,
        Invariant.STABLE_OFFSET_RISES,
        Invariant.READ_COMMITTED_IS_COMMITTED,
        Invariant.TRANSACTIONAL_RECORDS_STAY,
        Invariant.TRANSACTIONS_ARE_ATOMIC,
        Invariant.TRANSACTIONS_COMPLETE,
        Invariant.OFFSETS_ARE_OF_COMMITTED,
        Invariant.PROCESSED_ONCE,
        Invariant.COORDINATOR_HAS_ITS_LOG,
    }
)
"""Invariants that every complete run with transactions checks in addition."""

IN_CREDENTIALS = frozenset(
    {
        Invariant.CREDENTIAL_ANSWERS,
        Invariant.CREDENTIALS_STAY,
        Invariant.REMOVED_CREDENTIALS_ARE_REFUSED,
    }
)
"""Invariants that every complete run with credentials checks in addition."""

REPORTED = frozenset(
    {
        Invariant.NO_TRACEBACK,
        Invariant.NO_BUSY_LOOP,
        Invariant.STARTS,
        Invariant.STOPS_IN_ORDER,
        Invariant.CLIENTS_END,
        Invariant.EVERY_CHECK_RAN,
    }
)
"""Invariants that are reported when they break, without a check that could be counted."""
