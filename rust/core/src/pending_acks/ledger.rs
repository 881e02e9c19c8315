//! The entries of one ledger in the smaller of two forms: a window (dense) or a hash map (sparse). Callers do not see
//! the form.
//!
//! In a window, a page takes 40 bytes, and an entry takes 0 to 8 bytes. In a hash map, an entry takes 18 to 24 bytes,
//! and the index takes 8 bytes for each 64-entry page. So a hash map is smaller if a page has fewer than about 1.85
//! entries on average. A window becomes a hash map at an average of one entry for each page. A hash map becomes a
//! window at an average of four. So this average must change by a factor of four between two conversions.

use crate::error::{Validity, invariant};
use std::iter::Peekable;

use super::sparse::SparseEntries;
use super::value::PendingAck;
use super::window::{Window, split};

/// A window may have one page for each entry, and this number of pages in addition. So a ledger with a handful of
/// entries does not become a hash map.
const SPARE_PAGES: u64 = 8;
/// A hash map becomes a window again if its pages have at least this number of entries on average.
const DENSE_ENTRIES_A_PAGE: usize = 4;

#[derive(Debug, Clone)]
enum LedgerForm {
    Window(Window),
    Sparse(Box<SparseEntries>),
}

#[derive(Debug, Clone)]
pub(super) struct PendingLedger {
    pub(super) ledger_id: i64,
    entries: usize,
    form: LedgerForm,
}

impl PendingLedger {
    pub(super) fn new(ledger_id: i64) -> Self {
        Self { ledger_id, entries: 0, form: LedgerForm::Window(Window::default()) }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries
    }

    #[inline]
    pub(super) fn contains(&self, entry_id: i64) -> bool {
        match &self.form {
            LedgerForm::Window(window) => window.contains(entry_id),
            LedgerForm::Sparse(sparse) => sparse.contains(entry_id),
        }
    }

    #[inline]
    pub(super) fn get(&self, entry_id: i64) -> Option<PendingAck> {
        match &self.form {
            LedgerForm::Window(window) => window.get(entry_id),
            LedgerForm::Sparse(sparse) => sparse.get(entry_id),
        }
    }

    /// Sets the value of an entry; returns whether the entry is new.
    #[inline]
    pub(super) fn put(&mut self, entry_id: i64, value: PendingAck) -> bool {
        let inside = match &mut self.form {
            LedgerForm::Window(window) => window.put_inside(entry_id, value),
            LedgerForm::Sparse(_) => None,
        };
        let is_new = inside.unwrap_or_else(|| self.put_outside(entry_id, value));
        self.entries += usize::from(is_new);
        is_new
    }

    /// Sets the value of an entry, and the values of the next items of `entries` that are in the same page. Returns the
    /// number of entries whose value was set, and the number of new entries among them. The page is looked up once,
    /// because the look-up takes most of the time of setting a value.
    #[inline]
    pub(super) fn put_page<I>(
        &mut self,
        entry_id: i64,
        value: PendingAck,
        entries: &mut Peekable<I>,
    ) -> (usize, usize)
    where
        I: Iterator<Item = (i64, i64, PendingAck)>,
    {
        let (mut set, new) = (1, usize::from(self.put(entry_id, value)));
        let page_id = split(entry_id).0;
        let is_same = |&(ledger_id, entry_id, _): &(i64, i64, PendingAck)| {
            ledger_id == self.ledger_id && split(entry_id).0 == page_id
        };
        if !entries.peek().is_some_and(is_same) {
            return (set, new);
        }
        let LedgerForm::Window(window) = &mut self.form else { return (set, new) };
        let Some(page) = window.page_mut(entry_id) else { return (set, new) };
        let same_page = std::iter::from_fn(|| {
            let (_, entry_id, value) = entries.next_if(is_same)?;
            set += 1;
            Some((split(entry_id).1, value))
        });
        let also_new = page.put_all(same_page);
        self.entries += also_new;
        (set, new + also_new)
    }

    #[inline]
    pub(super) fn remaining_of(&self, entry_id: i64) -> Option<i32> {
        match &self.form {
            LedgerForm::Window(window) => window.remaining_of(entry_id),
            LedgerForm::Sparse(sparse) => sparse.get(entry_id).map(|value| value.remaining),
        }
    }

    #[inline]
    pub(super) fn update_remaining(
        &mut self,
        entry_id: i64,
        change: impl FnOnce(i32) -> Option<i32>,
    ) -> bool {
        match &mut self.form {
            LedgerForm::Window(window) => window.update_remaining(entry_id, change),
            LedgerForm::Sparse(sparse) => sparse.update_remaining(entry_id, change),
        }
    }

    /// In a page, removes the entries whose slots are set in the mask `slots`; returns the number of removed entries.
    #[inline]
    pub(super) fn discard(&mut self, page: i64, slots: u64) -> usize {
        let discarded = match &mut self.form {
            LedgerForm::Window(window) => window.discard(page, slots),
            LedgerForm::Sparse(sparse) => sparse.discard(page, slots),
        };
        self.entries -= discarded;
        self.leave_thin_window();
        discarded
    }

    #[inline]
    pub(super) fn remove(&mut self, entry_id: i64) -> Option<PendingAck> {
        let value = match &mut self.form {
            LedgerForm::Window(window) => window.remove(entry_id),
            LedgerForm::Sparse(sparse) => sparse.remove(entry_id),
        }?;
        self.entries -= 1;
        self.leave_thin_window();
        Some(value)
    }

    /// Removes every entry up to and including `last`; returns the number of removed entries.
    pub(super) fn remove_up_to(&mut self, last: i64) -> usize {
        let removed = match &mut self.form {
            LedgerForm::Window(window) => window.remove_up_to(last),
            LedgerForm::Sparse(sparse) => sparse.remove_up_to(last),
        };
        self.entries -= removed;
        self.leave_thin_window();
        removed
    }

    /// Calls `visit` in order with the id and the value of every entry up to and including `last`.
    #[inline]
    pub(super) fn for_each_up_to(&self, last: i64, visit: impl FnMut(i64, PendingAck)) {
        match &self.form {
            LedgerForm::Window(window) => window.for_each_up_to(last, visit),
            LedgerForm::Sparse(sparse) => sparse.for_each_up_to(last, visit),
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match &self.form {
            LedgerForm::Window(window) => window.heap_bytes(),
            LedgerForm::Sparse(sparse) => size_of::<SparseEntries>() + sparse.heap_bytes(),
        }
    }

    pub(super) fn validate(&self) -> Validity {
        let entries = match &self.form {
            LedgerForm::Window(window) => {
                invariant!(
                    !is_thin(window.pages() as u64, self.entries),
                    "a thin ledger is sparse"
                );
                window.validate()?;
                window.entries()
            }
            LedgerForm::Sparse(sparse) => {
                sparse.validate()?;
                sparse.len()
            }
        };
        invariant!(entries == self.entries, "entries are counted");
        Ok(())
    }

    fn put_outside(&mut self, entry_id: i64, value: PendingAck) -> bool {
        if let LedgerForm::Window(window) = &mut self.form {
            if !is_thin(window.pages_with(entry_id), self.entries + 1) {
                return window.put(entry_id, value);
            }
            self.become_sparse();
        }
        let LedgerForm::Sparse(sparse) = &mut self.form else { unreachable!("it was made sparse") };
        let is_new = sparse.put(entry_id, value);
        if sparse.pages().is_some_and(|pages| sparse.len() >= DENSE_ENTRIES_A_PAGE * pages) {
            self.become_window();
        }
        is_new
    }

    fn leave_thin_window(&mut self) {
        if let LedgerForm::Window(window) = &self.form
            && is_thin(window.pages() as u64, self.entries)
        {
            self.become_sparse();
        }
    }

    #[cold]
    fn become_sparse(&mut self) {
        let entries = self.entries();
        self.form = LedgerForm::Sparse(Box::new(SparseEntries::from_entries(entries.into_iter())));
    }

    #[cold]
    fn become_window(&mut self) {
        let mut window = Window::default();
        for (entry_id, value) in self.entries() {
            window.put(entry_id, value);
        }
        self.form = LedgerForm::Window(window);
    }

    fn entries(&self) -> Vec<(i64, PendingAck)> {
        let mut entries = Vec::with_capacity(self.entries);
        self.for_each_up_to(i64::MAX, |entry_id, value| entries.push((entry_id, value)));
        entries
    }
}

/// Returns whether a window of `pages` pages is larger than a hash map of the same `entries` entries.
#[inline]
const fn is_thin(pages: u64, entries: usize) -> bool {
    pages > entries as u64 + SPARE_PAGES
}
