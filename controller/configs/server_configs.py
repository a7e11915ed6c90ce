"""Broker configs of identity, listeners, requests, metadata and groups.

Kafka: `ServerConfigs`, `SocketServerConfigs`, `MetadataLogConfig`, `GroupCoordinatorConfig`.
`controller.configs.config_table` explains the columns.
"""

from controller.configs.config_table import table

SERVER_CONFIGS = table(
    """
    advertised.listeners LIST null read-only some
        The addresses for clients to connect to, as name://host:port; by default the listeners themselves.
    barnabas.cluster.id STRING '' read-only
        The cluster id of new data directories. By default it is derived from controller.quorum.voters, so that nodes
        with the same voters have the same id; a broker that is its own only voter gets an id of its own.
    barnabas.control.clock.ms LONG 0 read-only 0..
        By how much the clock of a broker with the control API is ahead of the machine's from its start on. A test that
        has advanced the clocks of a cluster starts a broker again with the sum.
    barnabas.control.listener STRING '' read-only
        The loopback address, as host:port, of the control API, with which tests wait for events in this broker and make
        it fail; none if empty. All listeners must be loopback addresses too.
    barnabas.control.token PASSWORD null read-only
        The token that requests to the control API must have; by default a random one.
    barnabas.metrics.listener STRING '' read-only
        The address, as host:port, that serves metrics in Prometheus' format, /healthz and /readyz; none if empty.
    barnabas.metrics.security.protocol STRING PLAINTEXT read-only PLAINTEXT|SSL
        Whether that address is encrypted: with SSL, the ssl settings are those of a listener named METRICS.
    barnabas.metrics.token PASSWORD null read-only
        The token that requests to that address must have, as "Authorization: Bearer TOKEN"; none is needed by default.
    barnabas.test.profile BOOLEAN false read-only
        Whether this broker is for tests: nothing is synced to the disk, so a power failure may lose everything, and
        group.initial.rebalance.delay.ms is 0, offsets.topic.num.partitions and transaction.state.log.num.partitions are
        1 unless they are set.
    barnabas.validate.records BOOLEAN false read-only
        Whether every record of a produced batch is checked, not only the header of the batch.
    broker.id INT -1 read-only
        The name of node.id before KRaft; used if node.id is not set.
    broker.rack STRING null read-only
        The rack of this broker. Replicas of a partition are spread over racks.
    config.providers LIST '' cluster-wide
        Names of what resolves ${NAME:...} in the settings of a start, each with a class config.providers.NAME.class.
    connections.max.idle.ms LONG 600000 read-only
        Idle time after which a connection is closed.
    controller.listener.names LIST CONTROLLER read-only some
        The controller's listeners, which are never advertised to clients.
    controller.quorum.voters LIST '' read-only
        The voters of a static quorum, as id@host:port. Not needed by a broker that is its own only voter.
    fetch.max.bytes INT 57671680 read-only 1024..
        Maximum bytes of one Fetch response, whatever the client requests; the first batch is always complete.
    group.initial.rebalance.delay.ms INT 3000 read-only
        Time that an empty group waits for more members before its first rebalance.
    group.max.session.timeout.ms INT 1800000 read-only
        Maximum session timeout that a group member can request.
    group.max.size INT 2147483647 read-only 1..
        Maximum number of members of a group.
    group.min.session.timeout.ms INT 6000 read-only
        Minimum session timeout that a group member can request.
    inter.broker.listener.name STRING null read-only
        The listener for connections between brokers; it must be advertised.
    listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT read-only
        The security protocol of each listener, as name:protocol.
    listeners LIST PLAINTEXT://:9092 read-only some
        The addresses that the broker listens on, as name://host:port. Port 0 takes any free port.
    max.connection.creation.rate INT 2147483647 cluster-wide 0..
        Maximum number of new connections per second; more are delayed.
    max.connections INT 2147483647 cluster-wide 0..
        Maximum number of connections of the broker.
    max.connections.per.ip INT 2147483647 cluster-wide 0..
        Maximum number of connections from one address.
    max.connections.per.ip.overrides STRING '' cluster-wide hosts
        Overrides of max.connections.per.ip for single addresses or host names, as host:number,...
    max.incremental.fetch.session.cache.slots INT 1000 read-only 0..
        Maximum number of incremental fetch sessions.
    max.request.partition.size.limit INT 2000 read-only 1..
        Maximum number of partitions in one DescribeTopicPartitions response.
    metadata.log.dir STRING null read-only
        The directory of the metadata log; by default the first of log.dirs.
    metadata.log.max.record.bytes.between.snapshots LONG 20971520 read-only 1..
        Bytes of new metadata records after which a snapshot is taken.
    metadata.log.max.snapshot.interval.ms LONG 3600000 read-only 0..
        Time after which a snapshot is taken if there are new metadata records; 0 sets no limit.
    metadata.log.segment.bytes INT 1073741824 read-only 8388608..
        The size at which a segment of the metadata log rolls.
    metadata.log.segment.ms LONG 604800000 read-only
        The age at which a segment of the metadata log rolls.
    metadata.max.retention.bytes LONG 104857600 read-only
        Size of metadata log and snapshots above which the oldest are deleted; the last snapshot always stays.
    metadata.max.retention.ms LONG 604800000 read-only
        Age above which metadata snapshots, and the log before them, are deleted; the last snapshot always stays.
    node.id INT 1 read-only 0..
        The id of this node in its cluster.
    offset.metadata.max.bytes INT 4096 read-only
        Maximum size of the metadata that a consumer stores with an offset.
    offsets.commit.timeout.ms INT 5000 read-only 1..
        Time that an offset commit waits for its replicas.
    offsets.load.buffer.size INT 5242880 read-only 1..
        Bytes per read when the offsets of groups are loaded.
    offsets.retention.check.interval.ms LONG 600000 read-only 1..
        Interval of the check for expired offsets.
    offsets.retention.minutes INT 10080 read-only 1..
        Time for which the offsets of a group without members are kept.
    offsets.topic.compression.codec INT 0 read-only 0..4
        The codec of batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    offsets.topic.num.partitions INT 50 read-only 1..
        Number of partitions of __consumer_offsets; must not change once the topic exists.
    offsets.topic.replication.factor SHORT 3 read-only 1..
        Replication factor of __consumer_offsets; 1 for a broker that is its own only voter.
    offsets.topic.segment.bytes INT 104857600 read-only 1..
        The segment.bytes of __consumer_offsets.
    process.roles LIST broker,controller read-only broker,controller
        The roles of this process: broker, controller, or both.
    queued.max.request.bytes LONG -1 read-only
        Maximum bytes of requests that are incomplete or wait to be handled; no limit if negative. Requests before an authentication by SASL have a limit of their own: 32 MB, or this if it is less.
    socket.listen.backlog.size INT 50 read-only 1..
        Maximum number of connections that wait to be accepted; 4096 if not set.
    socket.receive.buffer.bytes INT 102400 read-only
        Size of the receive buffer of clients' connections; the system's default if -1 or, unless SASL sessions end, not set.
    socket.request.max.bytes INT 104857600 read-only 1..
        Maximum size of a request; a larger one closes its connection.
    metrics.num.samples INT 2 read-only 1..
        Number of samples of the rates of authentications.
    metrics.sample.window.ms LONG 30000 read-only 1..
        Length of one of these samples.
    socket.send.buffer.bytes INT 102400 read-only
        Size of the send buffer of clients' connections; the system's default if not set or -1.
    telemetry.max.bytes INT 1048576 read-only 1..
        Maximum size of the metrics in one push of a client, compressed and uncompressed.
    """,  # noqa: E501
)
