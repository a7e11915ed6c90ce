import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads topics of one partition from start to end, at either isolation level: arguments are the broker and the topics.
 * Prints a line for each record: isolation level, topic, offset, timestamp, key, value and each header's key and value,
 * bytes in hexadecimal.
 */
public class ReadAll {
    public static void main(String[] arguments) {
        List<String> topics = List.of(arguments).subList(1, arguments.length);
        for (String isolation : List.of("read_uncommitted", "read_committed")) {
            read(arguments[0], isolation, topics);
        }
    }

    private static void read(String bootstrap, String isolation, List<String> topics) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", isolation);
        properties.put("enable.auto.commit", "false");
        var bytes = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<byte[], byte[]>(properties, bytes, bytes)) {
            for (String topic : topics) {
                List<TopicPartition> partition = Collections.singletonList(new TopicPartition(topic, 0));
                consumer.assign(partition);
                consumer.seekToBeginning(partition);
                Map<TopicPartition, Long> end = consumer.endOffsets(partition);
                while (consumer.position(partition.get(0)) < end.get(partition.get(0))) {
                    for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                        print(isolation, record);
                    }
                }
            }
        }
    }

    private static void print(String isolation, ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder(isolation);
        line.append(' ').append(record.topic()).append(' ').append(record.offset()).append(' ').append(record.timestamp());
        line.append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
        for (Header header : record.headers()) {
            line.append(' ').append(header.key()).append(' ').append(hex(header.value()));
        }
        System.out.println(line);
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "x" + java.util.HexFormat.of().formatHex(bytes);
    }
}
