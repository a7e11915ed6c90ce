import java.time.Duration;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.streams.tests.SmokeTestDriver;
import org.apache.kafka.streams.tests.SmokeTestUtil.VerificationResult;

/**
 * What "run" of Kafka Streams' StreamsSmokeTest does, with figures of the caller's: produce numbers to the topics "data"
 * and "fk" evenly over a time, then verify what the application has written to its output topics. The first pass waits
 * until all output is there; the second one also verifies that no transaction is open. A single pass could compare the
 * offsets of a partition that gets the last marker between the two requests.
 *
 * Usage: SmokeDriver BOOTSTRAP KEYS RECORDS_OF_A_KEY SECONDS. The status is 1 unless the output is as it has to be.
 */
public final class SmokeDriver {
    public static void main(String[] arguments) {
        String bootstrap = arguments[0];
        int keys = Integer.parseInt(arguments[1]);
        int records = Integer.parseInt(arguments[2]);
        Duration time = Duration.ofSeconds(Long.parseLong(arguments[3]));
        Map<String, Set<Integer>> produced = SmokeTestDriver.generate(bootstrap, keys, records, time);
        VerificationResult verified = SmokeTestDriver.verify(bootstrap, produced, records, false);
        System.out.println(verified.result());
        if (verified.passed()) {
            verified = SmokeTestDriver.verify(bootstrap, produced, records, true);
            System.out.println(verified.result());
        }
        System.exit(verified.passed() ? 0 : 1);
    }

    private SmokeDriver() {}
}
