"""A real broker on logs that are damaged where nothing looked: consumers see that, and the broker goes on."""

import signal
import time
from pathlib import Path
from random import Random
from typing import Any

from protocol.api import ApiKey
from protocol.errors import DecodeError, ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.record_batch import crc_matches, iter_batches
from storage.disk import OsDisk
from storage.log_manager import LogManager
from tests.all_files import CONFIG, NOW_MS, write_log
from tests.broker_process import BrokerProcess
from tests.corruption.damages import LOG, Damage, every_field
from tests.examples import TIMES
from tests.raw_client import RawClient

ERRORS = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.OFFSET_OUT_OF_RANGE}


def read(client: RawClient, topic: str) -> tuple[ErrorCode, list[bool]]:
    """Fetch a topic from its start to its end; return the error it ended with, and of each batch if it is whole."""
    offset = 0
    seen: list[Any] = []
    for _ in range(50):
        partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=300)
        topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
        answer = client.call(ApiKey.FETCH, 11, max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics)
        (found,) = answer.responses[0].partitions
        data = bytes(found.records or b"")
        if found.error_code or not data:
            return ErrorCode(found.error_code), seen
        try:
            for at, header in iter_batches(data):
                seen.append(crc_matches(data[at : at + header.size_bytes], header))
                if not seen[-1]:
                    return ErrorCode.NONE, seen  # where a consumer ends
                if header.next_offset <= offset:
                    return ErrorCode.NONE, [*seen, False]  # offsets that go back are damage that a consumer sees
                offset = header.next_offset
        except DecodeError:
            return ErrorCode.NONE, [*seen, False]
    raise AssertionError(f"{topic} does not end")


def prepared(place: Path, damages: list[Damage]) -> BrokerProcess:
    """Let a broker create topics, fill and damage one for each damage, and leave one as it is."""
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


def test_consumers_see_damage_and_the_broker_goes_on(folder: Path, tmp_path: Path) -> None:
    damages = [damage for damage in every_field(folder) if damage.path.startswith(f"{LOG}/0")][:: max(1, 14 // TIMES)]
    broker = prepared(tmp_path, damages)
    for stop in (signal.SIGTERM, signal.SIGKILL):
        with broker:
            began = time.monotonic()
            read_all(broker, damages)
            assert time.monotonic() - began < 60
            if stop is signal.SIGTERM:
                assert broker.stop() == 0
    broker.check_log()


def read_all(broker: BrokerProcess, damages: list[Damage]) -> None:
    """Read every topic: those that are damaged, and the one that is not."""
    client = RawClient(broker.bootstrap)
    try:
        for number, damage in enumerate(damages):
            error, _ = read(client, f"t{number}")
            assert error in ERRORS | {ErrorCode.NONE}, damage
        assert read(client, f"t{len(damages)}") == (ErrorCode.NONE, [True] * 16)
    finally:
        client.close()
