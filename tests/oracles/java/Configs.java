import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints every configuration of brokers and topics: set, name, type, default, how it can be altered; and synonyms. */
public class Configs {
    public static void main(String[] arguments) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF, DynamicBrokerConfig.dynamicConfigUpdateModes());
        print("topic", LogConfig.configDefCopy(), Map.of());
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            System.out.print("synonyms\t" + name);
            synonyms.forEach(synonym ->
                System.out.print("\t" + synonym.name() + "\t" + synonym.converter().apply("1")));
            System.out.println();
        });
    }

    private static void print(String set, ConfigDef definitions, Map<String, String> modes) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values()) {
            if (key.internalConfig) {
                continue;
            }
            Object value = key.defaultValue;
            String text = value == ConfigDef.NO_DEFAULT_VALUE ? "required"
                : value == null ? "none" : "=" + ConfigDef.convertToString(value, key.type);
            System.out.println(String.join("\t", set, key.name, key.type.name(), text,
                modes.getOrDefault(key.name, "read-only")));
        }
    }
}
