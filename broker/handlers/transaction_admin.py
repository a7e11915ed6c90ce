"""ListTransactions and DescribeTransactions: the transactional ids that this broker coordinates (KIP-664).

Behaviour
- Both show committed state, and work in steps between other requests.
- ListTransactions returns the ids that match all filters: COORDINATOR_LOAD_IN_PROGRESS, and none, while a partition of
  `__transaction_state` is being loaded; UNKNOWN_SERVER_ERROR, with those that are loaded, if loading others failed. The
  names of states are case-sensitive; unknown ones are returned, and match nothing. An id that never had a transaction
  is older than any duration, as in Kafka.
- DescribeTransactions: each id has its own result, one if it is named twice, so that a response has each partition list
  at most once. INVALID_REQUEST for an empty one, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
  TRANSACTIONAL_ID_NOT_FOUND.
- `broker.authorization.transactions` omits what the client may not describe.

Version notes
- ListTransactions: 1 and later filter by duration (KIP-994), 2 by a pattern of RE2/J that matches the whole id
  (KIP-1152); INVALID_REGULAR_EXPRESSION if it is none.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.broker_server import BrokerServer
from broker.coordinator.transaction.transaction_metadata import TransactionMetadata, TransactionState
from broker.network.connection import RequestContext
from broker.runtime.cooperative import start_steps
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from storage.steps import Steps

if TYPE_CHECKING:
    from broker.regex.program import Program

_IDS_A_STEP = 50
_PARTITIONS_A_STEP = 50
_CHARACTERS_A_PARTITION = 400  # the id's hash takes that long
_STATES = {state.display_name: state for state in TransactionState}

_Described = DescribeTransactionsResponse.Transaction
_Topic = DescribeTransactionsResponse.Transaction.Topic


def list_transactions(
    broker: BrokerServer, _context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:
    """Return the transactional ids that match all filters."""
    return start_steps(_list(broker, request), broker.loop)


def _list(broker: BrokerServer, request: ListTransactionsRequest) -> Steps[ListTransactionsResponse]:
    runtime = broker.transactions.runtime
    if runtime.is_loading:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    pattern = _compiled(request.transactional_id_pattern)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    now_ms = broker.now_ms()

    def is_wanted(metadata: TransactionMetadata) -> bool:
        return (
            (not producer_ids or metadata.producer_id in producer_ids)
            and (not request.state_filters or metadata.state in states)
            and (request.duration_filter < 0 or now_ms - metadata.start_ms > request.duration_filter)
        )

    found = []
    for number, (name, metadata) in enumerate(broker.transactions.states()):
        if number % _IDS_A_STEP == _IDS_A_STEP - 1:
            yield None
        if is_wanted(metadata) and (pattern is None or (yield from pattern.matches(name))):
            found.append(
                ListTransactionsResponse.Transaction(
                    transactional_id=name,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.display_name,
                )
            )
    return ListTransactionsResponse(
        error_code=ErrorCode.UNKNOWN_SERVER_ERROR if runtime.failures else ErrorCode.NONE,
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in _STATES],
        transaction_states=found,
    )


def _compiled(pattern: str | None) -> Program | None:
    if not pattern:
        return None
    from broker.regex.parser import PatternSyntaxError, compile_pattern

    try:
        return compile_pattern(pattern)
    except PatternSyntaxError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from error


def describe_transactions(
    broker: BrokerServer, _context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    """Describe each transactional id independently."""
    return start_steps(_describe_all(broker, request), broker.loop)


def _describe_all(broker: BrokerServer, request: DescribeTransactionsRequest) -> Steps[DescribeTransactionsResponse]:
    described = []
    size = 0
    for name in dict.fromkeys(request.transactional_ids):
        one = _describe(broker, name)
        described.append(one)
        size += 1 + len(name) // _CHARACTERS_A_PARTITION + sum(len(topic.partitions) for topic in one.topics)
        if size >= _PARTITIONS_A_STEP:
            size = 0
            yield None
    return DescribeTransactionsResponse(transaction_states=described)


def _describe(broker: BrokerServer, name: str) -> _Described:
    if not name:
        return _failed(name, ErrorCode.INVALID_REQUEST)
    try:
        metadata = broker.transactions.describe(name)
    except KafkaError as error:
        return _failed(name, error.code)
    if metadata is None:
        return _failed(name, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return _Described(
        transactional_id=name,
        transaction_state=metadata.state.display_name,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[_Topic(topic=topic, partitions=partitions) for topic, partitions in metadata.partitions.by_topic()],
    )


def _failed(name: str, error: ErrorCode) -> _Described:
    return _Described(
        error_code=error,
        transactional_id=name,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
