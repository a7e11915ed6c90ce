package org.apache.kafka.common.test.junit;

import static org.mockito.Mockito.mock;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import kafka.cluster.Partition;
import kafka.log.LogManager;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;
import scala.Option;

/**
 * A broker of an {@link ExternalCluster}, seen as the tests see theirs.
 *
 * <p>It can be stopped and started, and tells its id, its directory, of which partitions it has a log, and which it
 * leads. Whatever else a test reaches for inside of a broker aborts it.
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
        return standIn(KafkaBroker.class, Map.of(
            "config", asked -> config(),
            "logManager", asked -> logManager(),
            "replicaManager", asked -> replicaManager(),
            "brokerState", asked -> cluster.isStopped(id) ? BrokerState.SHUTTING_DOWN : BrokerState.RUNNING,
            "isShutdown", asked -> cluster.isStopped(id),
            "shutdown", asked -> done(() -> cluster.shutdownBroker(id)),
            "awaitShutdown", asked -> null,
            "startup", asked -> done(() -> cluster.startBroker(id))
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
            "getLog", asked -> cluster.hasReplica(id, asked.getArgument(0, TopicPartition.class))
                ? Option.apply(standIn(UnifiedLog.class, Map.of()))
                : Option.empty()
        ));
    }

    private ReplicaManager replicaManager() {
        return standIn(ReplicaManager.class, Map.of("onlinePartition", asked -> {
            TopicPartition partition = asked.getArgument(0);
            if (!cluster.hasReplica(id, partition)) {
                return Option.empty();
            }
            Option<Object> leader = cluster.leads(id, partition) ? Option.apply(id) : Option.empty();
            return Option.apply(standIn(Partition.class, Map.of("leaderIdIfLocal", unused -> leader)));
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
