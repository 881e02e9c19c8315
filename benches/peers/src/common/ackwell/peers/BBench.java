package ackwell.peers;

import org.apache.pulsar.common.util.collections.TripleLongPriorityQueue;
import org.openjdk.jmh.annotations.*;
import org.openjdk.jmh.infra.Blackhole;

import java.util.Random;
import java.util.concurrent.TimeUnit;

/**
 * The three upstream scenarios (random deliverAt in one hour, seed 42), one whole scenario per
 * invocation.
 */
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@State(Scope.Thread)
public class BBench {
    public interface Q extends AutoCloseable {
        void add(long a, long b, long c);

        long peekN1();

        long peekN2();

        long peekN3();

        void pop();

        boolean isEmpty();

        long size();

        long bytes();

        void close();
    }

    /** the released class of whichever pulsar-common is on the class path */
    public static final class Real implements Q {
        final TripleLongPriorityQueue q = new TripleLongPriorityQueue();

        public void add(long a, long b, long c) {
            q.add(a, b, c);
        }

        public long peekN1() {
            return q.peekN1();
        }

        public long peekN2() {
            return q.peekN2();
        }

        public long peekN3() {
            return q.peekN3();
        }

        public void pop() {
            q.pop();
        }

        public boolean isEmpty() {
            return q.isEmpty();
        }

        public long size() {
            return q.size();
        }

        public long bytes() {
            return q.bytesCapacity();
        }

        public void close() {
            q.close();
        }
    }

    /**
     * OWN PORT (not Pulsar code): hole sifting over one flat heap long[], growth x1.5, no
     * shrinking: the PR's "further optimization" remark.
     */
    public static final class Flat implements Q {
        long[] a = new long[48];
        int n;

        public void add(long x, long y, long z) {
            if ((n + 1) * 3 > a.length)
                a =
                        java.util.Arrays.copyOf(
                                a,
                                (a.length / 3 + (a.length / 3 <= 256 ? a.length / 3 : a.length / 6))
                                        * 3);
            long[] h = a;
            int i = n++;
            while (i > 0) {
                int p = (i - 1) >>> 1, b = p * 3;
                long px = h[b];
                if (px < x) break;
                long py = h[b + 1], pz = h[b + 2];
                if (px == x && (py < y || (py == y && pz <= z))) break;
                int o = i * 3;
                h[o] = px;
                h[o + 1] = py;
                h[o + 2] = pz;
                i = p;
            }
            int o = i * 3;
            h[o] = x;
            h[o + 1] = y;
            h[o + 2] = z;
        }

        static boolean less(long a, long b, long c, long x, long y, long z) {
            return a != x ? a < x : b != y ? b < y : c < z;
        }

        public void pop() {
            long[] h = a;
            int m = --n;
            if (m == 0) return;
            long x = h[m * 3], y = h[m * 3 + 1], z = h[m * 3 + 2];
            int i = 0, half = m >>> 1;
            while (i < half) {
                int c = 2 * i + 1, b = c * 3;
                long cx = h[b], cy = h[b + 1], cz = h[b + 2];
                if (c + 1 < m && less(h[b + 3], h[b + 4], h[b + 5], cx, cy, cz)) {
                    c++;
                    b += 3;
                    cx = h[b];
                    cy = h[b + 1];
                    cz = h[b + 2];
                }
                if (!less(cx, cy, cz, x, y, z)) break;
                int o = i * 3;
                h[o] = cx;
                h[o + 1] = cy;
                h[o + 2] = cz;
                i = c;
            }
            int o = i * 3;
            h[o] = x;
            h[o + 1] = y;
            h[o + 2] = z;
        }

        public long peekN1() {
            return a[0];
        }

        public long peekN2() {
            return a[1];
        }

        public long peekN3() {
            return a[2];
        }

        public boolean isEmpty() {
            return n == 0;
        }

        public long size() {
            return n;
        }

        public long bytes() {
            return a.length * 8L;
        }

        public void close() {
            a = null;
        }
    }

    @Param({"50000"})
    public int size;

    @Param({"real"})
    public String impl;

    Q make() {
        return impl.equals("real") ? new Real() : new Flat();
    }

    @Benchmark
    public void recoveryBulkAddThenPop(Blackhole bh) {
        try (Q q = make()) {
            long t0 = System.currentTimeMillis();
            Random r = new Random(42);
            for (int i = 0; i < size; i++) q.add(t0 + r.nextLong(3_600_000), i / 1000, i);
            while (!q.isEmpty()) {
                bh.consume(q.peekN1());
                q.pop();
            }
        }
    }

    @Benchmark
    public void interleavedAddPop(Blackhole bh) {
        try (Q q = make()) {
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
                    bh.consume(q.peekN1());
                    q.pop();
                }
            }
            while (!q.isEmpty()) {
                bh.consume(q.peekN1());
                q.pop();
            }
        }
    }

    @Benchmark
    public void steadyState(Blackhole bh) {
        try (Q q = make()) {
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
                    bh.consume(q.peekN1());
                    q.pop();
                }
            }
        }
    }
}
