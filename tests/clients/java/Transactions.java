import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's clients behind the command `transactions` of programs/exchange.py. */
public class Transactions {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final KafkaProducer<String, String> producer;
    private final Properties consumerSettings = new Properties();
    private final String input;
    private KafkaConsumer<String, String> consumer;

    private Transactions(String bootstrap, String id, String timeoutMs, String group, String input) {
        this.input = input;
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", timeoutMs);
        // The producer requires a delivery time-out of at least linger.ms + request.timeout.ms.
        producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        consumerSettings.put("bootstrap.servers", bootstrap);
        consumerSettings.put("group.id", group);
        consumerSettings.put("auto.offset.reset", "earliest");
        consumerSettings.put("enable.auto.commit", "false");
        consumerSettings.put("isolation.level", "read_committed");
    }

    public static void main(String[] arguments) throws Exception {
        var transactions = new Transactions(arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("done", transactions.run(JSON.readTree(line)));
            } catch (Exception error) {
                answer.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        if (transactions.consumer != null) {
            transactions.consumer.close();
        }
        System.exit(0);
    }

    private Object run(JsonNode step) throws Exception {
        switch (step.get(0).asText()) {
            case "init" -> producer.initTransactions();
            case "begin" -> producer.beginTransaction();
            case "send" -> send(step.get(1).asText(), step.get(2).asInt(), step.get(3).asText());
            case "pipe" -> {
                return pipe(step.get(1).asInt(), step.get(2).asText());
            }
            case "commit" -> producer.commitTransaction();
            case "abort" -> producer.abortTransaction();
            default -> throw new IllegalArgumentException(step.toString());
        }
        return null;
    }

    private void send(String topic, int partition, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, null, value)).get();
    }

    private List<String> pipe(int count, String topic) throws Exception {
        consumer = new KafkaConsumer<>(consumerSettings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(input));
        List<String> values = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        while (values.size() < count) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                values.add(record.value());
                var partition = new TopicPartition(record.topic(), record.partition());
                offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
            }
        }
        for (String value : values) {
            send(topic, 0, value);
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        return values;
    }
}
