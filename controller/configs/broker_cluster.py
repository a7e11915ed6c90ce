"""The configurations of what nodes of a cluster do with each other: the quorum, registrations, replication, elections.

Columns as `controller.configs.rows` has them.
"""

from __future__ import annotations

from controller.configs.config_table import table

_PUBLIC = table(
    """
    auto.leader.rebalance.enable BOOLEAN true read-only
        Whether leadership goes back to the preferred replicas by itself.
    barnabas.broker.disconnect.grace.ms INT 300 read-only 0..
        How long a node that lost its connections may take to come back; one that refuses a new one is gone at once.
    broker.heartbeat.interval.ms INT 2000 read-only
        How often a broker sends the controller a heartbeat.
    broker.session.timeout.ms INT 9000 read-only
        After how long without a heartbeat the controller takes a broker for gone.
    controlled.shutdown.enable BOOLEAN true read-only
        Whether a broker hands its leadership over before it stops.
    controller.quorum.election.backoff.max.ms INT 1000 read-only 0..
        The longest wait before another election after one without result.
    controller.quorum.election.timeout.ms INT 1000 read-only 0..
        How long a voter waits for the votes of the others.
    controller.quorum.fetch.max.bytes INT 1048576 read-only 1..
        The most bytes that one fetch of the metadata log asks for.
    controller.quorum.fetch.snapshot.max.bytes INT 1048576 read-only 1..
        The most bytes that one fetch of a metadata snapshot asks for.
    controller.quorum.fetch.timeout.ms INT 2000 read-only 0..
        After how long without its leader a voter wants to be elected, and without a majority the leader resigns.
    controller.quorum.request.timeout.ms INT 2000 read-only 0..
        How long a request between voters may take.
    controller.quorum.retry.backoff.ms INT 20 read-only 0..
        The wait before a failed request between voters is tried again.
    controller.socket.timeout.ms INT 30000 read-only
        How long a request of a broker to the controller may take.
    initial.broker.registration.timeout.ms INT 60000 read-only
        How long a broker tries to register when it starts.
    leader.imbalance.check.interval.seconds LONG 300 read-only 1..
        How often it is looked whether leaders are the preferred replicas.
    replica.fetch.backoff.ms INT 1000 read-only 0..
        The wait before a failed fetch of a replica is tried again.
    replica.fetch.max.bytes INT 1048576 read-only 0..
        How many bytes of one partition a fetch of a replica asks for; the first batch is always whole.
    replica.fetch.min.bytes INT 1 read-only
        The bytes that a fetch of a replica waits for.
    replica.fetch.response.max.bytes INT 10485760 read-only 0..
        How many bytes one fetch of replicas asks for in all.
    replica.fetch.wait.max.ms INT 500 read-only
        How long a fetch of replicas waits for records.
    replica.lag.time.max.ms LONG 30000 read-only
        After how long behind the leader a replica is no longer in sync.
    replica.socket.timeout.ms INT 30000 read-only
        How long a request between brokers may take.
    request.timeout.ms INT 30000 read-only
        How long the broker waits for answers to its own requests.
    security.inter.broker.protocol STRING PLAINTEXT read-only PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
        The security protocol between brokers, where inter.broker.listener.name does not name a listener.
    socket.connection.setup.timeout.ms LONG 10000 read-only
        The time that a connection to another broker may take to begin.
    """
)

_INTERNAL = table(
    """
    unclean.leader.election.interval.ms LONG 300000 read-only 1..
        How often partitions without a leader are given one that is not in sync, where that is allowed.
    """,
    internal=True,
)

BROKER_CLUSTER_CONFIGS = (*_PUBLIC, *_INTERNAL)
