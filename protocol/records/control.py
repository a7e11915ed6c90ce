"""Records inside control batches of the metadata log (KIP-595, KIP-630, KIP-853).

What kind a record is stands in its key (`record_batch.py`); its value starts with the version that it was
written in. Of LeaderChangeMessage, Kafka 4.3 writes version 0 at kraft.version 0 and version 1 at
kraft.version 1. Transaction markers have their place in `record_batch.py` too.
"""

from __future__ import annotations

from protocol.schema import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    UInt16,
    Uuid,
    message,
    struct,
    wire,
)


@message(versions=(0, 1), flexible=0)
class LeaderChangeMessage(Message):
    """A new leader of the quorum, and who voted for it."""

    version: Int16
    leader_id: Int32
    voters: list[Voter]
    granting_voters: list[Voter]

    @struct
    class Voter:
        voter_id: Int32
        voter_directory_id: Uuid = wire("1+", default=ZERO_UUID)


@message(versions=(0, 0), flexible=0)
class SnapshotHeaderRecord(Message):
    """Opens a snapshot."""

    version: Int16
    last_contained_log_timestamp: Int64


@message(versions=(0, 0), flexible=0)
class SnapshotFooterRecord(Message):
    """Closes a snapshot."""

    version: Int16


@message(versions=(0, 0), flexible=0)
class KRaftVersionRecord(Message):
    """The quorum's feature level; 1 lets voters change (KIP-853)."""

    version: Int16
    kraft_version: Int16


@message(versions=(0, 0), flexible=0)
class VotersRecord(Message):
    """The voters, where they are, and which levels they support."""

    version: Int16
    voters: list[Voter]

    @struct
    class Voter:
        voter_id: Int32
        voter_directory_id: Uuid
        endpoints: list[Endpoint]
        kraft_version_feature: KRaftVersionFeature

        @struct
        class Endpoint:
            name: String
            host: String
            port: UInt16

        @struct
        class KRaftVersionFeature:
            min_supported_version: Int16
            max_supported_version: Int16
