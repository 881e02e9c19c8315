package ackwell.kit;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;

/** What a cursor of the broker holds in memory, as a map that prints as JSON; ranges are open-closed. */
final class CursorDump {
    private CursorDump() {}

    static Map<String, Object> of(ManagedCursorImpl cursor) throws Exception {
        Map<String, Object> dump = new LinkedHashMap<>();
        dump.put("markDelete", pair(cursor.getMarkDeletedPosition()));
        dump.put("readPosition", pair(cursor.getReadPosition()));
        dump.put("messagesConsumed", cursor.getMessagesConsumedCounter());
        dump.put("ranges", ranges(cursor));
        dump.put("batchDeletedIndexes", batchDeletedIndexes(cursor));
        dump.put("properties", cursor.getProperties());
        dump.put("backlogEntries", cursor.getNumberOfEntriesInBacklog(true));
        dump.put("cursorLedger", cursor.getCursorLedger());
        dump.put("cursorLedgerLastEntry", cursor.getCursorLedgerLastEntry());
        dump.put("state", cursor.getState());
        dump.put("isCursorDataFullyPersistable", cursor.isCursorDataFullyPersistable());
        Map<Long, Long> ledgers = new TreeMap<>();
        ((ManagedLedgerImpl) cursor.getManagedLedger()).getLedgersInfo()
                .forEach((id, info) -> ledgers.put(id, info.getEntries()));
        dump.put("ledgers", ledgers);
        return dump;
    }

    private static List<long[]> ranges(ManagedCursorImpl cursor) {
        List<long[]> ranges = new ArrayList<>();
        cursor.getIndividuallyDeletedMessagesSet().forEach(range -> {
            ranges.add(new long[] {
                range.lowerEndpoint().getLedgerId(), range.lowerEndpoint().getEntryId(),
                range.upperEndpoint().getLedgerId(), range.upperEndpoint().getEntryId()
            });
            return true;
        });
        return ranges;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, long[]> batchDeletedIndexes(ManagedCursorImpl cursor) throws Exception {
        Map<String, long[]> sets = new TreeMap<>();
        Object field = field(cursor, "batchDeletedIndexes");
        if (field != null) {
            for (Map.Entry<Position, ?> entry : ((Map<Position, ?>) field).entrySet()) {
                Position position = entry.getKey();
                long[] words = entry.getValue() instanceof BitSet bits
                        ? bits.toLongArray() : cursor.getDeletedBatchIndexesAsLongArray(position);
                sets.put(position.getLedgerId() + ":" + position.getEntryId(), words);
            }
        }
        return sets;
    }

    static long[] pair(Position position) {
        return new long[] {position.getLedgerId(), position.getEntryId()};
    }

    /** The value of a field nobody else may see. */
    static Object field(Object owner, String name) throws ReflectiveOperationException {
        Field field = find(owner.getClass(), name);
        return field.get(owner);
    }

    /** A field of the class or of one above it, made accessible. */
    static Field find(Class<?> type, String name) throws NoSuchFieldException {
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            try {
                Field field = at.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException absent) {
                // It may stand in a superclass.
            }
        }
        throw new NoSuchFieldException(name);
    }
}
