//! Rows of columns brought together by a small code: how a batch of events is cut by subscription.
//!
//! A stable counting sort: one pass counts, one finds each row's place, and one for each column moves
//! it there. A comparison sort of the codes, or a gather by index, costs several times as much.

use crate::error::{Error, Result};

/// The rows of some columns, by code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The codes that occur, rising.
    pub codes: Vec<i64>,
    /// Where each code's rows begin, and behind them the number of rows.
    pub starts: Vec<i64>,
    /// The columns: rows by code, and those of one code in their order.
    pub columns: Vec<Vec<i64>>,
}

/// Codes there may be, where there are not more rows than that: counting them takes 4 bytes a code.
const WIDTH_MAX: usize = 1 << 24;

/// Groups the rows of `columns` by `codes`, which lie below `width`.
///
/// # Errors
/// [`Error::Value`] for columns of different lengths, 2^32 rows or more, codes outside `0..width`, and a width
/// beyond both 2^24 and the number of rows.
pub fn group_rows(codes: &[i32], width: usize, columns: &[&[i64]]) -> Result<Grouped> {
    if columns.iter().any(|column| column.len() != codes.len()) {
        return Err(Error::Value("columns of different lengths".into()));
    }
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
    let mut grouped = Grouped { codes: vec![], starts: vec![0], columns: vec![] };
    let mut end = 0;
    for (code, place) in next.iter_mut().enumerate() {
        let count = std::mem::replace(place, end);
        if count > 0 {
            end += count;
            grouped.codes.push(code as i64);
            grouped.starts.push(i64::from(end));
        }
    }
    let places: Vec<u32> = codes
        .iter()
        .map(|code| {
            let place = &mut next[*code as usize];
            *place += 1;
            *place - 1
        })
        .collect();
    for column in columns {
        let mut moved = vec![0; column.len()];
        for (place, value) in places.iter().zip(*column) {
            moved[*place as usize] = *value;
        }
        grouped.columns.push(moved);
    }
    Ok(grouped)
}
