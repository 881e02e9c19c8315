package org.apache.pulsar.common.util.collections;

import org.roaringbitmap.BitSetUtil;
import org.roaringbitmap.RoaringBitmap;

/** Makes the bitmaps of {@code PositionRangeSet}. */
public final class LongBitmaps {
    private LongBitmaps() {}

    public static LongBitmap create() {
        return new LongBitmap.Roaring(new RoaringBitmap());
    }

    public static LongBitmap deserializeFromLongArray(long[] words) {
        return new LongBitmap.Roaring(BitSetUtil.bitmapOf(words));
    }
}
