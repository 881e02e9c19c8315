//! The dense form of a ledger: a deque of all pages from the first to the last entry.
//!
//! **Invariants** (`validate` checks them): the first and the last page are not empty.

use crate::error::{Validity, invariant};
use std::collections::VecDeque;

use super::page::Page;
use super::value::PendingAck;

const SLOT_BITS: u32 = 6;

#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    first_page: i64,
    pages: VecDeque<Page>,
}

/// Returns the number of an entry's page, and the entry's slot in the page. The shift is arithmetic, so negative ids
/// have pages too.
#[inline]
pub(super) const fn split(entry_id: i64) -> (i64, u32) {
    (entry_id >> SLOT_BITS, (entry_id & ((1 << SLOT_BITS) - 1)) as u32)
}

/// Returns the entry id of a slot of a page.
#[inline]
pub(super) const fn join(page: i64, slot: u32) -> i64 {
    page << SLOT_BITS | slot as i64
}

impl Window {
    #[inline]
    pub(super) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns the number of pages that the window would have if this entry were added.
    pub(super) fn pages_with(&self, entry_id: i64) -> u64 {
        let (page, _) = split(entry_id);
        if self.pages.is_empty() {
            return 1;
        }
        let last_page = self.first_page + self.pages.len() as i64 - 1;
        page.max(last_page).abs_diff(page.min(self.first_page)) + 1
    }

    #[inline]
    pub(super) fn contains(&self, entry_id: i64) -> bool {
        self.page(entry_id).is_some_and(|(page, slot)| page.contains(slot))
    }

    #[inline]
    pub(super) fn get(&self, entry_id: i64) -> Option<PendingAck> {
        let (page, slot) = self.page(entry_id)?;
        page.get(slot)
    }

    /// Sets the value of an entry if the window has its page; returns whether the entry is new. Returns `None` if the
    /// window does not have the page.
    #[inline]
    pub(super) fn put_inside(&mut self, entry_id: i64, value: PendingAck) -> Option<bool> {
        let (at, slot) = self.locate(entry_id);
        if self.pages.get(at)?.is_empty() {
            self.begin(at, value);
        }
        Some(self.pages[at].put(slot, value))
    }

    /// Sets the value of an entry, and adds pages to the window if necessary; returns whether the entry is new.
    pub(super) fn put(&mut self, entry_id: i64, value: PendingAck) -> bool {
        self.widen_to(entry_id);
        self.put_inside(entry_id, value).expect("the window reaches")
    }

    /// Prepares the empty page at index `at` for its first value. The page gets the layout of a dense neighbour,
    /// because neighbouring pages have similar values. So its bytes are allocated only once. The previous page is
    /// probably complete, so its unused memory is released.
    #[cold]
    fn begin(&mut self, at: usize, first: PendingAck) {
        if let Some(before) = at.checked_sub(1).map(|before| &mut self.pages[before]) {
            before.shrink_to_fit();
        }
        let neighbours = [at.wrapping_sub(1), at + 1];
        let dense =
            neighbours.iter().filter_map(|&at| self.pages.get(at)).find(|page| page.is_dense());
        if let Some(page) = dense {
            self.pages[at] = page.successor(first);
        }
    }

    #[inline]
    pub(super) fn remaining_of(&self, entry_id: i64) -> Option<i32> {
        let (page, slot) = self.page(entry_id)?;
        page.remaining_of(slot)
    }

    /// Calls `change` with the remaining count of an entry, if the entry is pending. If `change` returns a count,
    /// stores it. Returns whether a count was stored.
    #[inline]
    pub(super) fn update_remaining(
        &mut self,
        entry_id: i64,
        change: impl FnOnce(i32) -> Option<i32>,
    ) -> bool {
        let (at, slot) = self.locate(entry_id);
        self.pages.get_mut(at).is_some_and(|page| page.update_remaining(slot, change))
    }

    /// Returns the page of an entry, so that the caller can set more values; `None` if the window does not have the
    /// page.
    #[inline]
    pub(super) fn page_mut(&mut self, entry_id: i64) -> Option<&mut Page> {
        let (at, _) = self.locate(entry_id);
        self.pages.get_mut(at)
    }

    /// In a page, removes the entries whose slots are set in the mask `slots`; returns the number of removed entries.
    #[inline]
    pub(super) fn discard(&mut self, page: i64, slots: u64) -> usize {
        let at = page.wrapping_sub(self.first_page) as usize;
        let Some(page) = self.pages.get_mut(at) else { return 0 };
        let discarded = page.discard(slots);
        if page.is_empty() {
            self.trim();
        }
        discarded
    }

    #[inline]
    pub(super) fn remove(&mut self, entry_id: i64) -> Option<PendingAck> {
        let (at, slot) = self.locate(entry_id);
        let page = self.pages.get_mut(at)?;
        let value = page.remove(slot)?;
        if page.is_empty() {
            self.trim();
        }
        Some(value)
    }

    /// Removes every entry up to and including `entry_id`, page by page; returns the number of removed entries.
    pub(super) fn remove_up_to(&mut self, entry_id: i64) -> usize {
        let (page, slot) = split(entry_id);
        let whole = page.saturating_sub(self.first_page).clamp(0, self.pages.len() as i64) as usize;
        let mut removed: usize = self.pages.drain(..whole).map(|page| page.len()).sum();
        self.first_page += whole as i64;
        if page == self.first_page
            && let Some(boundary) = self.pages.front_mut()
        {
            removed += boundary.discard(up_to(slot));
        }
        self.trim();
        removed
    }

    /// Calls `visit` in order with the id and the value of every entry up to and including `last`.
    #[inline]
    pub(super) fn for_each_up_to(&self, last: i64, mut visit: impl FnMut(i64, PendingAck)) {
        let (last_page, last_slot) = split(last);
        for (at, entries) in self.pages.iter().enumerate() {
            let page = self.first_page + at as i64;
            if page > last_page {
                break;
            }
            let slots = if page == last_page { up_to(last_slot) } else { !0 };
            if !entries.is_empty() {
                entries.for_each(slots, |slot, value| visit(join(page, slot), value));
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let pages: usize = self.pages.iter().map(Page::heap_bytes).sum();
        self.pages.capacity() * size_of::<Page>() + pages
    }

    /// Returns the number of entries by counting them in each page.
    pub(super) fn entries(&self) -> usize {
        self.pages.iter().map(Page::len).sum()
    }

    pub(super) fn validate(&self) -> Validity {
        invariant!(
            self.pages.front().is_none_or(|page| !page.is_empty()),
            "the first page is not empty"
        );
        invariant!(
            self.pages.back().is_none_or(|page| !page.is_empty()),
            "the last page is not empty"
        );
        self.pages.iter().try_for_each(Page::validate)
    }

    #[inline]
    fn locate(&self, entry_id: i64) -> (usize, u32) {
        let (page, slot) = split(entry_id);
        (page.wrapping_sub(self.first_page) as usize, slot)
    }

    #[inline]
    fn page(&self, entry_id: i64) -> Option<(&Page, u32)> {
        let (at, slot) = self.locate(entry_id);
        Some((self.pages.get(at)?, slot))
    }

    /// Adds empty pages, so that the window reaches the page of an entry.
    fn widen_to(&mut self, entry_id: i64) {
        let (page, _) = split(entry_id);
        if self.pages.is_empty() {
            self.first_page = page;
        }
        let new_pages = (self.pages_with(entry_id) as usize).saturating_sub(self.pages.len());
        self.reserve(new_pages);
        if page < self.first_page {
            (0..new_pages).for_each(|_| self.pages.push_front(Page::new()));
            self.first_page = page;
        } else {
            (0..new_pages).for_each(|_| self.pages.push_back(Page::new()));
        }
    }

    /// Allocates memory for more pages. Growing by an eighth keeps the unused memory small compared with the bytes of
    /// the pages.
    fn reserve(&mut self, pages: usize) {
        if self.pages.len() + pages > self.pages.capacity() {
            self.pages.reserve_exact(pages + self.pages.len() / 8);
        }
    }

    /// Removes the empty pages at both ends, and releases the memory that the deque had for them.
    fn trim(&mut self) {
        while self.pages.front().is_some_and(Page::is_empty) {
            self.pages.pop_front();
            self.first_page += 1;
        }
        while self.pages.back().is_some_and(Page::is_empty) {
            self.pages.pop_back();
        }
        if self.pages.capacity() > 2 * self.pages.len() + 8 {
            self.pages.shrink_to(self.pages.len() + self.pages.len() / 8);
        }
    }
}

/// Returns a mask of the slots up to and including `slot`.
const fn up_to(slot: u32) -> u64 {
    !0 >> (u64::BITS - 1 - slot)
}
