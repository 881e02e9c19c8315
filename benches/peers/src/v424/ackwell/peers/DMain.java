package ackwell.peers;

import com.google.common.collect.Range;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;

import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.RangeSetWrapper;
import org.apache.bookkeeper.mledger.proto.LongListMap;
import org.apache.bookkeeper.mledger.proto.MessageRange;
import org.apache.bookkeeper.mledger.proto.PositionInfo;
import org.apache.pulsar.common.api.proto.CompressionType;
import org.apache.pulsar.common.compression.CompressionCodec;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.common.util.collections.LongPairRangeSet;
import org.apache.pulsar.common.util.collections.OpenLongPairRangeSet;
import org.roaringbitmap.RoaringBitSet;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** D: cursor range sets and PositionInfo of 4.2.4. args: label impl pattern fork */
public final class DMain {
    static final LongPairRangeSet.LongPairConsumer<Position> CONV = PositionFactory::create;
    static final LongPairRangeSet.RangeBoundConsumer<Position> REV =
            p -> new LongPairRangeSet.LongPair(p.getLedgerId(), p.getEntryId());

    static LongPairRangeSet<Position> make(String impl) {
        switch (impl) {
            case "open":
                return new OpenLongPairRangeSet<>(
                        CONV, RoaringBitSet::new); // what RangeSetWrapper builds
            case "wrapper":
                return new RangeSetWrapper<>(
                        CONV, REV, true, true); // multi-entry on: also tracks dirty ledgers
            case "default":
                return new RangeSetWrapper<>(
                        CONV, REV, false, false); // Guava TreeRangeSet (open cache set off)
            case "position":
                return positionRangeSet();
            default:
                throw new IllegalArgumentException(impl);
        }
    }

    /** The class of Pulsar 5.0.1, which is not visible in other packages. */
    @SuppressWarnings("unchecked")
    static LongPairRangeSet<Position> positionRangeSet() {
        try {
            var made =
                    Class.forName("org.apache.bookkeeper.mledger.impl.PositionRangeSet")
                            .getDeclaredConstructor(
                                    LongPairRangeSet.LongPairConsumer.class, boolean.class);
            made.setAccessible(true);
            return (LongPairRangeSet<Position>) made.newInstance(CONV, false);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * acks as (ledger, entry) in arrival order; one addOpenClosed(l, e-1, l, e) each, as the cursor
     * does for an individual ack
     */
    static long[][] acks(String pat) {
        SplittableRandom r = new SplittableRandom(42);
        switch (pat) {
            case "alt1m":
                { // 1M single-entry ranges: every other entry of 20 ledgers x 100k entries
                    int n = 1_000_000;
                    long[] l = new long[n], e = new long[n];
                    for (int i = 0; i < n; i++) {
                        l[i] = 100 + i / 50_000;
                        e[i] = 1 + 2L * (i % 50_000);
                    }
                    return new long[][] {l, e};
                }
            case "rand70":
                { // 2M messages, 40 ledgers x 50k, a random 70% acked, in random order
                    int n = 2_000_000;
                    int[] idx = new int[n];
                    for (int i = 0; i < n; i++) idx[i] = i;
                    for (int k = n - 1; k > 0; k--) {
                        int j = r.nextInt(k + 1);
                        int t = idx[k];
                        idx[k] = idx[j];
                        idx[j] = t;
                    }
                    int m = n * 7 / 10;
                    long[] l = new long[m], e = new long[m];
                    for (int i = 0; i < m; i++) {
                        l[i] = 100 + idx[i] / 50_000;
                        e[i] = idx[i] % 50_000;
                    }
                    return new long[][] {l, e};
                }
            case "oldest50m":
                { // entry (100,0) never acked, the next 50M acked one by one in order, 1000 ledgers
                  // x 50k
                    int n = 50_000_000;
                    long[] l = new long[n], e = new long[n];
                    for (int i = 0; i < n; i++) {
                        int g = i + 1;
                        l[i] = 100 + g / 50_000;
                        e[i] = g % 50_000;
                    }
                    return new long[][] {l, e};
                }
            case "batch":
                { // 2M entries, runs of 1..20 acked then 1..5 unacked, inside a window of 1000 in
                  // random order
                    int n = 2_000_000;
                    long[] l = new long[n], e = new long[n];
                    int m = 0;
                    boolean on = false;
                    int left = 0;
                    for (int i = 0; i < n; i++) {
                        if (left == 0) {
                            on = !on;
                            left = on ? 1 + r.nextInt(20) : 1 + r.nextInt(5);
                        }
                        left--;
                        if (on) {
                            l[m] = 100 + i / 50_000;
                            e[m] = i % 50_000;
                            m++;
                        }
                    }
                    l = java.util.Arrays.copyOf(l, m);
                    e = java.util.Arrays.copyOf(e, m);
                    for (int w = 0; w < m; w += 1000)
                        for (int k = Math.min(m, w + 1000) - 1; k > w; k--) {
                            int j = w + r.nextInt(k - w + 1);
                            long t = l[k];
                            l[k] = l[j];
                            l[j] = t;
                            t = e[k];
                            e[k] = e[j];
                            e[j] = t;
                        }
                    return new long[][] {l, e};
                }
            default:
                throw new IllegalArgumentException(pat);
        }
    }

    static long sink;

    static PositionInfo v1(LongPairRangeSet<Position> s) {
        PositionInfo p = new PositionInfo().setLedgerId(100).setEntryId(-1);
        List<MessageRange> ranges =
                new ArrayList<>(); // the cursor collects a list and adds it, so does this
        s.forEachRawRange(
                (a, b, c, d) -> {
                    MessageRange m = new MessageRange();
                    m.setLowerEndpoint().setLedgerId(a).setEntryId(b);
                    m.setUpperEndpoint().setLedgerId(c).setEntryId(d);
                    ranges.add(m);
                    return true;
                });
        p.addAllIndividualDeletedMessages(ranges);
        return p;
    }

    static PositionInfo v2(LongPairRangeSet<Position> s) {
        PositionInfo p = new PositionInfo().setLedgerId(100).setEntryId(-1);
        Map<Long, long[]> m = s.toRanges(Integer.MAX_VALUE);
        List<LongListMap> list = new ArrayList<>();
        m.forEach(
                (k, v) -> {
                    LongListMap x = new LongListMap().setKey(k);
                    for (long w : v) x.addValue(w);
                    list.add(x);
                });
        p.addAllIndividualDeletedMessageRanges(list);
        return p;
    }

    static void row(
            String label,
            String impl,
            String pat,
            int fork,
            String op,
            double[] v,
            String unit,
            String extra) {
        StringBuilder b = new StringBuilder("[");
        for (int i = 0; i < v.length; i++)
            b.append(i == 0 ? "" : ",").append(String.format("%.4f", v[i]));
        System.out.printf(
                "{\"part\":\"D\",\"label\":\"%s\",\"impl\":\"%s\",\"pattern\":\"%s\",\"fork\":%d,\"op\":\"%s\",\"unit\":\"%s\",\"values\":%s]%s}%n",
                label, impl, pat, fork, op, unit, b, extra);
        System.out.flush();
    }

    interface Run {
        void run() throws Exception;
    }

    static double[] time(int warm, int n, double div, Run r) throws Exception {
        double[] v = new double[n];
        for (int i = -warm; i < n; i++) {
            long t = Clk.cpu();
            r.run();
            t = Clk.cpu() - t - Clk.OVERHEAD;
            if (i >= 0) v[i] = t / div;
        }
        return v;
    }

    public static void main(String[] a) throws Exception {
        String label = a[0], impl = a[1], pat = a[2];
        int fork = Integer.parseInt(a[3]);
        long[][] k = acks(pat);
        long[] l = k[0], e = k[1];
        int n = l.length;
        boolean big = n > 10_000_000;
        if (big && impl.equals("default") && Boolean.getBoolean("skipBigDefault")) return;
        LongPairRangeSet<Position>[] hold = new LongPairRangeSet[1];
        double[] add =
                time(
                        big ? 1 : 2,
                        big ? 3 : 5,
                        n,
                        () -> {
                            hold[0] = null;
                            LongPairRangeSet<Position> s = make(impl);
                            for (int i = 0; i < n; i++) s.addOpenClosed(l[i], e[i] - 1, l[i], e[i]);
                            hold[0] = s;
                        });
        row(label, impl, pat, fork, "addOpenClosed", add, "ns/op", "");
        LongPairRangeSet<Position> s = hold[0];
        int ranges = s.size();
        long[] g = Mem.jol(s);
        row(
                label,
                impl,
                pat,
                fork,
                "memory",
                new double[] {g[0]},
                "bytes",
                String.format(",\"ranges\":%d,\"acked\":%d,\"objects\":%d", ranges, n, g[1]));
        // Everything up to the middle of a ledger in the middle, of a complete set.
        List<LongPairRangeSet<Position>> whole = new ArrayList<>();
        for (int made = 0; made < (big ? 0 : 7); made++) {
            LongPairRangeSet<Position> t = make(impl);
            for (int i = 0; i < n; i++) t.addOpenClosed(l[i], e[i] - 1, l[i], e[i]);
            whole.add(t);
        }
        if (!big) {
            Iterator<LongPairRangeSet<Position>> each = whole.iterator();
            double[] removed = time(2, 5, 1, () -> each.next().removeAtMost(110, 25_001));
            row(label, impl, pat, fork, "removeUpTo", removed, "ns", "");
        }
        whole.clear();
        // probes: random positions over the whole span (hits and misses), and acked positions in
        // ack order (hits only)
        int batches = 2_000_000;
        long[] pl = new long[batches], pe = new long[batches];
        SplittableRandom r = new SplittableRandom(7);
        long minL = Long.MAX_VALUE, maxL = 0, maxE = 0;
        for (int i = 0; i < n; i++) {
            minL = Math.min(minL, l[i]);
            maxL = Math.max(maxL, l[i]);
            maxE = Math.max(maxE, e[i]);
        }
        for (int i = 0; i < batches; i++) {
            pl[i] = minL + r.nextLong(maxL - minL + 1);
            pe[i] = r.nextLong(maxE + 1);
        }
        row(
                label,
                impl,
                pat,
                fork,
                "containsRandom",
                time(
                        2,
                        5,
                        batches,
                        () -> {
                            long c = 0;
                            for (int i = 0; i < batches; i++) if (s.contains(pl[i], pe[i])) c++;
                            sink += c;
                        }),
                "ns/op",
                "");
        int hn = Math.min(n, 2_000_000);
        row(
                label,
                impl,
                pat,
                fork,
                "containsHitAckOrder",
                time(
                        2,
                        5,
                        hn,
                        () -> {
                            long c = 0;
                            for (int i = 0; i < hn; i++) if (s.contains(l[i], e[i])) c++;
                            if (c != hn) throw new IllegalStateException();
                        }),
                "ns/op",
                "");
        row(
                label,
                impl,
                pat,
                fork,
                "firstRange",
                time(
                        3,
                        5,
                        200_000,
                        () -> {
                            for (int i = 0; i < 200_000; i++) {
                                Range<Position> x = s.firstRange();
                                sink += x.upperEndpoint().getEntryId();
                            }
                        }),
                "ns/op",
                "");
        row(
                label,
                impl,
                pat,
                fork,
                "forEachRawRange",
                time(
                        2,
                        5,
                        ranges,
                        () ->
                                s.forEachRawRange(
                                        (w, x, y, z) -> {
                                            sink += z;
                                            return true;
                                        })),
                "ns/range",
                String.format(",\"ranges\":%d", ranges));
        for (String form :
                impl.equals("default") ? new String[] {"v1"} : new String[] {"v1", "v2"}) {
            boolean f1 = form.equals("v1");
            PositionInfo[] pi = new PositionInfo[1];
            double[] build =
                    time(
                            2,
                            5,
                            1e6,
                            () -> {
                                pi[0] = null;
                                pi[0] = f1 ? v1(s) : v2(s);
                            });
            row(label, impl, pat, fork, form + "-build", build, "ms", "");
            int sz = pi[0].getSerializedSize();
            ByteBuf out = PooledByteBufAllocator.DEFAULT.buffer(sz);
            row(
                    label,
                    impl,
                    pat,
                    fork,
                    form + "-serialize",
                    time(
                            2,
                            5,
                            1e6,
                            () -> {
                                out.clear();
                                out.ensureWritable(pi[0].getSerializedSize());
                                pi[0].writeTo(out);
                            }),
                    "ms",
                    String.format(",\"size\":%d", out.readableBytes()));
            byte[] bytes = new byte[out.readableBytes()];
            out.getBytes(out.readerIndex(), bytes);
            pi[0] = null;
            row(
                    label,
                    impl,
                    pat,
                    fork,
                    form + "-parse",
                    time(
                            2,
                            5,
                            1e6,
                            () -> {
                                PositionInfo q = new PositionInfo();
                                ByteBuf b = Unpooled.wrappedBuffer(bytes);
                                q.parseFrom(b, bytes.length);
                                sink +=
                                        q.getIndividualDeletedMessagesCount()
                                                + q.getIndividualDeletedMessageRangesCount();
                                pi[0] = q;
                            }),
                    "ms",
                    String.format(",\"size\":%d", bytes.length));
            // recover: parsed message -> range set, as the cursor does on load
            row(
                    label,
                    impl,
                    pat,
                    fork,
                    form + "-recover",
                    time(
                            1,
                            3,
                            1e6,
                            () -> {
                                LongPairRangeSet<Position> t = make(impl);
                                PositionInfo q = pi[0];
                                if (f1)
                                    for (int i = 0, c = q.getIndividualDeletedMessagesCount();
                                            i < c;
                                            i++) {
                                        MessageRange m = q.getIndividualDeletedMessageAt(i);
                                        t.addOpenClosed(
                                                m.getLowerEndpoint().getLedgerId(),
                                                m.getLowerEndpoint().getEntryId(),
                                                m.getUpperEndpoint().getLedgerId(),
                                                m.getUpperEndpoint().getEntryId());
                                    }
                                else {
                                    java.util.HashMap<Long, long[]> m = new java.util.HashMap<>();
                                    for (int i = 0, c = q.getIndividualDeletedMessageRangesCount();
                                            i < c;
                                            i++) {
                                        LongListMap x = q.getIndividualDeletedMessageRangeAt(i);
                                        long[] v = new long[x.getValuesCount()];
                                        for (int j = 0; j < v.length; j++) v[j] = x.getValueAt(j);
                                        m.put(x.getKey(), v);
                                    }
                                    t.build(m);
                                }
                                hold[0] = t;
                            }),
                    "ms",
                    "");
            if (hold[0].size() != ranges)
                throw new IllegalStateException("recover: " + hold[0].size() + " != " + ranges);
            pi[0] = null;
            hold[0] = null;
            for (CompressionType ct :
                    new CompressionType[] {CompressionType.LZ4, CompressionType.ZSTD}) {
                CompressionCodec codec = CompressionCodecProvider.getCompressionCodec(ct);
                ByteBuf src = PooledByteBufAllocator.DEFAULT.directBuffer(bytes.length);
                src.writeBytes(bytes);
                int[] cs = new int[1];
                double[] ct1 =
                        time(
                                2,
                                5,
                                1e6,
                                () -> {
                                    ByteBuf c = codec.encode(src);
                                    cs[0] = c.readableBytes();
                                    c.release();
                                });
                ByteBuf c = codec.encode(src);
                row(
                        label,
                        impl,
                        pat,
                        fork,
                        form + "-" + ct + "-compress",
                        ct1,
                        "ms",
                        String.format(",\"size\":%d,\"raw\":%d", cs[0], bytes.length));
                row(
                        label,
                        impl,
                        pat,
                        fork,
                        form + "-" + ct + "-decompress",
                        time(
                                2,
                                5,
                                1e6,
                                () -> {
                                    ByteBuf d = codec.decode(c, bytes.length);
                                    sink += d.readableBytes();
                                    d.release();
                                }),
                        "ms",
                        String.format(",\"size\":%d", cs[0]));
                c.release();
                src.release();
            }
            out.release();
        }
        if (sink == 42) System.err.println(sink);
    }
}
