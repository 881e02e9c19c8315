package ackwell.peers;

import java.util.PriorityQueue;
import java.util.Random;

/** bytes per element (capacity that the queue itself reports) and a differential order check. */
public final class BMem {
    public static void main(String[] a) {
        for (int n : new int[] {50_000, 500_000, 2_000_000, 10_000_000}) {
            BBench.Q q = a[1].equals("real") ? new BBench.Real() : new BBench.Flat();
            Random r = new Random(42);
            long t0 = 1_700_000_000_000L;
            for (int i = 0; i < n; i++) q.add(t0 + r.nextLong(3_600_000), i / 1000, i);
            System.out.printf(
                    "{\"part\":\"B\",\"kind\":\"memory\",\"label\":\"%s\",\"size\":%d,\"bytes\":%d,\"bytesPerElement\":%.2f}%n",
                    a[0], n, q.bytes(), q.bytes() / (double) n);
            q.close();
        }
        BBench.Q q = a[1].equals("real") ? new BBench.Real() : new BBench.Flat();
        PriorityQueue<long[]> m =
                new PriorityQueue<>(
                        (x, y) ->
                                x[0] != y[0]
                                        ? Long.compare(x[0], y[0])
                                        : x[1] != y[1]
                                                ? Long.compare(x[1], y[1])
                                                : Long.compare(x[2], y[2]));
        Random r = new Random(7);
        for (int i = 0; i < 300_000; i++) {
            if (m.isEmpty() || r.nextInt(5) < 3) {
                long[] t = {r.nextInt(50), r.nextInt(5), r.nextInt(1000)};
                q.add(t[0], t[1], t[2]);
                m.add(t);
            } else {
                long[] t = m.poll();
                if (t[0] != q.peekN1() || t[1] != q.peekN2() || t[2] != q.peekN3())
                    throw new IllegalStateException("order");
                q.pop();
            }
        }
    }
}
