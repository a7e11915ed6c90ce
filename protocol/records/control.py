"""Records in control batches of the metadata log (KIP-595, KIP-630, KIP-853).

A record's key has its type (`record_batch.py`); its value starts with the version that it was written in. Kafka 4.3
writes LeaderChangeMessage in version 0 at kraft.version 0, and in version 1 at kraft.version 1. `record_batch.py` has
the transaction markers.
"""

from __future__ import annotations

from protocol.schema import ZERO_UUID, Int16, Int32, Int64, Message, String, UInt16, Uuid, message, struct, wire


@message(versions=(0, 1), flexible=0)
class LeaderChangeMessage(Message):
    """A new leader of the quorum, and the voters that elected it."""

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
    """The first record of a snapshot."""

    version: Int16
    last_contained_log_timestamp: Int64


@message(versions=(0, 0), flexible=0)
class SnapshotFooterRecord(Message):
    """The last record of a snapshot."""

    version: Int16


@message(versions=(0, 0), flexible=0)
class KRaftVersionRecord(Message):
    """The level of `kraft.version`; 1 allows the voters to change (KIP-853)."""

    version: Int16
    kraft_version: Int16


@message(versions=(0, 0), flexible=0)
class VotersRecord(Message):
    """The voters with their endpoints and supported levels of `kraft.version`."""

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
