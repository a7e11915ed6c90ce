"""Whatever a crash does to the end of a log, recovery keeps every whole batch before it and nothing else."""

from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from hypothesis import example, given, settings
from hypothesis import strategies as st

from protocol.record_batch import iter_batches
from storage.log.log import Log, LogConfig
from storage.log.producer_state import ProducerStateManager
from tests.examples import examples
from tests.logs import NOW_MS, batch, content, open_log

CONFIG = LogConfig(segment_bytes=1000, index_interval_bytes=150)


def write(folder: Path, shape: list[tuple[int, int, int]], rolled: bool) -> bytes:
    """Append a batch for each (producer, records, size), end without closing, and return the bytes."""
    log = open_log(folder, CONFIG)
    sequences = [0, 0, 0]
    for number, (producer, count, size) in enumerate(shape):
        fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
        records = batch(count, size=size, timestamp=NOW_MS + size, **(fields if producer else {}))
        log.append_as_leader(records, number // 7, NOW_MS)
        sequences[producer] += count
    if rolled:
        log.roll(NOW_MS)
    return content(log)


def indexes(log: Log) -> dict[str, bytes]:
    log.close(NOW_MS)
    return {path.name: path.read_bytes() for path in Path(log.directory).glob("*.*index")}


def windows(state: ProducerStateManager) -> dict[int, object]:
    return {number: (entry.epoch, entry.last_timestamp, entry.batches) for number, entry in state.producers.items()}


@settings(max_examples=examples(150), deadline=None)
@given(
    shape=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 200)), min_size=1, max_size=25),
    rolled=st.booleans(),
    damage=st.sampled_from(["cut", "flip", "zero", "garbage"]),
    where=st.integers(1, 2**20),
    junk=st.binary(min_size=1, max_size=200),
)
@example(
    shape=[(0, 2, 0), (0, 2, 182), (0, 2, 200), (0, 1, 155), (0, 2, 163), (0, 3, 83), (0, 1, 105)],
    rolled=False,
    damage="zero",
    where=913824,
    junk=b"\x00",
)
@example(shape=[(0, 1, 82), (0, 3, 2), (0, 1, 64), (1, 1, 20)], rolled=True, damage="flip", where=2176, junk=b"\x00")
@example(shape=[(0, 1, 82)], rolled=True, damage="flip", where=2174, junk=b"\x00")
def test_recovery_keeps_the_whole_batches_before_the_damage(
    shape: list[tuple[int, int, int]], rolled: bool, damage: str, where: int, junk: bytes
) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        before = write(folder / "killed", shape, rolled)
        segments = sorted((folder / "killed" / "topic-0").glob("*.log"))
        at = where % len(before)
        if damage == "garbage":
            # More bytes than were written: nothing is lost, whatever their content.
            at = len(before)
            with open(segments[-1], "ab") as file:
                file.write(junk)
        else:
            position = at
            for segment in segments:
                data = bytearray(segment.read_bytes())
                if position >= len(data):
                    position -= len(data)
                    continue
                if damage == "cut":
                    del data[position:]
                elif damage == "flip":
                    data[position] ^= 1 << where % 8
                else:
                    data[position:] = bytes(len(data) - position)
                segment.write_bytes(data)
                break
        if damage == "zero":
            # Zeros over zeros are no damage.
            after = b"".join(segment.read_bytes() for segment in segments)
            at = next((position for position, byte in enumerate(before) if byte != after[position]), len(before))
        copytree(folder / "killed", folder / "again")

        log = open_log(folder / "killed", CONFIG, clean=False)
        found = content(log)
        ends = [0] + [position + header.size_bytes for position, header in iter_batches(before)]
        kept = max(end for end in ends if end <= at)
        # Base offset and leader epoch are outside the CRC, so a bit flip there may go undetected.
        assert found[:kept] == before[:kept]
        if damage != "flip":
            assert found == before[:kept]
        assert log.log_end_offset == max([h.next_offset for _, h in iter_batches(found)], default=0)

        scanned = ProducerStateManager()
        for _, header in iter_batches(found):
            scanned.update(header)
        assert windows(log.producers) == windows(scanned)

        # Indexes and the rest of the state equal those of a log to which only these batches were appended.
        second = open_log(folder / "again", CONFIG, clean=False)
        assert indexes(second) == indexes(log)
        assert content(open_log(folder / "killed", CONFIG)) == found
