package ackwell.peers;

import java.util.SplittableRandom;

public final class Datasets {
    public final int entries, ledgers;
    public long[] l, e, rl, re;

    public Datasets(String s) {
        String[] p = s.split("x");
        ledgers = Integer.parseInt(p[0]);
        entries = Integer.parseInt(p[1]);
    }

    public int inLedger(long id) {
        return entries / ledgers + (id < entries % ledgers ? 1 : 0);
    }

    public void keys() {
        l = new long[entries];
        e = new long[entries];
        int i = 0;
        for (long a = 0; a < ledgers; a++)
            for (long b = 0, n = inLedger(a); b < n; b++) {
                l[i] = a;
                e[i] = b;
                i++;
            }
        rl = l.clone();
        re = e.clone();
        SplittableRandom r = new SplittableRandom(42);
        for (int k = entries - 1; k > 0; k--) {
            int j = r.nextInt(k + 1);
            long t = rl[k];
            rl[k] = rl[j];
            rl[j] = t;
            t = re[k];
            re[k] = re[j];
            re[j] = t;
        }
    }

    public static int remaining(int i) {
        return (i & 15) + 1;
    }

    public static int hash(int i) {
        return i * 31;
    }

    public void populate(PendingStore s) {
        int i = 0;
        for (long a = 0; a < ledgers; a++)
            for (long b = 0, n = inLedger(a); b < n; b++) {
                s.add(a, b, remaining(i), hash(i));
                i++;
            }
    }

    public static PendingStore store(String impl) {
        try {
            return impl.equals("real")
                    ? (PendingStore)
                            Class.forName("org.apache.pulsar.broker.service.RealPendingStore")
                                    .getDeclaredConstructor()
                                    .newInstance()
                    : new PortHashPendingStore();
        } catch (Exception x) {
            throw new RuntimeException(x);
        }
    }
}
