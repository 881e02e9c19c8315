package ackwell.peers;

import java.util.Random;

/** CPU-time form of BBench (same three scenarios). args: label impl fork size... */
public final class BMain {
    static long sink;

    static BBench.Q make(String i) {
        return i.equals("real") ? new BBench.Real() : new BBench.Flat();
    }

    static void drain(BBench.Q q) {
        while (!q.isEmpty()) {
            sink += q.peekN1();
            q.pop();
        }
    }

    static void recovery(BBench.Q q, int size) {
        long t0 = System.currentTimeMillis();
        Random r = new Random(42);
        for (int i = 0; i < size; i++) q.add(t0 + r.nextLong(3_600_000), i / 1000, i);
        drain(q);
    }

    static void interleaved(BBench.Q q, int size) {
        Random r = new Random(42);
        long t0 = System.currentTimeMillis();
        int added = 0;
        while (added < size) {
            int k = Math.min(500 + r.nextInt(500), size - added);
            for (int i = 0; i < k; i++)
                q.add(t0 + r.nextLong(3_600_000), (added + i) / 1000, added + i);
            added += k;
            int p = (int) Math.min(500, q.size());
            for (int i = 0; i < p; i++) {
                sink += q.peekN1();
                q.pop();
            }
        }
        drain(q);
    }

    static void steady(BBench.Q q, int size) {
        Random r = new Random(42);
        long t0 = System.currentTimeMillis(), seq = 0;
        for (int i = 0; i < 10_000; i++) {
            q.add(t0 + r.nextLong(3_600_000), seq / 1000, seq);
            seq++;
        }
        int ops = 0;
        while (ops < size) {
            int k = 100 + r.nextInt(100);
            for (int i = 0; i < k && ops < size; i++) {
                q.add(t0 + r.nextLong(3_600_000), seq / 1000, seq);
                seq++;
                ops++;
            }
            int p = k - r.nextInt(20);
            for (int i = 0; i < p && !q.isEmpty(); i++) {
                sink += q.peekN1();
                q.pop();
            }
        }
    }

    /** the scenario's own random numbers alone, so that they can be subtracted */
    static void rngOnly(int size) {
        Random r = new Random(42);
        for (int i = 0; i < size; i++) sink += r.nextLong(3_600_000);
    }

    public static void main(String[] a) {
        String label = a[0], impl = a[1];
        int fork = Integer.parseInt(a[2]);
        for (int k = 3; k < a.length; k++) {
            int size = Integer.parseInt(a[k]);
            int n = size >= 2_000_000 ? 4 : 6, warm = size >= 2_000_000 ? 1 : 3;
            int rep = Math.max(1, 200_000 / size);
            for (String sc :
                    new String[] {
                        "recoveryBulkAddThenPop", "interleavedAddPop", "steadyState", "rngOnly"
                    }) {
                double[] c = new double[n], w = new double[n], p = new double[n];
                for (int it = -warm; it < n; it++) {
                    long w0 = System.nanoTime(), p0 = Clk.proc(), c0 = Clk.cpu();
                    for (int x = 0; x < rep; x++) {
                        if (sc.equals("rngOnly")) {
                            rngOnly(size);
                            continue;
                        }
                        try (BBench.Q q = make(impl)) {
                            switch (sc.charAt(0)) {
                                case 'r':
                                    recovery(q, size);
                                    break;
                                case 'i':
                                    interleaved(q, size);
                                    break;
                                default:
                                    steady(q, size);
                            }
                        }
                    }
                    long d = Clk.cpu() - c0;
                    if (it >= 0) {
                        c[it] = d / 1e3 / rep;
                        w[it] = (System.nanoTime() - w0) / 1e3 / rep;
                        p[it] = (Clk.proc() - p0) / 1e3 / rep;
                    }
                }
                System.out.printf(
                        "{\"part\":\"B\",\"label\":\"%s\",\"size\":%d,\"fork\":%d,\"op\":\"%s\",\"java\":\"%s\",\"cpuUs\":%s,\"wallUs\":%s,\"procUs\":%s}%n",
                        label,
                        size,
                        fork,
                        sc,
                        System.getProperty("java.version"),
                        AMain.arr(c),
                        AMain.arr(w),
                        AMain.arr(p));
                System.out.flush();
            }
        }
        if (sink == 42) System.err.println(sink);
    }
}
