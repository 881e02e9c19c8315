//! The merge of partials that were folded separately. A pair is a (topic, subscription).

use super::{Flaw, Ledger, Order, Pair, Partials, RareFields};
use crate::position::Position;

/// A part of the state of a pair: values of the pair itself, its ledgers, or both.
#[derive(Default)]
pub(super) struct Part {
    pub(super) seek: Option<(Order, Position)>,
    pub(super) acked: Option<(Order, Order)>,
    pub(super) settings: Option<(Order, String)>,
    pub(super) flaw: Option<(Order, Flaw)>,
    pub(super) deleted: Option<Order>,
    pub(super) trimmed_before: i64,
    pub(super) ledgers: Vec<Ledger>,
}

impl Partials {
    /// Merges all of `other` into this object. `topics`, `subscriptions` and `transactions` map the numbers that
    /// `other` uses to the numbers that this object uses. The ledgers of the topics ([`Self::set_ledgers`]) do not
    /// change. O(size of `other`).
    ///
    /// # Panics
    /// If a number of `other` is not in its mapping.
    pub fn absorb(
        &mut self,
        mut other: Self,
        topics: &[i32],
        subscriptions: &[i32],
        transactions: &[i32],
    ) {
        let files: Vec<u32> = other.files.iter().map(|name| self.file(name)).collect();
        let ours = |order: Order| Order { file: files[order.file as usize], ..order };
        for (pair, transaction) in std::mem::take(&mut other.committed) {
            let Pair { topic, subscription, .. } = other.pairs[pair as usize];
            let pair = self.pair(topics[topic as usize], subscriptions[subscription as usize]);
            self.commit(pair, transactions[transaction as usize]);
        }
        for theirs in std::mem::take(&mut other.pairs) {
            let Pair { topic, subscription, ledgers, acked, rare, .. } = theirs;
            let RareFields { seek, settings, flaw, deleted, trimmed_before, .. } =
                rare.0.map(|fields| *fields).unwrap_or_default();
            let pair = self.pair(topics[topic as usize], subscriptions[subscription as usize]);
            let taken = |ledger: u32| std::mem::take(&mut other.ledgers[ledger as usize]);
            let part = Part {
                seek: seek.map(|(order, position)| (ours(order), position)),
                acked: acked.map(|(first, last)| (ours(first), ours(last))),
                settings: settings.map(|(order, detail)| (ours(order), detail)),
                flaw: flaw.map(|(order, flaw)| (ours(order), flaw)),
                deleted: deleted.map(ours),
                trimmed_before,
                ledgers: ledgers.into_iter().map(taken).collect(),
            };
            self.join(pair, part);
        }
    }

    pub(super) fn join(&mut self, pair: u32, mut part: Part) {
        if let Some((order, detail)) = part.settings {
            self.set_settings(pair, order, detail);
        }
        if let Some((order, flaw)) = part.flaw {
            self.note_flaw(pair, order, flaw);
        }
        if let Some(order) = part.deleted {
            self.delete(pair, order);
        }
        self.trim(pair, part.trimmed_before);
        if let Some((order, position)) = part.seek {
            self.seek(pair, order, position, None);
        }
        if let Some((first, last)) = part.acked
            && let Some(seek) = self.voiding_seek(&self.pairs[pair as usize], first)
            && part.seek.is_none_or(|own| own.0 != seek)
        {
            // The acknowledgments of this part were folded without this seek, which voids them.
            if self.compare(last, seek).is_gt() {
                self.note_flaw(pair, seek, Flaw::SeekBetween);
            }
            part.acked = None;
            part.ledgers.iter_mut().for_each(Ledger::forget_acknowledgments);
        }
        if let Some((first, last)) = part.acked {
            self.widen_acked(pair, first, last);
        }
        for ledger in part.ledgers {
            let number = self.ledger(pair, ledger.ledger_id);
            self.ledgers[number as usize].merge(ledger);
        }
    }
}
