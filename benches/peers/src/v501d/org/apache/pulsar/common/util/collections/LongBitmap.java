package org.apache.pulsar.common.util.collections;

import org.roaringbitmap.BitSetUtil;
import org.roaringbitmap.RoaringBitmap;

/**
 * The bitmap methods that {@code PositionRangeSet} of Pulsar 5.0.1 calls, on a plain RoaringBitmap.
 *
 * <p>Pulsar's bitmap is in pulsar-common 5.0.1, which Maven Central does not have. It locks around
 * each call; this one does not, so the peer is at least as fast as Pulsar.
 */
public interface LongBitmap {
    void add(long value);

    void add(long from, long to);

    boolean checkedAdd(long value);

    boolean remove(long from, long to);

    boolean contains(long value);

    long cardinality();

    boolean isEmpty();

    void clear();

    long rank(long end);

    long lastPresentValue();

    long nextPresentValue(long from);

    long nextAbsentValue(long from);

    long previousAbsentValue(long from);

    long[] serializeToLongArray();

    /** On a RoaringBitmap. */
    final class Roaring implements LongBitmap {
        private final RoaringBitmap bits;

        Roaring(RoaringBitmap bits) {
            this.bits = bits;
        }

        @Override
        public void add(long value) {
            bits.add((int) value);
        }

        @Override
        public void add(long from, long to) {
            if (to == from + 1) {
                bits.add((int) from);
            } else if (to > from) {
                bits.add(from, to);
            }
        }

        @Override
        public boolean checkedAdd(long value) {
            return bits.checkedAdd((int) value);
        }

        @Override
        public boolean remove(long from, long to) {
            long before = bits.getLongCardinality();
            bits.remove(from, to);
            return bits.getLongCardinality() != before;
        }

        @Override
        public boolean contains(long value) {
            return bits.contains((int) value);
        }

        @Override
        public long cardinality() {
            return bits.getLongCardinality();
        }

        @Override
        public boolean isEmpty() {
            return bits.isEmpty();
        }

        @Override
        public void clear() {
            bits.clear();
        }

        @Override
        public long rank(long end) {
            return end <= 0 ? 0 : bits.rankLong((int) (end - 1));
        }

        @Override
        public long lastPresentValue() {
            return bits.isEmpty() ? -1 : Integer.toUnsignedLong(bits.last());
        }

        @Override
        public long nextPresentValue(long from) {
            return bits.nextValue((int) from);
        }

        @Override
        public long nextAbsentValue(long from) {
            return bits.nextAbsentValue((int) from);
        }

        @Override
        public long previousAbsentValue(long from) {
            return bits.previousAbsentValue((int) from);
        }

        @Override
        public long[] serializeToLongArray() {
            return BitSetUtil.toLongArray(bits);
        }
    }
}
