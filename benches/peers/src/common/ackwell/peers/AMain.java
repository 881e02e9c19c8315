package ackwell.peers;

/**
* A: timed by the CPU time of the thread (and wall
 * time next to it). args: label impl fork dataset... Windows are cut by CPU time: WARM of them warm
 * up, N are reported.
 */
public final class AMain {
    static final int WARM = Integer.getInteger("warm", 4), N = Integer.getInteger("iters", 7);
    static final long WIN = Long.getLong("winMs", 100) * 1_000_000L;
    static long sink;
    static PendingStore s;
    static long[] l, e, rl, re;
    static int n, at;

    interface Op {
        void run(int k);
    }

    static void getSeq(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            t += s.remaining(l[i], e[i]);
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void getRandom(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            t += s.remaining(rl[i], re[i]);
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void containsSeq(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            if (s.contains(l[i], e[i])) t++;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void containsRandom(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            if (s.contains(rl[i], re[i])) t++;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void addOrReplace(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            if (s.add(l[i], e[i], Datasets.remaining(i), Datasets.hash(i))) t++;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void updateRemaining(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            if (s.update(l[i], e[i], 1)) t++;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void removeAdd(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            int r = s.removeGet(l[i], e[i]);
            s.add(l[i], e[i], r == -1 ? Datasets.remaining(i) : r, Datasets.hash(i));
            t += r;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void removeAddRandom(int k) {
        long t = 0;
        int i = at;
        for (; k > 0; k--) {
            int r = s.removeGet(rl[i], re[i]);
            s.add(rl[i], re[i], r == -1 ? Datasets.remaining(i) : r, Datasets.hash(i));
            t += r;
            if (++i == n) i = 0;
        }
        at = i;
        sink += t;
    }

    static void forEachAll(int k) {
        for (; k > 0; k--) sink += s.forEachAll();
    }

    static String label, ds;
    static int fork;

    static void out(String op, double[] c, double[] w, double[] p) {
        System.out.printf(
                "{\"part\":\"A\",\"label\":\"%s\",\"dataset\":\"%s\",\"fork\":%d,\"op\":\"%s\",\"java\":\"%s\",\"cpuNs\":%s,\"wallNs\":%s,\"procNs\":%s}%n",
                label, ds, fork, op, System.getProperty("java.version"), arr(c), arr(w), arr(p));
        System.out.flush();
    }

    static String arr(double[] v) {
        StringBuilder b = new StringBuilder("[");
        for (int i = 0; i < v.length; i++)
            b.append(i == 0 ? "" : ",").append(String.format("%.3f", v[i]));
        return b.append("]").toString();
    }

    static void ops(String name, int chunk, Op op) {
        double[] c = new double[N], w = new double[N], p = new double[N];
        for (int it = -WARM; it < N; it++) {
            long cnt = 0, w0 = System.nanoTime(), p0 = Clk.proc(), c0 = Clk.cpu(), d;
            do {
                op.run(chunk);
                cnt += chunk;
            } while ((d = Clk.cpu() - c0) < WIN);
            long wd = System.nanoTime() - w0, pd = Clk.proc() - p0;
            if (it >= 0) {
                c[it] = (double) d / cnt;
                w[it] = (double) wd / cnt;
                p[it] = (double) pd / cnt;
            }
        }
        out(name, c, w, p);
    }

    public static void main(String[] a) {
        label = a[0];
        String impl = a[1];
        fork = Integer.parseInt(a[2]);
        for (int k = 3; k < a.length; k++) {
            ds = a[k];
            Datasets d = new Datasets(ds);
            d.keys();
            l = d.l;
            e = d.e;
            rl = d.rl;
            re = d.re;
            n = d.entries;
            at = 0;
            s = Datasets.store(impl);
            d.populate(s);
            ops("getSeq", 1000, AMain::getSeq);
            at = 0;
            ops("getRandom", 1000, AMain::getRandom);
            at = 0;
            ops("containsSeq", 1000, AMain::containsSeq);
            at = 0;
            ops("containsRandom", 1000, AMain::containsRandom);
            at = 0;
            ops("forEachAll", 1, AMain::forEachAll);
            at = 0;
            ops("addOrReplace", 1000, AMain::addOrReplace);
            at = 0;
            ops("updateRemaining", 1000, AMain::updateRemaining);
            at = 0;
            ops("removeAdd", 1000, AMain::removeAdd);
            at = 0;
            ops("removeAddRandom", 1000, AMain::removeAddRandom);
            at = 0;
            s = null;
            // bulk: populate a fresh map, then removeAllUpTo on it; each timed alone, a window is
            // at least WIN of cpu in total
            long ml = d.ledgers / 2L, me = d.inLedger(ml) / 2L;
            double[] pc = new double[N],
                    pw = new double[N],
                    pp = new double[N],
                    rc = new double[N],
                    rw = new double[N],
                    rp = new double[N];
            for (int it = -WARM; it < N; it++) {
                long cnt = 0, pcs = 0, pws = 0, rcs = 0, rws = 0, pps = 0;
                do {
                    long w0 = System.nanoTime(), p0 = Clk.proc(), c0 = Clk.cpu();
                    PendingStore t = Datasets.store(impl);
                    d.populate(t);
                    pcs += Clk.cpu() - c0 - Clk.OVERHEAD;
                    pps += Clk.proc() - p0;
                    pws += System.nanoTime() - w0;
                    w0 = System.nanoTime();
                    c0 = Clk.cpu();
                    sink += t.removeAllUpTo(ml, me);
                    rcs += Clk.cpu() - c0 - Clk.OVERHEAD;
                    rws += System.nanoTime() - w0;
                    cnt++;
                } while (pcs < WIN);
                if (it >= 0) {
                    pc[it] = (double) pcs / cnt;
                    pw[it] = (double) pws / cnt;
                    pp[it] = (double) pps / cnt;
                    rc[it] = (double) rcs / cnt;
                    rw[it] = (double) rws / cnt;
                }
            }
            out("populate", pc, pw, pp);
            out("removeAllUpTo", rc, rw, rp);
        }
        if (sink == 42) System.err.println(sink);
    }
}
