"""Records of a topic, written and read as JSON, past the rules of faults and the transcript.

Keys, values and headers are texts in UTF-8, or objects with `base64`. Records are written by the handler of Produce,
with all of its checks and acks=all. Only partitions led here are written and read; the refusal for others names their
leader.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

from broker.control.api_problem import bad_request, conflict
from broker.control.bodies import NumberRange
from broker.control.partition_reader import PartitionReader, committed_end
from broker.control.partitions import led_partition, local_leaders
from broker.control.waiting import DEFAULT_TIMEOUT_MS, TimeoutMs, key_events, metadata_changes, until, wait_result
from broker.dispatch import NO_CONNECTION
from broker.network.connection import RequestContext
from broker.replication.partition import ACKS_ALL, Isolation
from broker.routes import ROUTES
from protocol.api import APIS, ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.produce import ProduceRequest, ProduceResponse
from protocol.record import Record
from protocol.record_batch import build_batch

if TYPE_CHECKING:
    from broker.broker_server import BrokerServer
    from broker.control.control import Control
    from broker.replication.partition import Partition

IsolationName: TypeAlias = Literal["read_uncommitted", "read_committed"]

_ISOLATION: Mapping[str, Isolation] = {
    "read_uncommitted": Isolation.READ_UNCOMMITTED,
    "read_committed": Isolation.READ_COMMITTED,
}
_READ_BYTES = 1 << 20
_MOST_RECORDS = 100_000
_NULL = b"null"


class BinaryBody(NamedTuple):
    """Bytes, in base64."""

    base64: str


class HeaderBody(NamedTuple):
    """A header of a record."""

    key: str
    value: BinaryBody | str | None = None


class RecordBody(NamedTuple):
    """A record to write. Without a partition, its key chooses one as in Kafka's clients, else its place in the list."""

    partition: Annotated[int, NumberRange(0)] | None = None
    key: BinaryBody | str | None = None
    value: BinaryBody | str | None = None
    headers: list[HeaderBody] | None = None
    timestamp_ms: int | None = None


class RecordsBody(NamedTuple):
    """Records to write."""

    records: list[RecordBody]
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


class RecordsQuery(NamedTuple):
    """Which records to read: from `offsets`, PARTITION:OFFSET,..., else from the start of all partitions led here."""

    offsets: str = ""
    limit: Annotated[int, NumberRange(1, _MOST_RECORDS)] = _MOST_RECORDS
    isolation: IsolationName = "read_uncommitted"
    binary: bool = False
    """Whether all keys, values and headers are in base64, texts too."""


class RecordsWait(NamedTuple):
    """A wait until one of some partitions led here has committed records beyond its offset."""

    topic: str
    after: dict[str, int]
    isolation: IsolationName = "read_uncommitted"
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS


async def append_records(control: Control, topic: str, body: RecordsBody) -> dict[str, Any]:
    """Append records; return the partition and offset of each, in their order, once they are committed."""
    broker = control.broker
    if not body.records:
        raise bad_request("records: there are none")
    leaders = local_leaders(broker, topic)
    count = len(broker.image.topics_by_name()[topic].partitions)
    chosen: dict[int, list[tuple[int, Record]]] = {}
    for place, one in enumerate(body.records):
        record = _to_append(one, broker.now_ms())
        index = one.partition
        if index is None:
            index = (murmur2(record.key) & 0x7FFFFFFF if record.key is not None else place) % count
        chosen.setdefault(index, []).append((place, record))
    partitions = {index: leaders.get(index) or led_partition(broker, topic, index) for index in chosen}
    response = await _produce(broker, partitions, chosen, body.timeout_ms)
    written: list[dict[str, int]] = [{} for _ in body.records]
    for row in response.responses[0].partition_responses:
        if row.error_code:
            code = ErrorCode(row.error_code)
            raise conflict(f"{topic}-{row.index}: {code.name}: {row.error_message or code.name}")
        for offset, (place, _) in enumerate(chosen[row.index], row.base_offset):
            written[place] = {"partition": row.index, "offset": offset}
    return {"records": written}


async def read_records(control: Control, topic: str, query: RecordsQuery) -> dict[str, Any]:
    """Return the committed records of partitions led here, by partition; `next` has the offset after the last ones."""
    broker = control.broker
    wanted = _offsets(query.offsets)
    leaders = local_leaders(broker, topic)
    starts = wanted or {index: found.log.log_start_offset for index, found in leaders.items()}
    records: list[dict[str, Any]] = []
    following: dict[str, int] = {}
    for index, offset in sorted(starts.items()):
        partition = leaders.get(index) or led_partition(broker, topic, index)
        reader = PartitionReader(partition, _ISOLATION[query.isolation], offset)
        try:
            found = reader.records(query.limit - len(records))
            records += [{"partition": index, **_shown(record, binary=query.binary)} for record in found]
        except KafkaError as error:
            raise bad_request(f"{partition}: {error.code.name}: {error.message}") from error
        following[str(index)] = reader.offset
    return {"records": records, "next": following}


async def wait_for_records(control: Control, body: RecordsWait) -> dict[str, Any]:
    """Wait until one of the partitions that are led here has committed records beyond its offset in `after`."""
    broker = control.broker
    after = _offsets(",".join(f"{index}:{offset}" for index, offset in body.after.items()))
    isolation = _ISOLATION[body.isolation]
    led = {index: found for index, found in local_leaders(broker, body.topic).items() if index in after}
    if not led:
        led_partition(broker, body.topic, next(iter(after), 0))  # raises

    def ends() -> dict[int, int]:
        return {index: committed_end(led_partition(broker, body.topic, index), isolation) for index in led}

    sources = [key_events(broker.purgatory, led.values()), metadata_changes(broker.raft)]
    met = await until(lambda: any(end > after[index] for index, end in ends().items()), sources, body.timeout_ms)
    found = ends()
    listed = ", ".join(f"{body.topic}-{index}: {end}" for index, end in found.items())
    seen = {"ends": {str(index): end for index, end in found.items()}}
    return wait_result(met, f"{body.topic} has records after {after}", body.timeout_ms, seen, f"the ends are {listed}")


async def _produce(
    broker: BrokerServer,
    partitions: Mapping[int, Partition],
    chosen: Mapping[int, Sequence[tuple[int, Record]]],
    timeout_ms: int,
) -> ProduceResponse:
    """Return the response to a Produce of one batch for each partition."""
    data = [
        ProduceRequest.Topic.Partition(
            index=index, records=memoryview(build_batch([record for _, record in chosen[index]]))
        )
        for index in partitions
    ]
    topic_id = next(iter(partitions.values())).topic_id
    request = ProduceRequest(
        transactional_id=None,
        acks=ACKS_ALL,
        timeout_ms=timeout_ms,
        topic_data=[ProduceRequest.Topic(topic_id=topic_id, partition_data=data)],
    )
    version = APIS[ApiKey.PRODUCE].max_version
    context = RequestContext(ApiKey.PRODUCE, version, 0, None, NO_CONNECTION, "", "localhost")
    outcome = ROUTES[ApiKey.PRODUCE].load("broker").handle(broker, context, request)
    response: ProduceResponse = await outcome if isinstance(outcome, Awaitable) else outcome
    return response


def _offsets(text: str) -> dict[int, int]:
    """Return the offsets by partition of PARTITION:OFFSET,..."""
    found = {}
    for item in filter(None, text.split(",")):
        index, _, offset = item.partition(":")
        if not (index.isdecimal() and offset.isdecimal()):
            raise bad_request(f"offsets: {item!r} is not PARTITION:OFFSET")
        found[int(index)] = int(offset)
    return found


def _to_append(body: RecordBody, now_ms: int) -> Record:
    headers = tuple((one.key.encode(), _bytes(one.value)) for one in body.headers or ())
    timestamp_ms = now_ms if body.timestamp_ms is None else body.timestamp_ms
    return Record(0, timestamp_ms, _bytes(body.key), _bytes(body.value), headers)


def _bytes(body: BinaryBody | str | None) -> bytes | None:
    if not isinstance(body, BinaryBody):
        return None if body is None else body.encode()
    try:
        return b64decode(body.base64, validate=True)
    except Base64Error as error:
        raise bad_request(f"base64: {error}") from None


def _shown(record: Record, *, binary: bool) -> dict[str, Any]:
    show: Callable[[bytes | None], object] = _base64 if binary else _text
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "key": show(record.key),
        "value": show(record.value),
        "headers": [{"key": key.decode(errors="replace"), "value": show(value)} for key, value in record.headers],
    }


def _text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _base64(data)


def _base64(data: bytes | None) -> object:
    return None if data is None else {"base64": b64encode(data).decode("ascii")}


def murmur2(data: bytes) -> int:
    """Return the hash by which Kafka's clients choose the partition of a key (Kafka: `Utils.murmur2`), 32 bits."""
    mixer, mask = 0x5BD1E995, 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mixer & mask
        word = (word ^ word >> 24) * mixer & mask
        value = (value * mixer & mask) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * mixer & mask
    value = (value ^ value >> 13) * mixer & mask
    return value ^ value >> 15
