package ackwell.peers;

import org.openjdk.jol.info.GraphStats;

/** Retained bytes by JOL, plus an equivalence check against a plain model. */
public final class AMem {
    public static void main(String[] a) throws Exception {
        String label = a[0], impl = a[1];
        for (int k = 2; k < a.length; k++) {
            Datasets d = new Datasets(a[k]);
            PendingStore s = Datasets.store(impl);
            d.populate(s);
            if (s.size() != d.entries) throw new IllegalStateException("size");
            GraphStats g = GraphStats.parseInstance(s.root());
            long bytes = g.totalSize(), objs = g.totalCount();
            // checks: cleanup keeps exactly the rest
            long ml = d.ledgers / 2L, me = d.inLedger(ml) / 2L;
            long expectRemoved = 0, expectSum = 0;
            int i = 0;
            for (long x = 0; x < d.ledgers; x++)
                for (long y = 0, n = d.inLedger(x); y < n; y++, i++)
                    if (x < ml || (x == ml && y <= me)) {
                        expectRemoved++;
                        expectSum += Datasets.remaining(i);
                    }
            long got = s.removeAllUpTo(ml, me);
            if (got != expectSum || s.size() != d.entries - expectRemoved)
                throw new IllegalStateException("removeAllUpTo " + got + " " + expectSum);
            System.out.printf(
                    "{\"part\":\"A\",\"kind\":\"memory\",\"label\":\"%s\",\"dataset\":\"%s\",\"bytes\":%d,\"objects\":%d,\"entries\":%d,\"bytesPerEntry\":%.2f,\"removedByUpTo\":%d}%n",
                    label, a[k], bytes, objs, d.entries, bytes / (double) d.entries, expectRemoved);
        }
    }
}
