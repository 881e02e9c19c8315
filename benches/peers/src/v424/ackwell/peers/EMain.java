package ackwell.peers;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;

import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.bookkeeper.mledger.proto.BatchedEntryDeletionIndexInfo;
import org.apache.bookkeeper.mledger.proto.PositionInfo;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentSkipListMap;

/**
 * E: the ack sets of a cursor (`batchDeletedIndexes`), with the steps of ManagedCursorImpl and
 * without its locks. args: label workload
 */
public final class EMain {
    final boolean is501;
    final String workload;
    final int messages;
    final long[] entries;
    static long sink;

    ConcurrentSkipListMap<Position, BitSet> sets = new ConcurrentSkipListMap<>();

    EMain(String label, String workload) {
        this.is501 = !label.equals("v424");
        this.workload = workload;
        this.messages = workload.equals("large") ? 1000 : 10;
        int n = workload.equals("large") ? 20_000 : 200_000;
        entries = new long[n];
        for (int i = 0; i < n; i++) entries[i] = 1 + 2L * i;
        if (workload.equals("scattered")) shuffle(entries, 42);
    }

    static void shuffle(long[] a, long seed) {
        SplittableRandom r = new SplittableRandom(seed);
        for (int k = a.length - 1; k > 0; k--) {
            int j = r.nextInt(k + 1);
            long t = a[k];
            a[k] = a[j];
            a[j] = t;
        }
    }

    /** The positions of a command, as the broker gives them to the cursor: each with its ack set. */
    Position[] acks(int acked) {
        BitSet left = new BitSet();
        left.set(0, messages);
        left.clear(acked);
        Position[] made = new Position[entries.length];
        for (int i = 0; i < made.length; i++)
            made[i] =
                    AckSetStateUtil.createPositionWithAckSet(3, entries[i], left.toLongArray());
        return made;
    }

    /** The loop of asyncDelete for a position with an ack set. */
    void ack(Position position) {
        long[] words = AckSetStateUtil.getAckSetArrayOrNull(position);
        BitSet given = BitSet.valueOf(words);
        boolean had = is501 && sets.containsKey(position);
        BitSet own = sets.computeIfAbsent(position, __ -> given);
        if (is501) {
            BitSet before = (BitSet) own.clone();
            own.and(given);
            if (!had || !before.equals(own)) sink++;
        } else if (own != given) {
            own.and(given);
        }
        if (own.isEmpty()) sets.remove(position);
    }

    /** `buildBatchEntryDeletionIndexInfoList`, and the message as bytes. */
    ByteBuf encode(ByteBuf out) {
        List<BatchedEntryDeletionIndexInfo> list = new ArrayList<>();
        for (Map.Entry<Position, BitSet> each : sets.entrySet()) {
            BatchedEntryDeletionIndexInfo info = new BatchedEntryDeletionIndexInfo();
            info.setPosition()
                    .setLedgerId(each.getKey().getLedgerId())
                    .setEntryId(each.getKey().getEntryId());
            for (long word : each.getValue().toLongArray()) info.addDeleteSet(word);
            list.add(info);
        }
        PositionInfo p = new PositionInfo().setLedgerId(3).setEntryId(-1);
        p.addAllBatchedEntryDeletionIndexInfos(list);
        out.clear();
        out.ensureWritable(p.getSerializedSize());
        p.writeTo(out);
        return out;
    }

    /** The message of bytes, and `recoverBatchDeletedIndexes`. */
    static ConcurrentSkipListMap<Position, BitSet> decode(byte[] bytes) {
        PositionInfo p = new PositionInfo();
        p.parseFrom(Unpooled.wrappedBuffer(bytes), bytes.length);
        ConcurrentSkipListMap<Position, BitSet> made = new ConcurrentSkipListMap<>();
        for (int i = 0; i < p.getBatchedEntryDeletionIndexInfosCount(); i++) {
            BatchedEntryDeletionIndexInfo info = p.getBatchedEntryDeletionIndexInfoAt(i);
            long[] words = new long[info.getDeleteSetsCount()];
            for (int j = 0; j < words.length; j++) words[j] = info.getDeleteSetAt(j);
            made.put(
                    PositionFactory.create(
                            info.getPosition().getLedgerId(), info.getPosition().getEntryId()),
                    BitSet.valueOf(words));
        }
        return made;
    }

    void time(String operation, Runnable prepare, Runnable work) {
        int warm = 4, runs = 9;
        StringBuilder figures = new StringBuilder();
        for (int i = -warm; i < runs; i++) {
            prepare.run();
            long t = Clk.cpu();
            work.run();
            t = Clk.cpu() - t - Clk.OVERHEAD;
            if (i >= 0)
                figures.append(i == 0 ? "" : ",")
                        .append(String.format("%.3f", t / (double) entries.length));
        }
        System.out.printf(
                "{\"dataset\":\"%s\",\"op\":\"%s\",\"cpuNs\":[%s]}%n", workload, operation, figures);
        System.out.flush();
    }

    void run() {
        Runnable nothing = () -> {};
        Position[] first = acks(0), second = acks(messages / 2);
        Runnable fill =
                () -> {
                    sets = new ConcurrentSkipListMap<>();
                    for (Position position : first) ack(position);
                };
        time("ackFirst", () -> sets = new ConcurrentSkipListMap<>(), fill);
        time(
                "ackSecond",
                fill,
                () -> {
                    for (Position position : second) ack(position);
                });
        fill.run();
        System.out.printf(
                "{\"dataset\":\"%s\",\"bytesPerEntry\":%.2f}%n",
                workload, Mem.jol(sets)[0] / (double) entries.length);
        long[] probes = entries.clone();
        shuffle(probes, 7);
        Position[] wanted = new Position[probes.length];
        for (int i = 0; i < wanted.length; i++) wanted[i] = PositionFactory.create(3, probes[i]);
        time(
                "get",
                nothing,
                () -> {
                    for (Position position : wanted) sink += sets.get(position).toLongArray()[0];
                });
        time("walk", nothing, () -> sets.values().forEach(set -> sink += set.cardinality()));
        ByteBuf out = PooledByteBufAllocator.DEFAULT.buffer();
        time("encode", nothing, () -> encode(out));
        byte[] bytes = new byte[encode(out).readableBytes()];
        out.getBytes(out.readerIndex(), bytes);
        time("decode", nothing, () -> sink += decode(bytes).firstKey().getEntryId());
        if (!decode(bytes).equals(sets)) throw new IllegalStateException("decoded other sets");
        Position middle = PositionFactory.create(3, entries.length);
        time(
                "removeUpTo",
                fill,
                () -> sets.subMap(PositionFactory.EARLIEST, false, middle, true).clear());
    }

    public static void main(String[] a) {
        new EMain(a[0], a[1]).run();
    }
}
