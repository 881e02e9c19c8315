//! The limits of an encoding, and the exact loss if a limit cuts the state.
//!
//! If a limit cuts the state, the first ranges in order are kept, as in a broker. These ranges are nearest to the
//! mark-delete position, so they are the first ranges that can advance it.

use std::collections::BTreeMap;

use super::{Form, PositionInfo};
use crate::ack_sets::AckSets;
use crate::error::{Error, LimitReached, Result};
use crate::position::Position;
use crate::range_set::PositionRangeSet;

/// The limits of an encoding; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// The maximum number of ranges of individually deleted messages.
    pub max_ranges: Option<usize>,
    /// The maximum number of ledgers with individually deleted messages.
    pub max_ledgers: Option<usize>,
    /// The maximum encoded size in bytes.
    pub max_bytes: Option<usize>,
}

/// The parts of a state that an encoding omits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Loss {
    /// The entries that are acknowledged as a whole.
    pub individually_deleted: PositionRangeSet,
    /// Ranges that begin in one ledger and end in a later one, and that the form cannot hold.
    pub spanning_ranges: Vec<(Position, Position)>,
    /// Partly acknowledged entries.
    pub batch_deleted: AckSets,
    /// Redelivery counts that the form cannot hold.
    pub redelivery_counts: BTreeMap<Position, i64>,
    /// The reasons why parts are omitted; empty if nothing is omitted.
    pub reasons: Vec<String>,
}

impl PositionInfo {
    /// Encodes as much of the state as the form and the limits allow, and returns the loss.
    ///
    /// # Errors
    /// [`Error::Limit`] if the mark-delete position and the properties alone exceed `max_bytes`.
    pub fn encode_within(&self, form: Form, limits: Limits) -> Result<(Vec<u8>, Loss)> {
        let max_bytes = limits.max_bytes.unwrap_or(usize::MAX);
        if self.lost_by_form(form).is_empty()
            && limits.reason(&self.individually_deleted).is_none()
            && let Some(bytes) = self.encode_up_to(form, max_bytes)?
        {
            return Ok((bytes, Loss::default()));
        }
        let mut loss = Loss::default();
        let kept = self.kept_by_form(form, &mut loss);
        let kept = kept.cut_to(limits.ranges_kept(&kept.individually_deleted), &mut loss);
        loss.reasons.extend(limits.reason(&self.individually_deleted));
        match kept.encode_up_to(form, max_bytes)? {
            Some(bytes) => Ok((bytes, loss)),
            None => kept.cut_to_bytes(form, max_bytes, loss),
        }
    }

    /// Returns the kinds of content that `form` cannot hold.
    fn lost_by_form(&self, form: Form) -> Vec<String> {
        let mut reasons = Vec::new();
        if form.is_pulsar() && !self.redelivery_counts.is_empty() {
            reasons.push(format!("{form} holds no redelivery counts"));
        }
        if form == Form::PulsarLongArray && !self.spanning_ranges.is_empty() {
            reasons.push(format!("{form} holds no ranges over a ledger's end"));
        }
        reasons
    }

    /// Returns the state without the content that `form` cannot hold, and adds that content to `loss`.
    fn kept_by_form(&self, form: Form, loss: &mut Loss) -> Self {
        let mut kept = self.clone();
        loss.reasons = self.lost_by_form(form);
        if form.is_pulsar() {
            loss.redelivery_counts = std::mem::take(&mut kept.redelivery_counts);
        }
        if form == Form::PulsarLongArray {
            loss.spanning_ranges = std::mem::take(&mut kept.spanning_ranges);
        }
        kept
    }

    /// Returns the state with the first `ranges` ranges, and adds the others to `loss`.
    fn cut_to(&self, ranges: usize, loss: &mut Loss) -> Self {
        let mut kept = self.clone();
        if ranges < self.individually_deleted.len() {
            kept.individually_deleted = first_ranges(&self.individually_deleted, ranges);
            let mut lost = self.individually_deleted.clone();
            lost.difference_with(&kept.individually_deleted);
            loss.individually_deleted.union_with(&lost);
        }
        kept
    }

    /// Returns the state with the first `batches` partly acknowledged entries, and adds the others to `loss`.
    fn cut_batches_to(&self, batches: usize, loss: &mut Loss) -> Self {
        let mut kept = self.clone();
        if batches < kept.batch_deleted.len() {
            loss.batch_deleted = kept.batch_deleted.split_off(batches);
        }
        kept
    }

    /// Returns the encoded bytes; `None` if they are more than `max_bytes` or the form cannot hold the state.
    fn encode_up_to(&self, form: Form, max_bytes: usize) -> Result<Option<Vec<u8>>> {
        match self.encode(form) {
            Ok(bytes) if bytes.len() <= max_bytes => Ok(Some(bytes)),
            Ok(_) | Err(Error::Limit(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps as many ranges as fit. If no range fits, keeps as many partly acknowledged entries as fit.
    fn cut_to_bytes(
        &self,
        form: Form,
        max_bytes: usize,
        mut loss: Loss,
    ) -> Result<(Vec<u8>, Loss)> {
        let what = if max_bytes == usize::MAX {
            "what it can hold".to_owned()
        } else {
            format!("max_bytes = {max_bytes}")
        };
        loss.reasons.push(format!("{form} would take more than {what}"));
        let fits = |state: &Self| state.encode_up_to(form, max_bytes);
        let scratch = &mut Loss::default();
        if let Some(ranges) = greatest(self.individually_deleted.len(), |ranges| {
            fits(&self.cut_to(ranges, scratch)).map(|bytes| bytes.is_some())
        })? {
            let kept = self.cut_to(ranges, &mut loss);
            return Ok((kept.encode(form)?, loss));
        }
        let bare = self.cut_to(0, &mut loss);
        if let Some(batches) = greatest(bare.batch_deleted.len(), |batches| {
            fits(&bare.cut_batches_to(batches, scratch)).map(|bytes| bytes.is_some())
        })? {
            let kept = bare.cut_batches_to(batches, &mut loss);
            return Ok((kept.encode(form)?, loss));
        }
        Err(Error::Limit(LimitReached::BareState { max_bytes, form: form.name() }))
    }
}

impl Limits {
    /// Returns whether a set that is encoded in `bytes` bytes is within all limits.
    #[must_use]
    pub fn allow(self, set: &PositionRangeSet, bytes: usize) -> bool {
        self.reason(set).is_none() && self.max_bytes.is_none_or(|max| bytes <= max)
    }

    /// Returns how many of the set's first ranges are within the limits of ranges and of ledgers.
    fn ranges_kept(self, set: &PositionRangeSet) -> usize {
        let within_ledgers = match self.max_ledgers {
            Some(ledgers) if ledgers < set.ledger_ids().len() => {
                set.ledger_ids().take(ledgers).map(|ledger_id| set.len_of(ledger_id)).sum()
            }
            _ => set.len(),
        };
        within_ledgers.min(self.max_ranges.unwrap_or(usize::MAX))
    }

    /// If the limit of ranges or of ledgers cuts the set, returns a text about that limit.
    fn reason(self, set: &PositionRangeSet) -> Option<String> {
        let mut reasons = Vec::new();
        match self.max_ledgers {
            Some(max) if max < set.ledger_ids().len() => {
                reasons.push(format!("{} ledgers, max_ledgers = {max}", set.ledger_ids().len()));
            }
            _ => {}
        }
        match self.max_ranges {
            Some(max) if max < set.len() => {
                reasons.push(format!("{} ranges, max_ranges = {max}", set.len()));
            }
            _ => {}
        }
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }
}

/// Returns the first `count` ranges of a set.
fn first_ranges(set: &PositionRangeSet, count: usize) -> PositionRangeSet {
    let mut first = PositionRangeSet::new();
    let mut left = count;
    for ledger_id in set.ledger_ids() {
        if left == 0 {
            break;
        }
        let (mut lowers, mut uppers) = (Vec::new(), Vec::new());
        for range in set.ranges_of(ledger_id).take(left) {
            lowers.push(range.lower_entry_exclusive);
            uppers.push(range.upper_entry_inclusive);
        }
        left -= lowers.len();
        first
            .add_ranges(&vec![ledger_id; lowers.len()], &lowers, &uppers)
            .expect("ranges of a set are valid ranges");
    }
    first
}

/// Returns the greatest number from 0 to `most` for which `holds` is true. `holds` must be true for all numbers up to
/// the result, and false for all greater ones.
fn greatest(most: usize, mut holds: impl FnMut(usize) -> Result<bool>) -> Result<Option<usize>> {
    if !holds(0)? {
        return Ok(None);
    }
    let (mut yes, mut no) = (0, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if holds(middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Ok(Some(yes))
}
