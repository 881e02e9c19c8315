package ackwell.peers;

import it.unimi.dsi.fastutil.longs.Long2LongMap;
import it.unimi.dsi.fastutil.longs.Long2LongOpenHashMap;
import it.unimi.dsi.fastutil.objects.ObjectIterator;

import java.util.BitSet;
import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.function.Supplier;

/**
 * OWN PORT (not Pulsar code) of the design that PR 26024 describes: ordered map of ledgers, inside
 * a ledger an open-addressing long->long table of packed (remaining, hash), plus a BitSet of entry
 * ids for same-ledger prefix cleanup. Locks, null handler suppliers and the volatile size counter
 * are kept as the released classes have them.
 */
public final class PortHashPendingStore implements PendingStore {
    private static final long NONE = 0xFFFFFFFF00000000L; // remaining = -1

    interface C {
        void accept(long l, long e, int r, int h);
    }

    static final class Inner {
        final Long2LongOpenHashMap m = new Long2LongOpenHashMap();
        BitSet index = new BitSet();

        Inner() {
            m.defaultReturnValue(NONE);
        }

        void put(long e, long v) {
            m.put(e, v);
            if (index != null) {
                if (e >= 0 && e <= 10_000_000L) index.set((int) e);
                else index = null;
            }
        }

        long remove(long e) {
            long v = m.remove(e);
            if (v != NONE && index != null) index.clear((int) e);
            return v;
        }
    }

    private final TreeMap<Long, Inner> outer = new TreeMap<>();
    private final Lock rl, wl;
    private final Supplier<Object> addH = () -> null, remH = () -> null;
    private boolean closed;
    private volatile long size;
    private long total;
    private final C all = (l, e, r, h) -> total += r + h;
    private final C rem = (l, e, r, h) -> total += r;

    public PortHashPendingStore() {
        ReentrantReadWriteLock l = new ReentrantReadWriteLock();
        rl = l.readLock();
        wl = l.writeLock();
    }

    static long pack(int r, int h) {
        return ((long) r << 32) | (h & 0xFFFFFFFFL);
    }

    public boolean add(long l, long e, int r, int h) {
        wl.lock();
        try {
            if (closed) return false;
            if (addH.get() != null) return false;
            Inner in = outer.computeIfAbsent(l, k -> new Inner());
            int before = in.m.size();
            in.put(e, pack(r, h));
            if (in.m.size() != before) size = size + 1;
            return true;
        } finally {
            wl.unlock();
        }
    }

    public boolean contains(long l, long e) {
        rl.lock();
        try {
            Inner in = outer.get(l);
            return in != null && in.m.containsKey(e);
        } finally {
            rl.unlock();
        }
    }

    public int remaining(long l, long e) {
        rl.lock();
        try {
            Inner in = outer.get(l);
            return in == null ? -1 : (int) (in.m.get(e) >> 32);
        } finally {
            rl.unlock();
        }
    }

    public boolean update(long l, long e, int d) {
        wl.lock();
        try {
            Inner in = outer.get(l);
            if (in == null) return false;
            long v = in.m.get(e);
            if (v == NONE) return false;
            in.m.put(e, pack((int) (v >> 32) - d, (int) v));
            return true;
        } finally {
            wl.unlock();
        }
    }

    public int removeGet(long l, long e) {
        wl.lock();
        try {
            Inner in = outer.get(l);
            if (in == null) return -1;
            long v = in.remove(e);
            if (v == NONE) return -1;
            size = size - 1;
            if (remH.get() != null) throw new IllegalStateException();
            if (in.m.isEmpty()) outer.remove(l);
            return (int) (v >> 32);
        } finally {
            wl.unlock();
        }
    }

    private static void visit(long l, Inner in, C c) {
        ObjectIterator<Long2LongMap.Entry> it = in.m.long2LongEntrySet().fastIterator();
        while (it.hasNext()) {
            Long2LongMap.Entry x = it.next();
            long v = x.getLongValue();
            c.accept(l, x.getLongKey(), (int) (v >> 32), (int) v);
        }
    }

    public long forEachAll() {
        rl.lock();
        try {
            total = 0;
            for (Map.Entry<Long, Inner> x : outer.entrySet()) visit(x.getKey(), x.getValue(), all);
            return total;
        } finally {
            rl.unlock();
        }
    }

    public long removeAllUpTo(long ml, long me) {
        wl.lock();
        try {
            total = 0;
            Object h = remH.get();
            Iterator<Map.Entry<Long, Inner>> it = outer.headMap(ml, true).entrySet().iterator();
            while (it.hasNext()) {
                Map.Entry<Long, Inner> x = it.next();
                long l = x.getKey();
                Inner in = x.getValue();
                if (l < ml) {
                    visit(l, in, rem);
                    size = size - in.m.size();
                    it.remove();
                } else {
                    int n = 0;
                    if (in.index != null) {
                        int hi = (int) Math.min(me, Integer.MAX_VALUE - 1);
                        for (int b = in.index.nextSetBit(0);
                                b >= 0 && b <= hi;
                                b = in.index.nextSetBit(b + 1)) {
                            long v = in.m.remove(b);
                            rem.accept(l, b, (int) (v >> 32), (int) v);
                            n++;
                        }
                        in.index.clear(0, hi + 1);
                    } else {
                        ObjectIterator<Long2LongMap.Entry> i2 =
                                in.m.long2LongEntrySet().fastIterator();
                        while (i2.hasNext()) {
                            Long2LongMap.Entry y = i2.next();
                            if (y.getLongKey() <= me) {
                                rem.accept(
                                        l,
                                        y.getLongKey(),
                                        (int) (y.getLongValue() >> 32),
                                        (int) y.getLongValue());
                                i2.remove();
                                n++;
                            }
                        }
                    }
                    size = size - n;
                    if (in.m.isEmpty()) it.remove();
                }
            }
            if (h != null) throw new IllegalStateException();
            return total;
        } finally {
            wl.unlock();
        }
    }

    public long size() {
        return size;
    }

    public Object root() {
        return this;
    }
}
