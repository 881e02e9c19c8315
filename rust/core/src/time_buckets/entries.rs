//! The entry ids of one ledger in one bucket, stored as one range if possible, otherwise as a roaring bitmap.
//!
//! Messages with a fixed delay arrive in order, so a ledger mostly has a single range in a bucket. A range is stored
//! inline and needs no allocation, but a bitmap of one element allocates 170 bytes. Ids above 32 bits need roaring's
//! 64-bit form.

use roaring::{RoaringBitmap, RoaringTreemap};

use crate::delayed::DelayedColumns;
use crate::error::Validity;

#[derive(Debug, Clone)]
pub(super) enum Entries {
    /// The ids from the first to the last, inclusive.
    Range(u64, u64),
    Narrow(RoaringBitmap),
    Wide(Box<RoaringTreemap>),
}

/// The size in bytes of a container of `roaring` 0.12: key, tag and vector. The type is private in `roaring`. The
/// allocator test fails if the size changes.
const CONTAINER_BYTES: usize = 40;

impl Entries {
    /// Returns whether the set has the id.
    pub(super) fn contains(&self, entry: u64) -> bool {
        match self {
            Self::Range(first, last) => (*first..=*last).contains(&entry),
            Self::Narrow(bitmap) => u32::try_from(entry).is_ok_and(|entry| bitmap.contains(entry)),
            Self::Wide(treemap) => treemap.contains(entry),
        }
    }

    /// Returns the least id at or after `entry`.
    pub(super) fn next(&self, entry: u64) -> Option<u64> {
        match self {
            Self::Range(first, last) => (entry <= *last).then_some((*first).max(entry)),
            Self::Narrow(bitmap) => {
                let entry = u32::try_from(entry).ok()?;
                bitmap.range(entry..).next().map(u64::from)
            }
            Self::Wide(treemap) => {
                let mut ids = treemap.iter();
                ids.advance_to(entry);
                ids.next()
            }
        }
    }

    /// Inserts the ids from `first` to `last`, inclusive.
    pub(super) fn insert(&mut self, first: u64, last: u64) {
        if let Self::Range(start, end) = self {
            let apart = first > end.saturating_add(1) || last.saturating_add(1) < *start;
            if !apart {
                (*start, *end) = ((*start).min(first), (*end).max(last));
                return;
            }
            let (start, end) = (*start, *end);
            *self = Self::Narrow(RoaringBitmap::new());
            self.insert(start, end);
        }
        if let Self::Narrow(bitmap) = self {
            if let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) {
                bitmap.insert_range(first..=last);
                return;
            }
            let bitmap = std::mem::take(bitmap);
            *self = Self::Wide(Box::new(RoaringTreemap::from_bitmaps([(0, bitmap)])));
        }
        if let Self::Wide(treemap) = self {
            treemap.insert_range(first..=last);
        }
    }

    /// Removes an id, which must be in the set. Returns false if the set is then empty.
    pub(super) fn remove(&mut self, entry: u64) -> bool {
        match self {
            Self::Range(first, last) => {
                if first == last {
                    return false;
                }
                if entry == *first {
                    *first += 1;
                } else if entry == *last {
                    *last -= 1;
                } else {
                    let (first, last) = (*first, *last);
                    *self = Self::Range(first, entry - 1);
                    self.insert(entry + 1, last);
                }
                true
            }
            Self::Narrow(bitmap) => {
                bitmap.remove(entry as u32);
                !bitmap.is_empty()
            }
            Self::Wide(treemap) => {
                treemap.remove(entry);
                !treemap.is_empty()
            }
        }
    }

    /// Returns the number of ids.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Range(first, last) => last - first + 1,
            Self::Narrow(bitmap) => bitmap.len(),
            Self::Wide(treemap) => treemap.len(),
        }
    }

    /// Moves up to `max` ids, the least first, from the set into the columns. Returns false if the set is then empty.
    pub(super) fn drain(
        &mut self,
        time: i64,
        ledger: i64,
        max: usize,
        due: &mut DelayedColumns,
    ) -> bool {
        let mut left = max as u64;
        match self {
            Self::Range(first, last) => {
                let taken = (*last - *first + 1).min(left);
                due.push_run(time, ledger, *first as i64, (*first + (taken - 1)) as i64);
                *first += taken;
                *first <= *last
            }
            Self::Narrow(bitmap) => {
                let mut ids = bitmap.iter();
                while left > 0
                    && let Some(range) = ids.next_range()
                {
                    let (first, last) = (u64::from(*range.start()), u64::from(*range.end()));
                    let taken = (last - first + 1).min(left);
                    due.push_run(time, ledger, first as i64, (first + (taken - 1)) as i64);
                    left -= taken;
                }
                bitmap.remove_smallest(max as u64 - left);
                !bitmap.is_empty()
            }
            Self::Wide(treemap) => {
                let mut last = None;
                for entry in treemap.iter().take(max) {
                    due.push_run(time, ledger, entry as i64, entry as i64);
                    last = Some(entry);
                }
                if let Some(last) = last {
                    treemap.remove_range(..=last);
                }
                !treemap.is_empty()
            }
        }
    }

    /// Converts each container to a run container if that is smaller. If the ids form a single range, converts the set
    /// to an inline range.
    pub(super) fn optimize(&mut self) {
        match self {
            Self::Range(..) => {}
            Self::Narrow(bitmap) => {
                bitmap.optimize();
                if let (Some(first), Some(last)) = (bitmap.min(), bitmap.max())
                    && u64::from(last - first) + 1 == bitmap.len()
                {
                    *self = Self::Range(first.into(), last.into());
                }
            }
            Self::Wide(treemap) => {
                treemap.optimize();
            }
        }
    }

    /// Releases unused memory by copying to vectors of the exact size.
    pub(super) fn shrink_to_fit(&mut self) {
        self.optimize();
        *self = self.clone();
    }

    /// Returns the size of the heap memory in bytes, computed from roaring's statistics.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Range(..) => 0,
            Self::Narrow(bitmap) => bitmap_bytes(bitmap),
            Self::Wide(treemap) => {
                // The treemap is a B-tree of keys and bitmaps. Six of the eleven places of a leaf are assumed to be
                // used.
                let leaf = 11 * (size_of::<u32>() + size_of::<RoaringBitmap>()) + 16;
                let leaves = treemap.bitmaps().count().div_ceil(6);
                size_of::<RoaringTreemap>()
                    + leaves * leaf
                    + treemap.bitmaps().map(|(_, bitmap)| bitmap_bytes(bitmap)).sum::<usize>()
            }
        }
    }

    /// Encodes the ids in roaring's portable format. The returned flag is true for the 64-bit format, which is used
    /// only if an id needs it.
    pub(super) fn to_roaring(&self) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let wide = match self {
            Self::Range(first, last) => {
                let mut bitmap = Self::Narrow(RoaringBitmap::new());
                bitmap.insert(*first, *last);
                bitmap.force_runs();
                return bitmap.to_roaring();
            }
            Self::Narrow(bitmap) => bitmap.serialize_into(&mut bytes).map(|()| false),
            Self::Wide(treemap) => {
                // If all ids beyond 32 bits were removed, the 32-bit format suffices.
                let mut parts = treemap.bitmaps().filter(|(_, part)| !part.is_empty());
                match (parts.next(), parts.next()) {
                    (Some((0, narrow)), None) => narrow.serialize_into(&mut bytes).map(|()| false),
                    _ => treemap.serialize_into(&mut bytes).map(|()| true),
                }
            }
        };
        (bytes, wide.expect("writing to memory"))
    }

    fn force_runs(&mut self) {
        match self {
            Self::Range(..) => {}
            Self::Narrow(bitmap) => {
                bitmap.optimize();
            }
            Self::Wide(treemap) => {
                treemap.optimize();
            }
        }
    }

    /// Decodes ids from roaring's portable format: from the 64-bit format if `wide` is true, otherwise from the 32-bit
    /// format. Returns `None` for other bytes, for an empty set, and for an id outside int64.
    pub(super) fn from_roaring(bytes: &[u8], wide: bool) -> Option<Self> {
        let mut rest = bytes;
        let mut entries = if wide {
            let treemap = RoaringTreemap::deserialize_from(&mut rest).ok()?;
            let last = treemap.max()?;
            if last > i64::MAX as u64 || treemap.bitmaps().any(|(_, b)| b.is_empty()) {
                return None;
            }
            match treemap.bitmaps().next() {
                Some((_, narrow)) if last <= u64::from(u32::MAX) => Self::Narrow(narrow.clone()),
                _ => Self::Wide(Box::new(treemap)),
            }
        } else {
            let bitmap = RoaringBitmap::deserialize_from(&mut rest).ok()?;
            bitmap.min()?;
            Self::Narrow(bitmap)
        };
        entries.optimize();
        rest.is_empty().then_some(entries)
    }

    /// Calls `visit` in order with the first and the last id of each range of consecutive ids.
    pub(super) fn for_each_range(&self, mut visit: impl FnMut(u64, u64)) {
        match self {
            Self::Range(first, last) => visit(*first, *last),
            Self::Narrow(bitmap) => {
                let mut ids = bitmap.iter();
                while let Some(range) = ids.next_range() {
                    visit(u64::from(*range.start()), u64::from(*range.end()));
                }
            }
            Self::Wide(treemap) => treemap.iter().for_each(|entry| visit(entry, entry)),
        }
    }

    pub(super) fn validate(&self) -> Validity {
        let fault = match self {
            Self::Range(first, last) if first > last || *last > i64::MAX as u64 => {
                Some(format!("range {first}..={last}"))
            }
            Self::Narrow(bitmap) => bitmap.internal_validate().err().map(str::to_owned),
            _ => None,
        };
        match fault {
            _ if self.len() == 0 => Err("an empty set of entries is kept".into()),
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    let statistics = bitmap.statistics();
    // The statistics of the crate are too large, because they count four bytes for each u16 of an array, and 65,536
    // bytes for the 65,536 bits of a bitset.
    let arrays = statistics.n_bytes_array_containers as usize / 2;
    let bitsets = statistics.n_bitset_containers as usize * 8192;
    let containers = statistics.n_containers as usize;
    // The vector of containers first has room for four containers, and doubles when it is full.
    let reserved = if containers == 0 { 0 } else { containers.next_power_of_two().max(4) };
    arrays + bitsets + statistics.n_bytes_run_containers as usize + reserved * CONTAINER_BYTES
}
