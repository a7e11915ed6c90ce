"""The broker's configurations of identity, listeners, requests, metadata and groups."""

from __future__ import annotations

from controller.configs.definition import ConfigDef, ConfigType, UpdateMode, at_least, one_of, subset_of

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _LIST = ConfigType.LONG, ConfigType.LIST
_MAX_INT = str((1 << 31) - 1)

SERVER_CONFIGS = (
    ConfigDef(
        "advertised.listeners",
        _LIST,
        None,
        "The addresses that clients are told to connect to, as name://host:port; the listeners themselves by default.",
    ),
    ConfigDef(
        "broker.rack",
        _STRING,
        None,
        "The rack of this broker. Replicas of a partition are spread over racks.",
    ),
    ConfigDef(
        "connections.max.idle.ms",
        _LONG,
        "600000",
        "The time after which a connection without requests is closed.",
    ),
    ConfigDef(
        "controller.listener.names",
        _LIST,
        "CONTROLLER",
        "The listeners that belong to the controller and are never advertised to clients.",
    ),
    ConfigDef(
        "controller.quorum.voters",
        _LIST,
        "",
        "The voters of a quorum that never changes, as id@host:port. A broker that is its own only voter needs none.",
    ),
    ConfigDef(
        "fetch.max.bytes",
        _INT,
        "57671680",
        "The most bytes that one fetch returns, whatever the client asks for; the first batch is always whole.",
        at_least(1024),
    ),
    ConfigDef(
        "group.initial.rebalance.delay.ms",
        _INT,
        "3000",
        "How long an empty group waits for more members before its first rebalance.",
    ),
    ConfigDef(
        "group.max.session.timeout.ms",
        _INT,
        "1800000",
        "The longest session time-out that a member of a group may ask for.",
    ),
    ConfigDef(
        "group.max.size",
        _INT,
        _MAX_INT,
        "The most members that one group may have.",
        at_least(1),
    ),
    ConfigDef(
        "group.min.session.timeout.ms",
        _INT,
        "6000",
        "The shortest session time-out that a member of a group may ask for.",
    ),
    ConfigDef(
        "inter.broker.listener.name",
        _STRING,
        None,
        "The listener on which brokers talk to each other; by default the one of security.inter.broker.protocol.",
    ),
    ConfigDef(
        "listener.security.protocol.map",
        _STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener, as name:protocol.",
        update_mode=UpdateMode.PER_BROKER,
    ),
    ConfigDef(
        "listeners",
        _LIST,
        "PLAINTEXT://:9092",
        "The addresses that the broker listens on, as name://host:port. Port 0 takes any free port.",
        update_mode=UpdateMode.PER_BROKER,
    ),
    ConfigDef(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        "1000",
        "How many incremental fetch sessions are remembered.",
        at_least(0),
    ),
    ConfigDef(
        "max.request.partition.size.limit",
        _INT,
        "2000",
        "The most partitions that one answer to DescribeTopicPartitions contains.",
        at_least(1),
    ),
    ConfigDef(
        "metadata.log.dir",
        _STRING,
        None,
        "The directory of the metadata log; by default the first of log.dirs.",
    ),
    ConfigDef(
        "metadata.log.max.record.bytes.between.snapshots",
        _LONG,
        "20971520",
        "The bytes of metadata records after which a snapshot is taken.",
        at_least(1),
    ),
    ConfigDef(
        "metadata.log.max.snapshot.interval.ms",
        _LONG,
        "3600000",
        "The time after which a snapshot is taken when there are new metadata records; 0 sets no limit.",
        at_least(0),
    ),
    ConfigDef(
        "metadata.log.segment.bytes",
        _INT,
        "1073741824",
        "The size at which a new segment of the metadata log is begun.",
        at_least(8388608),
    ),
    ConfigDef(
        "metadata.log.segment.ms",
        _LONG,
        "604800000",
        "The time after which a new segment of the metadata log is begun.",
    ),
    ConfigDef(
        "metadata.max.retention.bytes",
        _LONG,
        "104857600",
        "The size of metadata log and snapshots beyond which the oldest go; the last snapshot always stays.",
    ),
    ConfigDef(
        "metadata.max.retention.ms",
        _LONG,
        "604800000",
        "The age beyond which old metadata snapshots, and the log before them, go; the last snapshot always stays.",
    ),
    ConfigDef(
        "node.id",
        _INT,
        "1",
        "The number of this node in its cluster.",
        at_least(0),
    ),
    ConfigDef(
        "offset.metadata.max.bytes",
        _INT,
        "4096",
        "The longest text that a consumer may store with an offset.",
    ),
    ConfigDef(
        "offsets.commit.timeout.ms",
        _INT,
        "5000",
        "How long a commit of offsets waits for its replicas.",
        at_least(1),
    ),
    ConfigDef(
        "offsets.retention.check.interval.ms",
        _LONG,
        "600000",
        "How often groups are searched for expired offsets.",
        at_least(1),
    ),
    ConfigDef(
        "offsets.retention.minutes",
        _INT,
        "10080",
        "How long the offsets of a group without members are kept.",
        at_least(1),
    ),
    ConfigDef(
        "offsets.topic.num.partitions",
        _INT,
        "50",
        "The partitions of the topic of consumer groups; not to be changed once it exists.",
        at_least(1),
    ),
    ConfigDef(
        "offsets.topic.replication.factor",
        ConfigType.SHORT,
        "3",
        "The replicas of the topic of consumer groups. A broker that is its own only voter makes do with one.",
        at_least(1),
    ),
    ConfigDef(
        "offsets.topic.segment.bytes",
        _INT,
        "104857600",
        "The segment.bytes of the topic of consumer groups.",
        at_least(1),
    ),
    ConfigDef(
        "process.roles",
        _LIST,
        "broker,controller",
        "What this process is: a broker, a controller, or both.",
        subset_of("broker", "controller"),
    ),
    ConfigDef(
        "security.inter.broker.protocol",
        _STRING,
        "PLAINTEXT",
        "The security protocol between brokers, where inter.broker.listener.name is not set.",
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    ),
    ConfigDef(
        "socket.request.max.bytes",
        _INT,
        "104857600",
        "The largest request that is read; a larger one closes its connection.",
        at_least(1),
    ),
)
