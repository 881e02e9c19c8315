package org.apache.pulsar.broker.service;

import org.apache.pulsar.common.util.collections.IntIntPair;

public final class RealPendingStore implements ackwell.peers.PendingStore {
    private final PendingAcksMap m = new PendingAcksMap(null, () -> null, () -> null);
    private long total;
    private final PendingAcksMap.PendingAcksConsumer all = (l, e, b, h) -> total += b + h;
    private final PendingAcksMap.PendingAcksConsumer rem = (l, e, b, h) -> total += b;

    public boolean add(long l, long e, int r, int h) {
        return m.addPendingAckIfAllowed(l, e, r, h);
    }

    public boolean contains(long l, long e) {
        return m.contains(l, e);
    }

    public int remaining(long l, long e) {
        IntIntPair p = m.get(l, e);
        return p == null ? -1 : p.leftInt();
    }

    public boolean update(long l, long e, int d) {
        return m.updateRemainingUnacked(l, e, d);
    }

    public int removeGet(long l, long e) {
        IntIntPair p = m.removeAndGet(l, e);
        return p == null ? -1 : p.leftInt();
    }

    public long forEachAll() {
        total = 0;
        m.forEach(all);
        return total;
    }

    public long removeAllUpTo(long l, long e) {
        total = 0;
        m.removeAllUpTo(l, e, rem);
        return total;
    }

    public long size() {
        return m.size();
    }

    public Object root() {
        return m;
    }
}
