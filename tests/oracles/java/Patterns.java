import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/**
 * Reads lines: "P" and a pattern, or "T" and a text for the pattern before; \u0001 stands for a newline. Prints whether
 * each pattern is valid ("valid", "invalid"), and whether it matches each whole text ("true", "false").
 */
public class Patterns {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream printed = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Pattern pattern = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String rest = line.substring(1).replace('\u0001', '\n');
            if (line.charAt(0) == 'T') {
                printed.println(pattern != null && pattern.matcher(rest).matches());
                continue;
            }
            try {
                pattern = Pattern.compile(rest);
                printed.println("valid");
            } catch (PatternSyntaxException error) {
                pattern = null;
                printed.println("invalid");
            }
        }
        printed.flush();
    }
}
