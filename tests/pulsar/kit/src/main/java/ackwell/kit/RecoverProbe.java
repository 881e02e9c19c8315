package ackwell.kit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.bookkeeper.mledger.proto.ManagedCursorInfo;
import org.apache.bookkeeper.mledger.proto.ManagedLedgerInfo;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/**
 * Recovers persisted cursor bytes with the broker's own code and tells what the broker then believes:
 * {@code ManagedLedgerFactoryImpl.open}, {@code ManagedCursorImpl.recover}, on a metadata store and a
 * BookKeeper in memory. Many cases in one process: one JSON object a line in, one a line out.
 *
 * <p>In: {@code ledgers} (id to entries, all closed), and {@code position} (base64 of the last entry
 * of the cursor ledger) or {@code cursorInfo} (base64 of the metadata store's value). Optional:
 * {@code batchIndexAcks} (true), {@code rewrite} (false): let the broker write the state again, as
 * ranges or, with {@code longArray} (true), as long arrays.
 *
 * <p>Out: {@code accepted}; if false {@code error}, else {@link CursorDump} and {@code rewritten} (base64).
 * The probe adds one open ledger of one entry at the end, which {@code backlogEntries} leaves out.
 */
public final class RecoverProbe {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String TOPIC = "public/default/persistent/probe";

    private RecoverProbe() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        OrderedExecutor executor = OrderedExecutor.newBuilder().numThreads(2).name("probe").build();
        int status = 0;
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.println(JSON.writeValueAsString(answer(executor, JSON.readTree(line))));
                out.flush();
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            status = 1;
        }
        // Threads of the broker's libraries would keep the process alive.
        Runtime.getRuntime().halt(status);
    }

    private static ObjectNode answer(OrderedExecutor executor, JsonNode question) throws Exception {
        Map<Long, Long> ledgers = new TreeMap<>();
        question.get("ledgers").fields()
                .forEachRemaining(entry -> ledgers.put(Long.parseLong(entry.getKey()), entry.getValue().asLong()));
        long greatest = ledgers.keySet().stream().mapToLong(Long::longValue).max().orElse(0);
        BookKeeperInMemory bookKeeper = new BookKeeperInMemory(executor, greatest + 1000);
        MetadataStoreExtended store = MetadataStoreExtended.create(
                "memory:probe" + System.nanoTime(), MetadataStoreConfig.builder().build());
        putTopic(store, bookKeeper, ledgers);
        putCursor(store, bookKeeper, question);
        ManagedLedgerFactoryImpl factory =
                new ManagedLedgerFactoryImpl(store, bookKeeper, new ManagedLedgerFactoryConfig());
        try {
            ManagedCursorImpl cursor =
                    (ManagedCursorImpl) factory.open(TOPIC, settings(question)).openCursor("probe");
            Map<String, Object> dump = CursorDump.of(cursor);
            dump.put("backlogEntries", cursor.getNumberOfEntriesInBacklog(true) - 1);
            dump.put("ledgers", ledgers);
            ObjectNode answer = JSON.valueToTree(dump);
            if (question.path("rewrite").asBoolean(false)) {
                // A mark-delete where the cursor stands makes it open its ledger and write all it knows.
                cursor.markDelete(cursor.getMarkDeletedPosition());
                answer.put("rewritten", bookKeeper.lastEntry(cursor.getCursorLedger()));
            }
            return answer.put("accepted", true);
        } catch (ManagedLedgerException refusal) {
            return JSON.createObjectNode().put("accepted", false).put("error", refusal.toString());
        } finally {
            factory.shutdownAsync();
            store.close();
        }
    }

    private static void putTopic(MetadataStoreExtended store, BookKeeperInMemory bookKeeper, Map<Long, Long> ledgers)
            throws Exception {
        ManagedLedgerInfo topic = new ManagedLedgerInfo();
        long now = System.currentTimeMillis();
        ledgers.forEach((id, entries) ->
                topic.addLedgerInfo().setLedgerId(id).setEntries(entries).setSize(10 * entries).setTimestamp(now));
        // The one open ledger at the end, as after a reload of the topic.
        LedgerHandle tail = bookKeeper.ledgerOf(new byte[] {0});
        topic.addLedgerInfo().setLedgerId(tail.getId());
        store.put("/managed-ledgers/" + TOPIC, topic.toByteArray(), Optional.empty()).get();
    }

    private static void putCursor(MetadataStoreExtended store, BookKeeperInMemory bookKeeper, JsonNode question)
            throws Exception {
        byte[] info;
        if (question.has("cursorInfo")) {
            info = bytes(question, "cursorInfo");
        } else {
            LedgerHandle ledger = bookKeeper.ledgerOf(bytes(question, "position"));
            info = new ManagedCursorInfo().setCursorsLedgerId(ledger.getId())
                    .setLastActive(System.currentTimeMillis()).toByteArray();
        }
        store.put("/managed-ledgers/" + TOPIC + "/probe", info, Optional.empty()).get();
    }

    private static ManagedLedgerConfig settings(JsonNode question) {
        ManagedLedgerConfig settings = new ManagedLedgerConfig();
        settings.setDigestType(DigestType.CRC32C).setPassword("");
        settings.setEnsembleSize(1).setWriteQuorumSize(1).setAckQuorumSize(1);
        settings.setRetentionTime(-1, TimeUnit.MINUTES).setRetentionSizeInMB(-1);
        settings.setDeletionAtBatchIndexLevelEnabled(question.path("batchIndexAcks").asBoolean(true));
        settings.setPersistIndividualAckAsLongArray(question.path("longArray").asBoolean(true));
        settings.setMaxUnackedRangesToPersist(Integer.MAX_VALUE);
        return settings;
    }

    private static byte[] bytes(JsonNode question, String name) throws IOException {
        return Base64.getDecoder().decode(question.get(name).asText());
    }
}
