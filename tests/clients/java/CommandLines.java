import java.io.ByteArrayOutputStream;
import java.io.FileReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.pulsar.admin.cli.PulsarAdminTool;
import org.apache.pulsar.client.cli.PulsarClientTool;

/**
 * Runs command lines of pulsar-admin and pulsar-client in one process; each follows the expected code. Prints for
 * each "code TAB line", and the output of the command with a bar before each line.
 */
final class CommandLines {
    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileReader(args[0]));
        PrintStream out = System.out;
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            String[] words = line.split(" ", 3);
            String[] given = arguments(words[2]);
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true));
            int code = words[1].equals("pulsar-admin") ? admin(properties, given) : client(properties, given);
            System.setOut(out);
            out.println(code + "\t" + line);
            printed.toString().lines().forEach(each -> out.println("| " + each));
        }
        System.exit(0);
    }

    private static int admin(Properties properties, String[] arguments) throws Exception {
        // The method is not public; `main` ends the process.
        Method run = PulsarAdminTool.class.getDeclaredMethod("run", String[].class);
        run.setAccessible(true);
        return (boolean) run.invoke(new PulsarAdminTool(properties), (Object) arguments) ? 0 : 1;
    }

    private static int client(Properties properties, String[] arguments) throws Exception {
        return new PulsarClientTool(properties).run(arguments);
    }

    private static String[] arguments(String line) {
        List<String> words = new ArrayList<>();
        Matcher matcher = Pattern.compile("'([^']*)'|(\\S+)").matcher(line);
        while (matcher.find()) {
            words.add(matcher.group(1) != null ? matcher.group(1) : matcher.group(2));
        }
        return words.toArray(String[]::new);
    }
}
