package kafka.server;

import java.lang.reflect.Method;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Stream;
import kafka.integration.KafkaServerTestHarness;
import kafka.utils.Logging;
import kafka.utils.TestInfoUtils$;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.common.test.junit.ExternalCluster;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.Feature;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.opentest4j.TestAbortedException;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The brokers of one of Apache Kafka's integration tests in Scala.
 *
 * <p>Stands before Apache Kafka's class of this name on the classpath. That one starts controllers and brokers inside the
 * virtual machine; this one has an {@link ExternalCluster} started with the settings of the test's first broker.
 */
public abstract class QuorumTestHarness implements Logging {

    private static final List<String> OF_A_BROKER = List.of("node.id", "broker.id", "process.roles", "listeners",
        "advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name",
        "security.inter.broker.protocol", "log.dir", "log.dirs", "metadata.log.dir");

    /** The group protocols of the brokers, once some have run. */
    private static Set<GroupProtocol> groupProtocols = EnumSet.allOf(GroupProtocol.class);

    private TestInfo testInfo;
    private ExternalCluster cluster;
    private String logIdent = "";

    public static Stream<Arguments> getTestGroupProtocolParametersAll() {
        return Stream.of(Arguments.of("classic"), Arguments.of("consumer"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersClassicGroupProtocolOnly() {
        return Stream.of(Arguments.of("classic"));
    }

    public static Stream<Arguments> getTestGroupProtocolParametersConsumerGroupProtocolOnly() {
        return Stream.of(Arguments.of("consumer"));
    }

    @BeforeEach
    public void setUp(TestInfo testInfo) {
        this.testInfo = testInfo;
        checkGroupProtocol();
    }

    /** Where the brokers know classic groups only, a test with a run for these is not repeated for others. */
    private void checkGroupProtocol() {
        Option<GroupProtocol> protocol = maybeGroupProtocolSpecified();
        if (protocol.isDefined() && !groupProtocols.contains(protocol.get()) && hasClassicRun()) {
            throw new TestAbortedException("needs the group protocol " + protocol.get());
        }
    }

    private boolean hasClassicRun() {
        Method test = testInfo.getTestMethod().get();
        CsvSource rows = test.getAnnotation(CsvSource.class);
        MethodSource source = test.getAnnotation(MethodSource.class);
        return rows != null
            ? Stream.of(rows.value()).anyMatch(row -> row.startsWith("classic"))
            : source != null && List.of(source.value()).contains("getTestGroupProtocolParametersAll");
    }

    @AfterEach
    public void tearDown() {
        if (cluster != null) {
            cluster.stop();
        }
    }

    public KafkaBroker createBroker(KafkaConfig config, Time time, boolean startup, Option<String> threadNamePrefix) {
        if (cluster == null) {
            start();
        }
        return cluster.broker(config);
    }

    public Option<String> createBroker$default$4() {
        return Option.empty();
    }

    private void start() {
        List<KafkaConfig> brokers = CollectionConverters.asJava(((KafkaServerTestHarness) this).configs());
        Map<String, String> settings = new HashMap<>();
        brokers.get(0).originals().forEach((name, value) -> {
            if (!OF_A_BROKER.contains(name) && !name.startsWith("controller.")) {
                settings.put(name, value.toString());
            }
        });
        short transactions = (short) (TestInfoUtils$.MODULE$.isTransactionV2Enabled(testInfo) ? 2 : 1);
        cluster = new ExternalCluster(ClusterConfig.defaultBuilder()
            .setBrokers(brokers.size())
            .setServerProperties(settings)
            .setFeatures(Map.of(Feature.TRANSACTION_VERSION, transactions))
            .build(), Type.KRAFT);
        cluster.start();
        groupProtocols = cluster.supportedGroupProtocols();
        checkGroupProtocol();
    }

    public Option<GroupProtocol> maybeGroupProtocolSpecified() {
        return TestInfoUtils$.MODULE$.maybeGroupProtocolSpecified(testInfo);
    }

    public GroupProtocol groupProtocolFromTestParameters() {
        return maybeGroupProtocolSpecified().get();
    }

    /** There are none to ask for what the brokers have not got yet. */
    public scala.collection.Seq<ControllerServer> controllerServers() {
        return CollectionConverters.asScala(List.<ControllerServer>of());
    }

    public ControllerServer controllerServer() {
        throw new TestAbortedException("needs a controller's objects");
    }

    public scala.collection.Seq<Properties> kraftControllerConfigs(TestInfo testInfo) {
        return CollectionConverters.asScala(List.of(new Properties()));
    }

    public SecurityProtocol controllerListenerSecurityProtocol() {
        return SecurityProtocol.PLAINTEXT;
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String logIdent) {
        this.logIdent = logIdent;
    }
}
