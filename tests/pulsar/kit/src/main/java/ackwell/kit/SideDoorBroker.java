package ackwell.kit;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpServer;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.pulsar.PulsarStandalone;
import org.apache.pulsar.PulsarStandaloneStarter;
import org.apache.pulsar.broker.PulsarService;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.service.persistent.PersistentSubscription;
import org.apache.pulsar.broker.service.persistent.PersistentTopic;
import org.apache.pulsar.common.configuration.PulsarConfigurationLoader;

/**
 * Apache Pulsar standalone with a side door on the loopback to what it otherwise keeps to itself. With
 * {@code -Dackwell.cluster=true} it is one broker of a cluster, whose argument is its configuration.
 *
 * <p>{@code /cursor?topic=&sub=}: the cursor in memory ({@link CursorDump}). {@code /subscription?topic=&sub=}:
 * consumers and dispatcher too ({@link SubscriptionDump}). {@code /flush?topic=&sub=}: write the cursor.
 * {@code /forge?topic=&sub=&ledger=}: acknowledge five entries of a ledger that does not exist.
 * {@code /cancel-read?topic=&sub=}: cancel the cursor's waiting read without the dispatcher.
 * {@code /conf?name=value}: change settings, for topics loaded later. {@code /entry?ledger=}: the newest
 * entry of a ledger, raw. {@code /shutdown}: close the broker while the bookie still lives, as in production.
 */
public final class SideDoorBroker {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static PulsarService broker;

    private SideDoorBroker() {}

    @FunctionalInterface
    private interface Answer {
        Object to(Map<String, String> query) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.getInteger("ackwell.sideDoorPort");
        PulsarStandaloneStarter standalone = null;
        if (Boolean.getBoolean("ackwell.cluster")) {
            broker = new PulsarService(PulsarConfigurationLoader.create(arguments[0], ServiceConfiguration.class));
            broker.start();
        } else {
            standalone = new PulsarStandaloneStarter(arguments);
            standalone.start();
            broker = (PulsarService) CursorDump.find(PulsarStandalone.class, "broker").get(standalone);
        }
        PulsarStandaloneStarter started = standalone;
        HttpServer door = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 16);
        door.setExecutor(Executors.newFixedThreadPool(4));
        answer(door, "/ping", query -> "ok");
        answer(door, "/cursor", query -> CursorDump.of(cursor(query)));
        answer(door, "/subscription", query -> SubscriptionDump.of(subscription(query)));
        answer(door, "/conf", SideDoorBroker::set);
        answer(door, "/flush", query -> flush(cursor(query)));
        answer(door, "/forge", query -> forge(cursor(query), Long.parseLong(query.get("ledger"))));
        answer(door, "/cancel-read", query -> cursor(query).cancelPendingReadRequest());
        answer(door, "/entry", query -> lastEntry(Long.parseLong(query.get("ledger"))));
        answer(door, "/shutdown", query -> {
            new Thread(() -> shutDown(started)).start();
            return "ok";
        });
        door.start();
        Thread.currentThread().join();
    }

    private static ManagedCursorImpl cursor(Map<String, String> query) throws Exception {
        return (ManagedCursorImpl) subscription(query).getCursor();
    }

    private static PersistentSubscription subscription(Map<String, String> query) throws Exception {
        PersistentTopic topic = (PersistentTopic) broker.getBrokerService()
                .getTopic(query.get("topic"), false).get().orElseThrow();
        return topic.getSubscription(query.get("sub"));
    }

    /** Change settings of the running broker; the field's own type says how a value reads. */
    private static Map<String, String> set(Map<String, String> query) throws Exception {
        for (Map.Entry<String, String> setting : query.entrySet()) {
            Field field = CursorDump.find(ServiceConfiguration.class, setting.getKey());
            field.set(broker.getConfiguration(), JSON.convertValue(setting.getValue(), field.getType()));
        }
        return query;
    }

    private static String flush(ManagedCursorImpl cursor) throws Exception {
        var flush = ManagedCursorImpl.class.getDeclaredMethod("flush");
        flush.setAccessible(true);
        flush.invoke(cursor);
        return "ok";
    }

    /** Acknowledge the first entries of a ledger that does not exist, as if its metadata had been lost. */
    private static String forge(ManagedCursorImpl cursor, long ledgerId) throws Exception {
        Object ranges = CursorDump.field(cursor, "individualDeletedMessages");
        var add = ranges.getClass().getMethod("addOpenClosed", long.class, long.class, long.class, long.class);
        add.setAccessible(true);
        add.invoke(ranges, ledgerId, -1, ledgerId, 4);
        return "ok";
    }

    private static byte[] lastEntry(long ledgerId) throws Exception {
        ServiceConfiguration settings = broker.getConfiguration();
        try (LedgerHandle ledger = broker.getBookKeeperClient().openLedgerNoRecovery(ledgerId,
                BookKeeper.DigestType.fromApiDigestType(settings.getManagedLedgerDigestType()),
                settings.getManagedLedgerPassword().getBytes(StandardCharsets.UTF_8))) {
            // The newest entry of an open ledger stands one past what is confirmed to readers.
            long confirmed = ledger.readLastConfirmed();
            try {
                return ledger.readUnconfirmedEntries(confirmed + 1, confirmed + 1).nextElement().getEntry();
            } catch (org.apache.bookkeeper.client.BKException noSuchEntry) {
                return ledger.readEntries(confirmed, confirmed).nextElement().getEntry();
            }
        }
    }

    private static void shutDown(PulsarStandalone standalone) {
        try {
            broker.close();
            if (standalone != null) {
                standalone.close();
            }
        } catch (Exception failure) {
            failure.printStackTrace();
        }
        Runtime.getRuntime().halt(0);
    }

    private static void answer(HttpServer door, String path, Answer answer) {
        door.createContext(path, exchange -> {
            int status = 200;
            byte[] body;
            try {
                Object value = answer.to(query(exchange.getRequestURI().getRawQuery()));
                body = value instanceof byte[] raw ? raw : JSON.writeValueAsBytes(value);
            } catch (Exception failure) {
                StringWriter text = new StringWriter();
                failure.printStackTrace(new PrintWriter(text));
                status = 500;
                body = text.toString().getBytes(StandardCharsets.UTF_8);
            }
            exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
    }

    private static Map<String, String> query(String raw) {
        Map<String, String> query = new LinkedHashMap<>();
        if (raw != null) {
            for (String pair : raw.split("&")) {
                int equals = pair.indexOf('=');
                query.put(pair.substring(0, equals),
                        URLDecoder.decode(pair.substring(equals + 1), StandardCharsets.UTF_8));
            }
        }
        return query;
    }
}
