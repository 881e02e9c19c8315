package ackwell.peers;

import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;

import org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTracker;

import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * The released tracker with a fixed clock, a timer that never fires and no dispatcher (only its
 * timer task and debug logs use it).
 */
public final class RealTracker implements CMain.T {
    static final class NoTimeout implements Timeout {
        final Timer t;
        final TimerTask k;

        NoTimeout(Timer t, TimerTask k) {
            this.t = t;
            this.k = k;
        }

        public Timer timer() {
            return t;
        }

        public TimerTask task() {
            return k;
        }

        public boolean isExpired() {
            return false;
        }

        public boolean isCancelled() {
            return false;
        }

        public boolean cancel() {
            return true;
        }
    }

    static final class NoTimer implements Timer {
        public Timeout newTimeout(TimerTask k, long d, TimeUnit u) {
            return new NoTimeout(this, k);
        }

        public Set<Timeout> stop() {
            return Set.of();
        }
    }

    final CMain.FixedClock c = new CMain.FixedClock();
    final InMemoryDelayedDeliveryTracker t;

    // tick of 1<<y ms gives exactly y trimmed bits
    public RealTracker(int y) {
        try {
            Class<?> ctx = Class.forName("org.apache.pulsar.broker.delayed.DelayedDeliveryContext");
            Object lock = new Object();
            Object p =
                    java.lang.reflect.Proxy.newProxyInstance(
                            ctx.getClassLoader(),
                            new Class<?>[] {ctx},
                            (o, m, a) ->
                                    m.getName().equals("getName")
                                            ? "peer"
                                            : m.getName().equals("getTriggerLock") ? lock : null);
            var k =
                    InMemoryDelayedDeliveryTracker.class.getDeclaredConstructor(
                            ctx,
                            Timer.class,
                            long.class,
                            java.time.Clock.class,
                            boolean.class,
                            long.class);
            k.setAccessible(true);
            t =
                    (InMemoryDelayedDeliveryTracker)
                            k.newInstance(p, new NoTimer(), 1L << y, c, false, 0L);
        } catch (Exception x) {
            throw new RuntimeException(x);
        }
    }

    public void add(long l, long e, long ts) {
        if (!t.addMessage(l, e, ts)) throw new IllegalStateException("not tracked");
    }

    public int drain(int n) {
        c.t = CMain.T0 + 2 * CMain.WEEK;
        return t.getScheduledMessages(n).size();
    }

    public long reported() {
        return t.getBufferMemoryUsage();
    }

    public Object root() {
        try {
            Class<?> k = t.getClass();
            var f = k.getDeclaredField("delayedMessageMap");
            f.setAccessible(true);
            return f.get(t);
        } catch (Exception x) {
            throw new RuntimeException(x);
        }
    }

    public long buckets() {
        return ((java.util.Map<?, ?>) root()).size();
    }
}
