package ackwell.peers;

import java.lang.management.*;

/**
 * CPU time of the calling thread, CPU time of the whole process (GC and JIT threads included) and
 * wall time.
 */
public final class Clk {
    private static final ThreadMXBean T = ManagementFactory.getThreadMXBean();
    private static final com.sun.management.OperatingSystemMXBean P =
            (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static long cpu() {
        return T.getCurrentThreadCpuTime();
    }

    public static long proc() {
        return P.getProcessCpuTime();
    }

    public static final long OVERHEAD; // of one cpu() pair

    static {
        long best = Long.MAX_VALUE;
        for (int i = 0; i < 20000; i++) {
            long a = cpu();
            long b = cpu();
            best = Math.min(best, b - a);
        }
        OVERHEAD = best;
    }
}
