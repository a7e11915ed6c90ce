import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints every configuration: set, name, type, default, update mode, whether it is internal; the synonyms; and
 * the result of parsing each of some texts (the arguments) as a value of each configuration.
 */
public class Configs {
    public static void main(String[] texts) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF, DynamicBrokerConfig.dynamicConfigUpdateModes(), texts);
        print("topic", LogConfig.configDefCopy(), Map.of(), texts);
        print("group", GroupConfig.CONFIG_DEF, Map.of(), texts);
        print("client metrics", ClientMetricsConfigs.configDef(), Map.of(), texts);
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) -> {
            System.out.print("synonyms\t" + name);
            synonyms.forEach(synonym ->
                System.out.print("\t" + synonym.name() + "\t" + synonym.converter().apply("1")));
            System.out.println();
        });
        GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.forEach((name, synonym) ->
            System.out.println("group synonym\t" + name + "\t" + synonym.orElse("none")));
    }

    private static void print(String set, ConfigDef definitions, Map<String, String> modes, String[] texts) {
        for (ConfigDef.ConfigKey key : definitions.configKeys().values()) {
            Object value = key.defaultValue;
            String text = value == ConfigDef.NO_DEFAULT_VALUE ? "required"
                : value == null ? "none" : "=" + ConfigDef.convertToString(value, key.type);
            System.out.println(String.join("\t", set, key.name, key.type.name(), text,
                modes.getOrDefault(key.name, "read-only"), key.internalConfig ? "internal" : "public"));
            for (String tried : key.type == ConfigDef.Type.CLASS ? new String[0] : texts) {
                System.out.println(String.join("\t", "tried", set, key.name, tried, becomes(key, tried)));
            }
        }
    }

    private static String becomes(ConfigDef.ConfigKey key, String text) {
        try {
            Object value = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, value);
            }
            return "=" + ConfigDef.convertToString(value, key.type);
        } catch (ConfigException e) {
            return e.getMessage();
        }
    }
}
