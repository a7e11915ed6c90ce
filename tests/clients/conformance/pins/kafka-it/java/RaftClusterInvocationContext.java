package org.apache.kafka.common.test.junit;

import java.util.List;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.junit.jupiter.api.extension.AfterTestExecutionCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.opentest4j.TestAbortedException;

/**
 * One run of a test on one configuration of a cluster.
 *
 * <p>Stands before Apache Kafka's class of this name on the classpath. That one starts a cluster inside the virtual
 * machine; this one has it started by {@link ExternalCluster}.
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {

    private final String name;
    private final ClusterConfig config;
    private final boolean combined;

    public RaftClusterInvocationContext(String name, ClusterConfig config, boolean combined) {
        this.name = name;
        this.config = config;
        this.combined = combined;
    }

    @Override
    public String getDisplayName(int invocation) {
        return name + " [" + invocation + "] " + String.join(", ", config.displayTags());
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        ExternalCluster cluster = new ExternalCluster(config, combined ? Type.CO_KRAFT : Type.KRAFT);
        BeforeEachCallback before = test -> {
            if (combined && config.clusterTypes().contains(Type.KRAFT)) {
                throw new TestAbortedException("runs already: to a client, controllers in brokers are no difference");
            }
            if (config.brokerSecurityProtocol() != SecurityProtocol.PLAINTEXT) {
                throw new TestAbortedException("needs a listener of " + config.brokerSecurityProtocol());
            }
            if (config.isAutoStart()) {
                cluster.start();
            }
        };
        AfterTestExecutionCallback after = test -> cluster.stop();
        return List.of(before, after, new ClusterInstanceParameterResolver(cluster));
    }
}
