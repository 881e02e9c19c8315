package ackwell.peers;

import it.unimi.dsi.fastutil.longs.Long2ObjectAVLTreeMap;
import it.unimi.dsi.fastutil.longs.Long2ObjectMap;
import it.unimi.dsi.fastutil.longs.Long2ObjectSortedMap;
import it.unimi.dsi.fastutil.objects.ObjectBidirectionalIterator;

import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.roaringbitmap.PeekableIntIterator;
import org.roaringbitmap.RoaringBitmap;
import org.roaringbitmap.longlong.Roaring64Bitmap;

import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.util.NavigableSet;
import java.util.SplittableRandom;
import java.util.TreeSet;

/**
 * C: TimeBucket. args: label impl cfg fork; cfg = "x,y" (x messages/ms, y trimmed bits) or "rand,y"
 * (7 days uniform).
 */
public final class CMain {
    static final int N = Integer.getInteger("n", 10_000_000), PER_LEDGER = 50_000;
    static final long T0 = 1_700_000_000_000L, WEEK = 7L * 86_400_000;

    interface T {
        void add(long l, long e, long ts);

        int drain(int batch);

        default void finish() {}

        default long serialized() {
            return -1;
        }

        Object root();

        default long buckets() {
            return -1;
        }

        default long reported() {
            return -1;
        }
    }

    /** seed's structure: AVL(time) -> AVL(ledger) -> Roaring64Bitmap */
    static final class Seed64 implements T {
        final int y;
        final Long2ObjectSortedMap<Long2ObjectSortedMap<Roaring64Bitmap>> m =
                new Long2ObjectAVLTreeMap<>();

        Seed64(int y) {
            this.y = y;
        }

        public void add(long l, long e, long ts) {
            m.computeIfAbsent(ts & (-1L << y), k -> new Long2ObjectAVLTreeMap<>())
                    .computeIfAbsent(l, k -> new Roaring64Bitmap())
                    .add(e);
        }

        // output is the same TreeSet<Position> that the tracker hands to the dispatcher
        public int drain(int n) {
            NavigableSet<Position> out = new TreeSet<>();
            while (n > 0 && !m.isEmpty()) {
                long t = m.firstLongKey();
                Long2ObjectSortedMap<Roaring64Bitmap> lm = m.get(t);
                ObjectBidirectionalIterator<Long2ObjectMap.Entry<Roaring64Bitmap>> it =
                        lm.long2ObjectEntrySet().iterator();
                while (n > 0 && it.hasNext()) {
                    Long2ObjectMap.Entry<Roaring64Bitmap> x = it.next();
                    long l = x.getLongKey();
                    Roaring64Bitmap b = x.getValue();
                    int c = b.getIntCardinality();
                    if (c <= n) {
                        b.forEach(v -> out.add(PositionFactory.create(l, v)));
                        n -= c;
                        it.remove();
                    } else {
                        Roaring64Bitmap rm = new Roaring64Bitmap();
                        var i2 = b.getLongIterator();
                        for (int k = 0; k < n; k++) {
                            long v = i2.next();
                            out.add(PositionFactory.create(l, v));
                            rm.add(v);
                        }
                        b.andNot(rm);
                        n = 0;
                    }
                }
                if (lm.isEmpty()) m.remove(t);
            }
            return out.size();
        }

        public long serialized() {
            long s = 0;
            for (var lm : m.values()) {
                s += 8;
                for (var b : lm.values()) s += 8 + b.serializedSizeInBytes();
            }
            return s;
        }

        public void finish() {}

        public Object root() {
            return m;
        }

        public long buckets() {
            return m.size();
        }
    }

    /** own variant: 32-bit RoaringBitmap, with or without runOptimize() once built */
    static final class R32 implements T {
        final int y;
        final boolean opt;
        final Long2ObjectSortedMap<Long2ObjectSortedMap<RoaringBitmap>> m =
                new Long2ObjectAVLTreeMap<>();

        R32(int y, boolean opt) {
            this.y = y;
            this.opt = opt;
        }

        public void add(long l, long e, long ts) {
            m.computeIfAbsent(ts & (-1L << y), k -> new Long2ObjectAVLTreeMap<>())
                    .computeIfAbsent(l, k -> new RoaringBitmap())
                    .add((int) e);
        }

        public int drain(int n) {
            NavigableSet<Position> out = new TreeSet<>();
            while (n > 0 && !m.isEmpty()) {
                long t = m.firstLongKey();
                Long2ObjectSortedMap<RoaringBitmap> lm = m.get(t);
                ObjectBidirectionalIterator<Long2ObjectMap.Entry<RoaringBitmap>> it =
                        lm.long2ObjectEntrySet().iterator();
                while (n > 0 && it.hasNext()) {
                    Long2ObjectMap.Entry<RoaringBitmap> x = it.next();
                    long l = x.getLongKey();
                    RoaringBitmap b = x.getValue();
                    int c = b.getCardinality();
                    if (c <= n) {
                        PeekableIntIterator i2 = b.getIntIterator();
                        while (i2.hasNext()) out.add(PositionFactory.create(l, i2.next()));
                        n -= c;
                        it.remove();
                    } else {
                        PeekableIntIterator i2 = b.getIntIterator();
                        int v = 0;
                        for (int k = 0; k < n; k++) {
                            v = i2.next();
                            out.add(PositionFactory.create(l, v));
                        }
                        b.remove(0L, v + 1L);
                        n = 0;
                    }
                }
                if (lm.isEmpty()) m.remove(t);
            }
            return out.size();
        }

        public void finish() {
            if (opt) for (var lm : m.values()) for (var b : lm.values()) b.runOptimize();
        }

        public long serialized() {
            long s = 0;
            for (var lm : m.values()) {
                s += 8;
                for (var b : lm.values()) s += 8 + b.serializedSizeInBytes();
            }
            return s;
        }

        public Object root() {
            return m;
        }

        public long buckets() {
            return m.size();
        }
    }

    static final class FixedClock extends Clock {
        long t = T0 - 1_000_000;

        public ZoneId getZone() {
            return ZoneId.of("UTC");
        }

        public Clock withZone(ZoneId z) {
            return this;
        }

        public Instant instant() {
            return Instant.ofEpochMilli(t);
        }

        public long millis() {
            return t;
        }
    }

    static T make(String impl, int y) throws Exception {
        switch (impl) {
            case "seed64":
                return new Seed64(y);
            case "r32":
                return new R32(y, false);
            case "r32opt":
                return new R32(y, true);
            case "tracker":
                return (T)
                        Class.forName("ackwell.peers.RealTracker")
                                .getDeclaredConstructor(int.class)
                                .newInstance(y);
            default:
                throw new IllegalArgumentException(impl);
        }
    }

    public static void main(String[] a) throws Exception {
        String label = a[0], impl = a[1], cfg = a[2];
        int fork = Integer.parseInt(a[3]);
        String[] p = cfg.split(",");
        int y = Integer.parseInt(p[1]);
        boolean rnd = p[0].equals("rand");
        int x = rnd ? 0 : Integer.parseInt(p[0]);
        int iters = rnd ? 1 : 3; // first is warm-up
        for (int it = 0; it < iters; it++) {
            long before = Mem.used();
            T t = make(impl, y);
            long p0 = Clk.proc(), w0 = System.nanoTime(), s0 = Clk.cpu();
            SplittableRandom r = new SplittableRandom(42);
            long ts = T0;
            int tick = 0;
            for (int i = 0; i < N; i++) {
                if (rnd) t.add(10_000 + i / PER_LEDGER, i % PER_LEDGER, T0 + r.nextLong(WEEK));
                else {
                    if (tick++ % x == 0) ts++;
                    t.add(10_000 + i / PER_LEDGER, i % PER_LEDGER, ts);
                }
            }
            long built = Clk.cpu() - s0, builtW = System.nanoTime() - w0, builtP = Clk.proc() - p0;
            s0 = Clk.cpu();
            t.finish();
            long fin = Clk.cpu() - s0;
            long after = Mem.used();
            boolean last = it == iters - 1;
            long jol = -1, objs = -1;
            if (last && !rnd) {
                long[] g = Mem.jol(t.root());
                jol = g[0];
                objs = g[1];
            }
            long serialized = t.serialized(), buckets = t.buckets(), rep = t.reported();
            p0 = Clk.proc();
            w0 = System.nanoTime();
            s0 = Clk.cpu();
            long got = 0;
            int k;
            while ((k = t.drain(1000)) > 0) got += k;
            long drained = Clk.cpu() - s0,
                    drainedW = System.nanoTime() - w0,
                    drainedP = Clk.proc() - p0;
            if (got != N) throw new IllegalStateException("drained " + got);
            System.out.printf(
                    "{\"part\":\"C\",\"label\":\"%s\",\"impl\":\"%s\",\"cfg\":\"%s\",\"fork\":%d,\"iter\":%d,\"warmup\":%b,\"n\":%d,\"buckets\":%d,\"buildNs\":%d,\"buildWallNs\":%d,\"buildProcNs\":%d,\"finishNs\":%d,\"drainNs\":%d,\"drainWallNs\":%d,\"drainProcNs\":%d,\"heapBytes\":%d,\"jolBytes\":%d,\"jolObjects\":%d,\"serializedBytes\":%d,\"reportedBytes\":%d}%n",
                    label,
                    impl,
                    cfg,
                    fork,
                    it,
                    it == 0 && !rnd,
                    N,
                    buckets,
                    built,
                    builtW,
                    builtP,
                    fin,
                    drained,
                    drainedW,
                    drainedP,
                    after - before,
                    jol,
                    objs,
                    serialized,
                    rep);
            System.out.flush();
        }
    }
}
