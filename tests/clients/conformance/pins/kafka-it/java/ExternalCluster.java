package org.apache.kafka.common.test.junit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeFeaturesOptions;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.FinalizedVersionRange;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.apache.kafka.test.TestUtils;
import org.opentest4j.TestAbortedException;

/**
 * A cluster that another program runs, seen as the tests see theirs.
 *
 * <p>{@code EXT_CMD DIR BROKERS PROPERTIES} starts it, prints its bootstrap servers as its first line, and is killed
 * after the test; in between it stops and starts single brokers when it reads {@code stop ID} or {@code start ID}, and
 * answers with a line. All that is known of the cluster is asked through an admin client; a test that reaches for more of
 * a server's objects than {@link ExternalBroker} has is aborted.
 *
 * <p>Where {@code EXT_MAX_BROKERS} is less than a test asks for, it gets as many, and as many replicas of its topics:
 * most of these tests ask for three brokers and are as good with one.
 */
public final class ExternalCluster implements ClusterInstance {

    private static final long PATIENCE_MS = 30_000;

    private final ClusterConfig config;
    private final Type type;
    private final int brokers;
    private final Map<Integer, KafkaBroker> brokersById = new TreeMap<>();
    private final Set<Integer> stoppedBrokers = ConcurrentHashMap.newKeySet();
    private Process process;
    private BufferedReader answers;
    private String bootstrap;
    private boolean stopped;

    public ExternalCluster(ClusterConfig config, Type type) {
        this.config = config;
        this.type = type;
        this.brokers = Math.min(config.numBrokers(), Integer.parseInt(System.getenv("EXT_MAX_BROKERS")));
    }

    @Override
    public synchronized void start() {
        if (process != null) {
            return;
        }
        try {
            Path directory = Files.createTempDirectory("external-cluster");
            Path properties = store(directory.resolve("server.properties"), config.serverProperties());
            for (Map.Entry<Integer, Map<String, String>> one : config.perServerOverrideProperties().entrySet()) {
                store(directory.resolve("server-" + one.getKey() + ".properties"), one.getValue());
            }
            String count = Integer.toString(brokers);
            process = new ProcessBuilder(System.getenv("EXT_CMD"), directory.toString(), count, properties.toString())
                .redirectError(directory.resolve("stderr.log").toFile())
                .start();
            answers = new BufferedReader(new InputStreamReader(process.getInputStream()));
            bootstrap = answers.readLine();
            if (bootstrap == null) {
                String said = Files.readString(directory.resolve("stderr.log")).strip();
                throw new IllegalStateException("the cluster did not start: " + said);
            }
            for (int id = 0; id < brokers; id++) {
                brokersById.put(id, new ExternalBroker(this, id, directory.resolve("data-" + id)).standIn());
            }
            waitForReadyBrokers();
            setFeatures();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Features have the level that the test asks for on every broker, as far as the brokers know them. */
    private void setFeatures() throws InterruptedException {
        Map<String, Short> levels = new TreeMap<>();
        Set<String> known = ask(admin -> admin.describeFeatures().featureMetadata().get()).supportedFeatures().keySet();
        config.features().forEach((feature, level) -> {
            if (known.contains(feature.featureName()) && level != finalized(feature.featureName(), 0)) {
                levels.put(feature.featureName(), level);
            }
        });
        if (levels.isEmpty()) {
            return;
        }
        Map<String, FeatureUpdate> updates = new TreeMap<>();
        levels.forEach((name, level) -> updates.put(name, new FeatureUpdate(level, level < finalized(name, 0)
            ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE
            : FeatureUpdate.UpgradeType.UPGRADE)));
        ask(admin -> admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get());
        until("all brokers have " + levels, () -> brokersById.keySet().stream().allMatch(broker ->
            levels.entrySet().stream().allMatch(one -> finalized(one.getKey(), broker) == one.getValue())));
    }

    private short finalized(String feature, int broker) {
        FinalizedVersionRange level = ask(admin -> admin.describeFeatures(new DescribeFeaturesOptions().nodeId(broker))
            .featureMetadata().get().finalizedFeatures().get(feature));
        return level == null ? 0 : level.maxVersionLevel();
    }

    private static Path store(Path file, Map<String, String> settings) throws IOException {
        Properties properties = new Properties();
        properties.putAll(settings);
        try (OutputStream out = Files.newOutputStream(file)) {
            properties.store(out, null);
        }
        return file;
    }

    @Override
    public boolean started() {
        return process != null;
    }

    @Override
    public synchronized void stop() {
        stopped = true;
        if (process == null) {
            return;
        }
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
        }
    }

    @Override
    public boolean stopped() {
        return stopped;
    }

    @Override
    public Type type() {
        return type;
    }

    @Override
    public ClusterConfig config() {
        return config;
    }

    @Override
    public String bootstrapServers() {
        return bootstrap;
    }

    @Override
    public ListenerName clientListener() {
        return config.brokerListenerName();
    }

    @Override
    public ListenerName controllerListenerName() {
        return config.controllerListenerName();
    }

    @Override
    public List<Integer> brokerBoundPorts() {
        return Arrays.stream(bootstrap.split(",")).map(one -> Integer.valueOf(one.replaceFirst(".*:", ""))).toList();
    }

    @Override
    public String clusterId() {
        return ask(admin -> admin.describeCluster().clusterId().get());
    }

    @Override
    public Set<Integer> brokerIds() {
        return ask(admin -> admin.describeCluster().nodes().get()).stream().map(Node::id).collect(Collectors.toSet());
    }

    /** The new protocol counts from the day on which the cluster has it. */
    @Override
    public Set<GroupProtocol> supportedGroupProtocols() {
        Map<String, FinalizedVersionRange> features =
            ask(admin -> admin.describeFeatures().featureMetadata().get().finalizedFeatures());
        FinalizedVersionRange groups = features.get("group.version");
        return groups != null && groups.maxVersionLevel() > 0
            ? EnumSet.of(GroupProtocol.CLASSIC, GroupProtocol.CONSUMER)
            : EnumSet.of(GroupProtocol.CLASSIC);
    }

    @Override
    public void waitForReadyBrokers() throws InterruptedException {
        until("all brokers are there", () -> brokerIds().size() >= brokers);
    }

    @Override
    public void createTopic(String topic, int partitions, short replicas) throws InterruptedException {
        createTopic(topic, partitions, replicas, Map.of());
    }

    @Override
    public void createTopic(String topic, int partitions, short replicas, Map<String, String> settings)
        throws InterruptedException {
        NewTopic created = new NewTopic(topic, partitions, (short) Math.min(replicas, brokers)).configs(settings);
        ask(admin -> admin.createTopics(List.of(created)).all().get());
        waitTopicCreation(topic, partitions);
    }

    @Override
    public void createTopicWithAssignment(String topic, Map<Integer, List<Integer>> assignment)
        throws InterruptedException {
        ask(admin -> admin.createTopics(List.of(new NewTopic(topic, assignment))).all().get());
        waitTopicCreation(topic, assignment.size());
    }

    @Override
    public void waitTopicCreation(String topic, int partitions) throws InterruptedException {
        until(topic + " is there", () -> {
            TopicDescription seen = describe(topic).orElse(null);
            return seen != null
                && seen.partitions().size() == partitions
                && seen.partitions().stream().allMatch(one -> one.leader() != null && !one.leader().isEmpty());
        });
    }

    private Optional<TopicDescription> describe(String topic) throws InterruptedException, ExecutionException {
        try (Admin admin = admin()) {
            return Optional.of(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic));
        } catch (ExecutionException e) {
            if (e.getCause() instanceof UnknownTopicOrPartitionException) {
                return Optional.empty();
            }
            throw e;
        }
    }

    @Override
    public void waitTopicDeletion(String topic) throws InterruptedException {
        until(topic + " is gone", () -> !ask(admin -> admin.listTopics().names().get()).contains(topic));
    }

    @Override
    public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> entries) throws InterruptedException {
        until("the entries are there", () -> ask(admin -> admin.describeAcls(filter).values().get()).stream()
            .map(AclBinding::entry)
            .collect(Collectors.toSet())
            .equals(new HashSet<>(entries)));
    }

    /** What clients are told is all there is to agree on. */
    @Override
    public void ensureConsistentMetadata() {
    }

    @Override
    public Optional<FaultHandlerException> firstFatalException() {
        return Optional.empty();
    }

    @Override
    public Optional<FaultHandlerException> firstNonFatalException() {
        return Optional.empty();
    }

    @Override
    public Map<Integer, KafkaBroker> brokers() {
        return brokersById;
    }

    @Override
    public Map<Integer, ControllerServer> controllers() {
        throw inside("a controller's objects");
    }

    @Override
    public List<Authorizer> authorizers() {
        throw inside("an authorizer");
    }

    @Override
    public Set<Integer> controllerIds() {
        throw inside("the controllers' ids");
    }

    @Override
    public String bootstrapControllers() {
        throw inside("the controllers' addresses");
    }

    @Override
    public void shutdownBroker(int broker) {
        if (stoppedBrokers.add(broker)) {
            tell("stop " + broker);
        }
    }

    /** The broker is on its way: where every controller was stopped, one alone cannot be ready. */
    @Override
    public void startBroker(int broker) {
        tell("start " + broker);
        stoppedBrokers.remove(broker);
    }

    /** The broker with a configuration that a test has made for it. */
    public KafkaBroker broker(KafkaConfig config) {
        return new ExternalBroker(this, config.brokerId(), Path.of(config.logDirs().get(0))).standIn(config);
    }

    /** A stopped broker is started, and is back where a majority of the controllers runs. */
    void restartBroker(int broker) {
        if (!isStopped(broker)) {
            return;
        }
        startBroker(broker);
        if (stoppedBrokers.size() * 2 >= brokers) {
            return;
        }
        try {
            until(broker + " is back", () -> brokerIds().contains(broker));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    boolean isStopped(int broker) {
        return stoppedBrokers.contains(broker);
    }

    private synchronized void tell(String command) {
        try {
            process.getOutputStream().write((command + "\n").getBytes());
            process.getOutputStream().flush();
            if (answers.readLine() == null) {
                throw new IllegalStateException("the cluster has ended");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    boolean hasReplica(int broker, TopicPartition partition) {
        return ask(admin -> admin.describeLogDirs(List.of(broker)).allDescriptions().get()).get(broker).values().stream()
            .anyMatch(directory -> directory.replicaInfos().containsKey(partition));
    }

    Optional<Integer> numPartitions(String topic) {
        return described(topic).map(seen -> seen.partitions().size());
    }

    OptionalInt leader(TopicPartition partition) {
        return described(partition).map(TopicPartitionInfo::leader).filter(leader -> !leader.isEmpty()).stream()
            .mapToInt(Node::id)
            .findFirst();
    }

    List<Integer> inSync(TopicPartition partition) {
        return described(partition).stream().flatMap(one -> one.isr().stream()).map(Node::id).toList();
    }

    private Optional<TopicPartitionInfo> described(TopicPartition partition) {
        return described(partition.topic()).stream()
            .flatMap(topic -> topic.partitions().stream())
            .filter(one -> one.partition() == partition.partition())
            .findFirst();
    }

    private Optional<TopicDescription> described(String topic) {
        try {
            return describe(topic);
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }

    long logStartOffset(TopicPartition partition) {
        return ask(admin -> admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get()).get(partition).offset();
    }

    List<ProducerState> producers(int broker, TopicPartition partition) {
        return ask(admin -> admin.describeProducers(List.of(partition), new DescribeProducersOptions().brokerId(broker))
            .all().get()).get(partition).activeProducers();
    }

    String brokerSetting(int broker, String name) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(broker));
        return ask(admin -> admin.describeConfigs(List.of(resource)).all().get()).get(resource).get(name).value();
    }

    private static TestAbortedException inside(String what) {
        return new TestAbortedException("needs " + what);
    }

    private static void until(String condition, Callable<Boolean> holds) throws InterruptedException {
        TestUtils.waitForCondition(holds::call, PATIENCE_MS, condition);
    }

    private interface Question<T> {
        T to(Admin admin) throws InterruptedException, ExecutionException;
    }

    private <T> T ask(Question<T> question) {
        try (Admin admin = admin()) {
            return question.to(admin);
        } catch (InterruptedException | ExecutionException e) {
            throw new IllegalStateException(e);
        }
    }
}
