import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Apache Kafka's clients on secured listeners: jobs as programs/secure_client.py describes them. */
public class Secure {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration PACE = Duration.ofMillis(30);
    private static final long PATIENCE_MS = 20_000;

    public static void main(String[] arguments) throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (JsonNode job : JSON.readTree(new BufferedReader(new InputStreamReader(System.in)).readLine())) {
            Thread thread = new Thread(() -> run(job));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.exit(0);
    }

    private static void run(JsonNode job) {
        List<String> values = new ArrayList<>();
        Map<String, Object> end = new HashMap<>();
        end.put("job", job.get("name").asText());
        end.put("values", values);
        end.put("error", null);
        try {
            work(job, values);
        } catch (Exception error) {
            StringBuilder text = new StringBuilder();
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                text.append(cause).append("; ");
            }
            end.put("error", text.toString());
        }
        print(end);
    }

    private static synchronized void print(Map<String, Object> line) {
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static Properties settings(JsonNode job) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", job.get("bootstrap").asText());
        settings.put("client.id", job.get("name").asText());
        settings.put("security.protocol", job.get("protocol").asText());
        if (job.get("protocol").asText().endsWith("SSL")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", job.get("trusted").asText());
        }
        if (!job.get("identity").asText().isEmpty()) {
            settings.put("ssl.keystore.type", "PEM");
            settings.put("ssl.keystore.location", job.get("identity").asText());
        }
        String mechanism = job.get("mechanism").asText();
        String security = "org.apache.kafka.common.security.";
        if (mechanism.equals("OAUTHBEARER")) {
            settings.put("sasl.jaas.config", security + "oauthbearer.OAuthBearerLoginModule required;");
            settings.put("sasl.login.callback.handler.class", security + "oauthbearer.OAuthBearerLoginCallbackHandler");
            settings.put("sasl.oauthbearer.token.endpoint.url", job.get("token_url").asText());
        } else if (!mechanism.isEmpty()) {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            settings.put("sasl.jaas.config", security + module + " required username=\"" + job.get("user").asText()
                + "\" password=\"" + job.get("password").asText() + "\";");
        }
        if (!mechanism.isEmpty()) {
            settings.put("sasl.mechanism", mechanism);
        }
        return settings;
    }

    private static boolean hasNext(JsonNode job, int number) {
        JsonNode records = job.get("records");
        return records.isNull() ? !Files.exists(Path.of(job.get("stop").asText())) : number < records.asInt();
    }

    private static void work(JsonNode job, List<String> values) throws Exception {
        String topic = job.get("topic").asText();
        Properties settings = settings(job);
        settings.put("max.block.ms", String.valueOf(PATIENCE_MS));
        List<Future<?>> sent = new ArrayList<>();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
             var consumer = new KafkaConsumer<>(settings(job), new StringDeserializer(), new StringDeserializer())) {
            var partition = List.of(new TopicPartition(topic, 0));
            for (int number = 0; hasNext(job, number); number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, String.valueOf(number))));
                if (number == 0) {
                    sent.get(0).get();
                    consumer.assign(partition);
                    consumer.seekToBeginning(partition);
                }
                read(job, consumer, values);
            }
            for (Future<?> one : sent) {
                one.get();
            }
            long late = System.currentTimeMillis() + PATIENCE_MS;
            while (values.size() < sent.size() && System.currentTimeMillis() < late) {
                read(job, consumer, values);
            }
        }
    }

    private static void read(JsonNode job, KafkaConsumer<String, String> consumer, List<String> values) {
        boolean wasRunning = !values.isEmpty();
        consumer.poll(PACE).forEach(record -> values.add(record.value()));
        if (!wasRunning && !values.isEmpty()) {
            print(Map.of("job", job.get("name").asText(), "running", true));
        }
    }
}
