//! Removal of entries with a notification for each removed entry.
//!
//! When the notification for an entry runs, the entry must no longer be in the map, and the notification may call
//! methods of the map. So a call first removes all its entries. The notifications then run while the map is not
//! borrowed. If the notification for an entry fails, this entry and all later entries are put back. No entry is lost,
//! and no notification succeeds twice.

use super::{PendingAck, PendingAcks};

/// An entry: ledger id, entry id, value.
type Entry = (i64, i64, PendingAck);

/// The entries that one call has removed from a map.
#[derive(Debug)]
#[must_use = "entries that nobody was notified of are put back by `finish`"]
pub struct Removal {
    entries: Vec<Entry>,
    notified: usize,
    is_closed: bool,
}

impl Removal {
    /// Returns whether the map was closed when the entries were removed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Calls `notify` with each entry, up to the first failure.
    ///
    /// # Errors
    /// The error of the first failed notification.
    pub fn notify_each<E>(
        &mut self,
        mut notify: impl FnMut(i64, i64, PendingAck) -> Result<(), E>,
    ) -> Result<(), E> {
        for &(ledger_id, entry_id, value) in &self.entries[self.notified..] {
            notify(ledger_id, entry_id, value)?;
            self.notified += 1;
        }
        Ok(())
    }

    /// Ends the removal. `call` is the result of the notifications. Puts back the entries whose notification failed or
    /// did not run. If `call` is not an error, returns all removed entries.
    ///
    /// # Errors
    /// The error in `call`.
    pub fn finish<E>(self, acks: &mut PendingAcks, call: Result<(), E>) -> Result<Vec<Entry>, E> {
        for &(ledger_id, entry_id, value) in &self.entries[self.notified..] {
            acks.put_back(ledger_id, entry_id, value);
        }
        call.map(|()| self.entries)
    }
}

impl PendingAcks {
    /// Removes every entry up to and including a position, in order.
    pub fn take_up_to(&mut self, ledger_id: i64, entry_id: i64) -> Removal {
        let mut entries = Vec::new();
        self.for_each_up_to(ledger_id, entry_id, |ledger_id, entry_id, value| {
            entries.push((ledger_id, entry_id, value));
        });
        self.remove_all_up_to(ledger_id, entry_id);
        self.removal(entries)
    }

    /// Removes the pending entries at these positions.
    pub fn take_many(&mut self, positions: impl IntoIterator<Item = (i64, i64)>) -> Removal {
        let mut entries = Vec::new();
        for (ledger_id, entry_id) in positions {
            entries
                .extend(self.remove(ledger_id, entry_id).map(|value| (ledger_id, entry_id, value)));
        }
        self.removal(entries)
    }

    fn removal(&self, entries: Vec<Entry>) -> Removal {
        Removal { entries, notified: 0, is_closed: self.is_closed }
    }
}
