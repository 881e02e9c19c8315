package ackwell.peers;

import org.apache.pulsar.broker.delayed.InMemoryDelayedDeliveryTracker;

import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.Random;

/**
 * Records the answers of the released tracker to random calls, as JSON lines for tests/vectors/delayed.jsonl: a line for each
 * tracker, with its tick, its cut-off and its calls. An add is [now, deliver_at, entry, tracked, paused], a pop
 * [now, entries].
 */
public final class RecordTracker {
    static final class SetClock extends Clock {
        long now;

        public ZoneId getZone() {
            return ZoneOffset.UTC;
        }

        public Clock withZone(ZoneId zone) {
            return this;
        }

        public Instant instant() {
            return Instant.ofEpochMilli(now);
        }

        public long millis() {
            return now;
        }
    }

    static final int LOOK_AHEAD = 20;

    public static void main(String[] arguments) {
        Random random = new Random(14);
        for (long tick : new long[] {1, 2, 100, 1000, 1024}) {
            for (boolean strict : new boolean[] {true, false}) {
                record(tick, strict, false, random);
                record(tick, strict, true, random);
            }
        }
    }

    /** With fixed delays nothing is due before entry 60, which is plain; of the others a third is taken at random. */
    private static void record(long tick, boolean strict, boolean fixed, Random random) {
        SetClock clock = new SetClock();
        clock.now = 100_000;
        var tracker = new InMemoryDelayedDeliveryTracker(null, new RealTracker.NoTimer(), tick, clock, strict, LOOK_AHEAD);
        StringBuilder calls = new StringBuilder();
        for (int entry = 0; entry < 100; entry++) {
            clock.now += random.nextInt((int) (2 * tick));
            long deliverAt = fixed
                    ? (entry == 60 ? -1 : clock.now + 300 * tick)
                    : clock.now + random.nextLong(6 * tick + 2) - tick;
            boolean tracked = tracker.addMessage(7, entry, deliverAt);
            calls.append(String.format("[%d,%d,%d,%b,%b],", clock.now, deliverAt, entry, tracked,
                    tracker.shouldPauseAllDeliveries()));
            if (fixed ? entry == 70 : random.nextInt(3) == 0) {
                clock.now += fixed ? 1000 * tick : random.nextInt((int) (2 * tick));
                StringBuilder popped = new StringBuilder();
                tracker.getScheduledMessages(1000).forEach(position -> popped.append(position.getEntryId()).append(','));
                if (popped.length() > 0) {
                    popped.setLength(popped.length() - 1);
                }
                calls.append(String.format("[%d,[%s]],", clock.now, popped));
            }
        }
        calls.setLength(calls.length() - 1);
        System.out.printf("{\"tick_time_ms\":%d,\"strict\":%b,\"look_ahead\":%d,\"calls\":[%s]}%n",
                tick, strict, LOOK_AHEAD, calls);
    }
}
