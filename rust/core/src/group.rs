//! Rows of columns brought together by a small code: how a batch of events is cut by subscription.
//!
//! A stable counting sort: one pass counts, one finds each row's place, and one for each column moves
//! it there. A comparison sort of the codes, or a gather by index, costs several times as much.

use crate::error::{Error, Result};

/// Where the rows of some columns go, by code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// The codes that occur, rising.
    pub codes: Vec<i64>,
    /// Where each code's rows begin, and behind them the number of rows.
    pub starts: Vec<i64>,
    /// The place of each row: by code, and those of one code in their order.
    places: Vec<u32>,
}

/// Codes there may be, where there are not more rows than that: counting them takes 4 bytes a code.
const WIDTH_MAX: usize = 1 << 24;

impl Grouping {
    /// Finds the place of each row by its code; codes are in `0..width`. O(rows + width).
    ///
    /// # Errors
    /// [`Error::Value`] for 2^32 rows or more, codes outside `0..width`, and a width beyond both 2^24 and the
    /// number of rows.
    pub fn new(codes: &[i32], width: usize) -> Result<Self> {
        u32::try_from(codes.len()).map_err(|_| Error::Value("2^32 rows or more at once".into()))?;
        if width > WIDTH_MAX.max(codes.len()) {
            let message = format!("{width} codes for {} rows: at most {WIDTH_MAX}", codes.len());
            return Err(Error::Value(message));
        }
        let mut next = vec![0u32; width];
        for code in codes {
            // A negative code becomes one past every width.
            let count = next.get_mut(*code as usize).ok_or_else(|| {
                Error::Value(format!("code {code}: it is at least 0 and below {width}"))
            })?;
            *count += 1;
        }
        let mut grouping = Self { codes: vec![], starts: vec![0], places: vec![] };
        let mut end = 0;
        for (code, place) in next.iter_mut().enumerate() {
            let count = std::mem::replace(place, end);
            if count > 0 {
                end += count;
                grouping.codes.push(code as i64);
                grouping.starts.push(i64::from(end));
            }
        }
        grouping.places.extend(codes.iter().map(|code| {
            let place = &mut next[*code as usize];
            *place += 1;
            *place - 1
        }));
        Ok(grouping)
    }

    /// Moves the values of rows `first..` of a column to their places in `moved`, a column of all rows. Values past the
    /// last row are left out.
    ///
    /// # Panics
    /// If `moved` is shorter than the rows.
    pub fn move_rows(&self, first: usize, values: &[i64], moved: &mut [i64]) {
        for (place, value) in self.places.iter().skip(first).zip(values) {
            moved[*place as usize] = *value;
        }
    }
}
