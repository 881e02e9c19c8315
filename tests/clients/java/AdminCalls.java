import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Type;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.admin.PulsarAdminException;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.TxnID;
import org.apache.pulsar.client.impl.MessageIdImpl;
import org.apache.pulsar.common.util.ObjectMapperFactory;

/**
 * Makes calls of PulsarAdmin. A line of the file is the expected code, "interface.method" and a JSON array of
 * arguments. Prints for each "code TAB line" and the result as JSON after a bar; the code is 0, or the HTTP status of
 * the exception.
 */
final class AdminCalls {
    private static final ObjectMapper JSON = ObjectMapperFactory.create();

    public static void main(String[] args) throws Exception {
        Properties properties = new Properties();
        properties.load(new FileReader(args[0]));
        PrintStream out = System.out;
        // The client logs to the standard output.
        System.setOut(System.err);
        String service = properties.getProperty("brokerServiceUrl");
        var builder = PulsarAdmin.builder().serviceHttpUrl(properties.getProperty("webServiceUrl"));
        try (PulsarAdmin admin = builder.readTimeout(20, TimeUnit.SECONDS).build();
                PulsarClient client = PulsarClient.builder().serviceUrl(service).build()) {
            for (String line : Files.readAllLines(Path.of(args[1]))) {
                String[] words = line.split(" ", 3);
                JsonNode arguments = JSON.readTree(words[2]);
                int code = 0;
                Object result;
                try {
                    result = words[1].equals("send") ? send(client, arguments) : call(admin, words[1], arguments);
                } catch (PulsarAdminException error) {
                    code = error.getStatusCode();
                    result = error.getClass().getSimpleName();
                }
                out.println(code + "\t" + line);
                out.println("| " + JSON.writeValueAsString(described(result)));
            }
        }
        System.exit(0);
    }

    private static Object send(PulsarClient client, JsonNode arguments) throws Exception {
        try (var producer = client.newProducer().topic(arguments.get(0).asText()).enableBatching(false).create()) {
            for (int n = 0; n < arguments.get(1).asInt(); n++) {
                producer.send(("message " + n).getBytes());
            }
        }
        return null;
    }

    private static Object call(PulsarAdmin admin, String name, JsonNode arguments) throws Exception {
        String[] names = name.split("\\.");
        Object part = PulsarAdmin.class.getMethod(names[0]).invoke(admin);
        Class<?> type = PulsarAdmin.class.getMethod(names[0]).getReturnType();
        for (Method method : type.getMethods()) {
            Optional<Object[]> given = converted(method, names[1], arguments);
            if (given.isPresent()) {
                try {
                    Object result = method.invoke(part, given.get());
                    return result instanceof CompletableFuture<?> future ? future.get(20, TimeUnit.SECONDS) : result;
                } catch (InvocationTargetException | ExecutionException error) {
                    if (error.getCause() instanceof PulsarAdminException cause) {
                        throw cause;
                    }
                    throw new IllegalStateException(name + " " + arguments, error.getCause());
                }
            }
        }
        throw new IllegalArgumentException("no method for " + name + " " + arguments);
    }

    /** Returns the arguments as the method's types; empty if the method has another name or other types. */
    private static Optional<Object[]> converted(Method method, String name, JsonNode arguments) {
        Type[] types = method.getGenericParameterTypes();
        if (!method.getName().equals(name) || types.length != arguments.size()) {
            return Optional.empty();
        }
        Object[] given = new Object[types.length];
        for (int n = 0; n < types.length; n++) {
            Class<?> type = method.getParameterTypes()[n];
            JsonNode argument = arguments.get(n);
            boolean isText = argument.isTextual();
            boolean isNumber = type == int.class || type == long.class || Number.class.isAssignableFrom(type);
            boolean isId = type == MessageId.class || type == TxnID.class || type == Optional.class;
            if (isText != (type == String.class || type.isEnum() || isId)
                    || isNumber != argument.isNumber()
                    || argument.isBoolean() != (type == boolean.class || type == Boolean.class)) {
                return Optional.empty();
            }
            try {
                given[n] = isId ? id(type, argument.asText()) : JSON.convertValue(argument, JSON.constructType(types[n]));
            } catch (IllegalArgumentException error) {
                return Optional.empty();
            }
        }
        return Optional.of(given);
    }

    private static Object id(Class<?> type, String text) {
        if (type == Optional.class) {
            return text.isEmpty() ? Optional.empty() : Optional.of(text);
        }
        if (text.equals("earliest") || text.equals("latest")) {
            return text.equals("earliest") ? MessageId.earliest : MessageId.latest;
        }
        String[] parts = text.split(":");
        long first = Long.parseLong(parts[0]);
        long second = Long.parseLong(parts[1]);
        return type == TxnID.class ? new TxnID(first, second) : new MessageIdImpl(first, second, -1);
    }

    /** Returns what can be compared of a result: of a message its data. */
    private static Object described(Object result) {
        if (result instanceof Message<?> message) {
            return new String(message.getData());
        }
        if (result instanceof List<?> list) {
            List<Object> each = new ArrayList<>();
            list.forEach(one -> each.add(described(one)));
            return each;
        }
        return result instanceof MessageId ? result.toString() : result;
    }
}
