import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;

/**
 * A Kafka Streams application with two topologies: a word count from "lines" to "counts", with one output record for
 * each word of the input, and the join of the stream "orders" with the table "customers" to "joined".
 *
 * Usage: WordsAndOrders BOOTSTRAP STATE_DIR PROCESSING_GUARANTEE. SIGTERM closes it; after an error it ends with status 1.
 */
public final class WordsAndOrders {
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "words-and-orders");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(arguments[1]).toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[2]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // No cache: each update of a count is an output record.
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        // A killed instance loses its membership, and its open transaction, soon.
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 5000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 500);
        settings.put(StreamsConfig.producerPrefix("transaction.timeout.ms"), 5000);

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .mapValues(count -> count.toString())
            .to("counts");
        KTable<String, String> customers = builder.table("customers");
        KStream<String, String> orders = builder.stream("orders");
        orders.join(customers, (order, region) -> region + " " + order).to("joined");

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(1);
            }
        });
        streams.start();
    }

    private WordsAndOrders() {}
}
