import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Prints the errors and encodings of Apache Kafka. First a line for each error: code, name, whether it is retriable;
 * an empty line; then, for each line of JSON with a "name", a "version" and a "message", its bytes in hexadecimal.
 */
public class Encode {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.raft.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        for (Errors error : Errors.values()) {
            System.out.println(error.code() + " " + error + " " + (error.exception() instanceof RetriableException));
        }
        System.out.println();
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = mapper.readTree(line);
            short version = asked.get("version").shortValue();
            Message message = (Message) converter(asked.get("name").textValue())
                .getMethod("read", JsonNode.class, short.class)
                .invoke(null, asked.get("message"), version);
            ByteBuffer encoded = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] bytes = new byte[encoded.remaining()];
            encoded.get(bytes);
            System.out.println(HexFormat.of().formatHex(bytes));
        }
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"", "Data"}) {
                try {
                    return Class.forName(prefix + name + suffix + "JsonConverter");
                } catch (ClassNotFoundException elsewhere) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
