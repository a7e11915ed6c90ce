"""Transaction markers: the control batch that completes a transaction in a partition (KIP-98).

The marker is one record, commit or abort, with the coordinator's epoch, which fences earlier coordinators. It is
appended by the leader as other batches (`Log.append_as_leader`, with an `AppendOrigin` that has the marker). Whether
the transaction exists is the coordinator's concern; `ProducerStateManager` checks the epochs and computes the last
stable offset.
"""

from functools import lru_cache
from struct import Struct

from protocol.record_batch import ControlType, EndTxnMarker, build_batch, control_record_key

_VALUE = Struct(">hi")
_VERSION = 0


def build_marker(producer_id: int, producer_epoch: int, marker: EndTxnMarker, now_ms: int) -> bytearray:
    """Return the control batch that completes the producer's transaction."""
    return bytearray(_marker(producer_id, producer_epoch, marker, now_ms))


@lru_cache(maxsize=1)  # one after another for the partitions of a transaction
def _marker(producer_id: int, producer_epoch: int, marker: EndTxnMarker, now_ms: int) -> bytearray:
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return build_batch(
        [(control_record_key(kind), _VALUE.pack(_VERSION, marker.coordinator_epoch))],
        timestamp_ms=now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
