"""A real broker on logs damaged where start-up does not check: consumers detect it, and the broker keeps running.

A consumer receives the written batches up to the first damaged one. There its read ends with an error, or with a
batch that fails its checksum. Kafka's format leaves two fields out of the checksum: the leader epoch, and the base
offset, by which a batch is found or missed. A damaged index changes nothing that is read.
"""

from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from protocol.api import ApiKey
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.record_batch import crc_matches, iter_batches
from storage.disk import OsDisk
from storage.log_manager import LogManager
from tests.all_files import CONFIG, NOW_MS, opened, write_log
from tests.broker_process import BrokerProcess
from tests.corruption.damages import LOG, Damage, every_field
from tests.examples import TIMES
from tests.formats import BATCH
from tests.logs import content
from tests.raw_client import RawClient

LAST = f"{18:020}"
"""Base offset of the active segment."""
ERRORS = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE}


class Seen(NamedTuple):
    """What a consumer received of a topic: the batches that passed their checks, and how its read ended."""

    batches: list[bytes]
    error: ErrorCode
    """Error code of the last fetch; NONE at the end of the log and where the consumer stopped."""
    damaged: bool
    """Whether it stopped at a batch with a wrong offset or checksum."""


def read(client: RawClient, topic: str) -> Seen:
    """Fetch a topic from its start to its end, as a consumer that checks checksums and offsets."""
    offset = 0
    seen: list[bytes] = []
    for _ in range(50):
        partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=300)
        topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
        answer = client.call(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
        (found,) = answer.responses[0].partitions
        data = bytes(found.records or b"")
        if found.error_code or not data:
            return Seen(seen, ErrorCode(found.error_code), damaged=False)
        try:
            for at, header in iter_batches(data):
                batch = data[at : at + header.size_bytes]
                if not crc_matches(batch, header) or header.next_offset <= offset:
                    return Seen(seen, ErrorCode.NONE, damaged=True)
                seen.append(batch)
                offset = header.next_offset
        except DecodeError:
            return Seen(seen, ErrorCode.NONE, damaged=True)
    raise AssertionError(f"{topic} does not end")


def prepared(place: Path, damages: list[Damage]) -> BrokerProcess:
    """Start a broker, create and fill topics, damage one for each damage, and leave one intact."""
    broker = BrokerProcess(place)
    names = [f"t{number}" for number in range(len(damages) + 1)]
    broker._settings += [f"--topic={name}:1" for name in names]
    broker.start()
    broker.stop()
    manager = LogManager(OsDisk(), [str(broker.data_dir)], CONFIG, now_ms=lambda: NOW_MS, random=Random(1))
    manager.open()
    for log in manager.load():
        log.config = CONFIG
        write_log(log)
    manager.close()
    for name, damage in zip(names, damages, strict=False):
        damage._replace(path=damage.path.replace(LOG, f"{name}-0")).do(broker.data_dir)
    return broker


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return the batches that `write_log` writes."""
    manager = opened(tmp_path_factory.mktemp("written"))
    log = manager.create("t", bytes(16), 0, CONFIG)
    write_log(log)
    data = content(log)
    manager.close()
    return [data[at : at + header.size_bytes] for at, header in iter_batches(data)]


def test_consumers_detect_damage_and_the_broker_keeps_running(
    folder: Path, tmp_path: Path, written: list[bytes]
) -> None:
    damages = [damage for damage in every_field(folder) if damage.path.startswith(f"{LOG}/0")][:: max(1, 14 // TIMES)]
    broker = prepared(tmp_path, damages)
    with broker:
        check_all(broker, damages, written)
        assert broker.stop() == 0
        broker.start()
        check_all(broker, damages, written)
        broker.kill()
        broker.start()
        check_all(broker, damages, written, killed=True)
    broker.check_log()


def check_all(broker: BrokerProcess, damages: list[Damage], written: list[bytes], *, killed: bool = False) -> None:
    """Read every topic: the damaged ones and the intact one."""
    client = RawClient(broker.bootstrap)
    try:
        for number, damage in enumerate(damages):
            check(damage, read(client, f"t{number}"), written, killed=killed)
        assert read(client, f"t{len(damages)}") == Seen(written, ErrorCode.NONE, damaged=False)
    finally:
        client.close()


def check(damage: Damage, seen: Seen, written: list[bytes], *, killed: bool) -> None:
    """Compare the batches that a consumer received with the written ones and the damage.

    Recovery truncates the last segment of a `killed` broker at the damage, so the log may end there.
    """
    field, _, _ = damage.what.partition(" at ")
    if not damage.path.endswith(".log"):
        assert seen == Seen(written, ErrorCode.NONE, damaged=False), damage
        return
    place = place_of(damage, written)
    before, rest = seen.batches[:place], seen.batches[place:]
    assert before == written[:place], damage
    if killed and damage.path.endswith(f"{LAST}.log") and not rest:
        assert seen.error is ErrorCode.NONE, damage
    elif field == "base_offset":
        # No checksum covers the field. The batch is found under another offset, or not at all.
        assert all(without(field, batch) in [without(field, one) for one in written[place:]] for batch in rest), damage
    elif field == "partition_leader_epoch":
        assert [without(field, batch) for batch in rest] == [without(field, batch) for batch in written[place:]], damage
    else:
        assert not rest, damage
        assert seen.damaged or seen.error in ERRORS, damage


def place_of(damage: Damage, written: list[bytes]) -> int:
    """Return the number of the batch that a damage of a segment hits."""
    place = next(at for at, batch in enumerate(written) if first_offset(batch) == int(Path(damage.path).stem))
    end = len(written[place])
    while end <= damage.position:
        place += 1
        end += len(written[place])
    return place


def first_offset(batch: bytes) -> int:
    return int.from_bytes(batch[:8], "big")


def without(field: str, batch: bytes) -> bytes:
    """Return a batch without one field of its header."""
    offset, size = next((each.offset, each.size or 0) for each in BATCH if each.name == field)
    return batch[:offset] + batch[offset + size :]
