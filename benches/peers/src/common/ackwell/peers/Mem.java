package ackwell.peers;

import org.openjdk.jol.info.GraphStats;

public final class Mem {
    static long used() {
        long best = Long.MAX_VALUE;
        for (int i = 0; i < 3; i++) {
            System.gc();
            Runtime r = Runtime.getRuntime();
            best = Math.min(best, r.totalMemory() - r.freeMemory());
        }
        return best;
    }

    static long[] jol(Object o) {
        GraphStats g = GraphStats.parseInstance(o);
        return new long[] {g.totalSize(), g.totalCount()};
    }
}
