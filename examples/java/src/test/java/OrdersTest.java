import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.junit.jupiter.api.Test;

class OrdersTest {
    private static final String BROKERS = System.getenv("KAFKA_BOOTSTRAP_SERVERS");

    @Test
    void ordersArriveInTheirOrder() throws Exception {
        try (var admin = Admin.create(Map.of("bootstrap.servers", BROKERS))) {
            admin.createTopics(List.of(new NewTopic("orders", 1, (short) -1))).all().get();
        }
        try (var producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", BROKERS), new StringSerializer(), new StringSerializer())) {
            for (var order : List.of("one", "two", "three")) {
                producer.send(new ProducerRecord<>("orders", "customer", order));
            }
        }
        Map<String, Object> settings =
                Map.of("bootstrap.servers", BROKERS, "group.id", "billing", "auto.offset.reset", "earliest");
        var received = new ArrayList<String>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("orders"));
            while (received.size() < 3) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> received.add(record.value()));
            }
        }
        assertEquals(List.of("one", "two", "three"), received);
    }
}
