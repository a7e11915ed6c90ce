"""Broker configs of the quorum, registration, replication and elections.

Kafka: `ReplicationConfigs`, `QuorumConfig`, `KRaftConfigs`.
`controller.configs.config_table` explains the columns.
"""

from controller.configs.config_table import table

_PUBLIC = table(
    """
    auto.leader.rebalance.enable BOOLEAN true read-only
        Whether preferred replicas become leaders again automatically.
    barnabas.broker.disconnect.grace.ms INT 300 read-only 0..
        Time in which a node without connections can reconnect; none if it refuses a new connection.
    broker.heartbeat.interval.ms INT 2000 read-only
        Interval of a broker's heartbeats to the controller.
    broker.session.timeout.ms INT 9000 read-only
        Time without a heartbeat after which the controller fences a broker.
    controlled.shutdown.enable BOOLEAN true read-only
        Whether a broker moves its leaderships to other brokers before it stops.
    controller.quorum.election.backoff.max.ms INT 1000 read-only 0..
        Maximum wait before the next election, after one without a winner.
    controller.quorum.election.timeout.ms INT 1000 read-only 0..
        Time for which a candidate waits for votes.
    controller.quorum.fetch.max.bytes INT 1048576 read-only 1..
        Maximum bytes that one fetch of the metadata log requests.
    controller.quorum.fetch.snapshot.max.bytes INT 1048576 read-only 1..
        Maximum bytes that one fetch of a metadata snapshot requests.
    controller.quorum.fetch.timeout.ms INT 2000 read-only 0..
        Time without contact after which a voter starts an election, and a leader without a majority resigns.
    controller.quorum.request.timeout.ms INT 2000 read-only 0..
        Timeout of requests between voters.
    controller.quorum.retry.backoff.ms INT 20 read-only 0..
        Wait before a failed request between voters is retried.
    controller.socket.timeout.ms INT 30000 read-only
        Timeout of a broker's requests to the controller.
    initial.broker.registration.timeout.ms INT 60000 read-only
        Time for which a broker tries to register at its start.
    leader.imbalance.check.interval.seconds LONG 300 read-only 1..
        Interval of the check whether leaders are the preferred replicas.
    replica.fetch.backoff.ms INT 1000 read-only 0..
        Wait before a failed replica fetch is retried.
    replica.fetch.max.bytes INT 1048576 read-only 0..
        Maximum bytes of one partition in a replica fetch; the first batch is always complete.
    replica.fetch.min.bytes INT 1 read-only
        Minimum bytes that a replica fetch waits for.
    replica.fetch.response.max.bytes INT 10485760 read-only 0..
        Maximum bytes of one replica fetch in total.
    replica.fetch.wait.max.ms INT 500 read-only
        Maximum time that a replica fetch waits for records.
    replica.lag.time.max.ms LONG 30000 read-only
        Time behind the leader after which a replica leaves the ISR.
    replica.socket.timeout.ms INT 30000 read-only
        Timeout of requests between brokers.
    request.timeout.ms INT 30000 read-only
        Timeout of the broker's own requests.
    security.inter.broker.protocol STRING PLAINTEXT read-only PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
        The security protocol between brokers, if inter.broker.listener.name is not set.
    socket.connection.setup.timeout.ms LONG 10000 read-only
        Timeout for connecting to another broker.
    """
)

_INTERNAL = table(
    """
    unclean.leader.election.interval.ms LONG 300000 read-only 1..
        Interval of unclean elections, for partitions without a leader whose topics allow them.
    """,
    internal=True,
)

REPLICATION_CONFIGS = (*_PUBLIC, *_INTERNAL)
