package org.apache.kafka.common.test.junit;

import static org.mockito.Mockito.mock;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.stream.Collectors;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.BrokerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;
import scala.Option;

/**
 * A broker of an {@link ExternalCluster}, seen as the tests see theirs.
 *
 * <p>It can be stopped and started, and tells its id, port and directory, of which partitions it has a log, which it
 * leads, and which producers they have. Whatever else a test reaches for inside of a broker aborts it.
 */
final class ExternalBroker {

    private final ExternalCluster cluster;
    private final int id;
    private final Path directory;

    ExternalBroker(ExternalCluster cluster, int id, Path directory) {
        this.cluster = cluster;
        this.id = id;
        this.directory = directory;
    }

    KafkaBroker standIn() {
        return standIn(config());
    }

    /** A broker with the configuration that a test has made for it, in which only ports and directories are others. */
    KafkaBroker standIn(KafkaConfig config) {
        return standIn(BrokerServer.class, Map.ofEntries(
            Map.entry("config", asked -> config),
            Map.entry("boundPort", asked -> cluster.brokerBoundPorts().get(id)),
            Map.entry("logManager", asked -> logManager()),
            Map.entry("replicaManager", asked -> replicaManager()),
            Map.entry("metadataCache", asked -> metadataCache()),
            Map.entry("groupCoordinator", asked -> groupCoordinator()),
            Map.entry("brokerState",
                asked -> cluster.isStopped(id) ? BrokerState.SHUTTING_DOWN : BrokerState.RUNNING),
            Map.entry("isShutdown", asked -> cluster.isStopped(id)),
            Map.entry("shutdown", asked -> done(() -> cluster.shutdownBroker(id))),
            Map.entry("awaitShutdown", asked -> null),
            Map.entry("startup", asked -> done(() -> cluster.restartBroker(id)))
        ));
    }

    private static Object done(Runnable act) {
        act.run();
        return null;
    }

    private KafkaConfig config() {
        return standIn(KafkaConfig.class, Map.of(
            "brokerId", asked -> id,
            "nodeId", asked -> id,
            "logDirs", asked -> List.of(directory.toString())
        ));
    }

    private LogManager logManager() {
        return standIn(LogManager.class, Map.of(
            "getLog", asked -> log(asked.getArgument(0, TopicPartition.class)),
            "getLog$default$2", asked -> false,
            "producerStateManagerConfig", asked -> new ProducerStateManagerConfig(
                Integer.parseInt(cluster.brokerSetting(id, "producer.id.expiration.ms")), true)
        ));
    }

    private Option<UnifiedLog> log(TopicPartition partition) {
        if (!cluster.hasReplica(id, partition)) {
            return Option.empty();
        }
        return Option.apply(standIn(UnifiedLog.class, Map.of(
            "logStartOffset", asked -> cluster.logStartOffset(partition),
            "producerStateManager", asked -> standIn(ProducerStateManager.class, Map.of(
                "activeProducers", unused -> activeProducers(partition)
            ))
        )));
    }

    private Map<Long, ProducerStateEntry> activeProducers(TopicPartition partition) {
        return cluster.producers(id, partition).stream().collect(Collectors.toMap(
            one -> one.producerId(),
            one -> new ProducerStateEntry(one.producerId(), (short) one.producerEpoch(), one.coordinatorEpoch().orElse(-1),
                one.lastTimestamp(), one.currentTransactionStartOffset())));
    }

    private ReplicaManager replicaManager() {
        return standIn(ReplicaManager.class, Map.of(
            "localLog", asked -> log(asked.getArgument(0)),
            "onlinePartition", asked -> {
                TopicPartition partition = asked.getArgument(0);
                Option<UnifiedLog> log = log(partition);
                if (log.isEmpty()) {
                    return log;
                }
                boolean leads = cluster.leader(partition).equals(OptionalInt.of(id));
                return Option.apply(standIn(Partition.class, Map.of(
                    "leaderIdIfLocal", unused -> leads ? Option.apply(id) : Option.empty(),
                    "leaderLogIfLocal", unused -> leads ? log : Option.empty()
                )));
            }
        ));
    }

    private KRaftMetadataCache metadataCache() {
        return standIn(KRaftMetadataCache.class, Map.of(
            "numPartitions", asked -> cluster.numPartitions(asked.getArgument(0)),
            "getLeaderAndIsr", asked -> {
                TopicPartition partition = new TopicPartition(asked.getArgument(0), asked.getArgument(1));
                OptionalInt leader = cluster.leader(partition);
                return leader.isEmpty()
                    ? Optional.empty()
                    : Optional.of(new LeaderAndIsr(leader.getAsInt(), cluster.inSync(partition)));
            }
        ));
    }

    private static GroupCoordinator groupCoordinator() {
        return standIn(GroupCoordinator.class, Map.of("groupMetadataTopicConfigs", asked -> {
            Properties settings = new Properties();
            settings.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
            return settings;
        }));
    }

    private static <T> T standIn(Class<T> type, Map<String, Answer<?>> known) {
        return mock(type, asked -> {
            Answer<?> answer = known.get(asked.getMethod().getName());
            if (answer == null) {
                throw new TestAbortedException("needs " + asked.getMethod().getName() + " of " + type.getSimpleName());
            }
            return answer.answer(asked);
        });
    }
}
