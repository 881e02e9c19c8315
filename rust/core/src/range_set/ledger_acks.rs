//! The acknowledged entries of one ledger, in the smallest of three forms.
//!
//! | form | when | costs |
//! |---|---|---|
//! | a single run | entries acknowledged in order, or the whole ledger | nothing on the heap |
//! | a window of bits | runs close to each other | an eighth of a byte for each entry between first and last |
//! | a tree of runs | few runs, far apart | about 25 bytes a run |
//!
//! The limit of a window is [`WORDS_ALWAYS`] words plus [`WORDS_PER_RUN`] words for each run. If an addition would make
//! a window take more than twice this limit, the ledger is converted to a tree. So for any input, the memory is at most
//! proportional to the number of runs. The conversion of a window of n runs takes n steps. The new tree can be
//! converted back to a window only after n more adds, so no sequence of operations causes a conversion at every step.

use super::run::Run;
use super::runs::Runs;
use super::window::Window;
use crate::error::{Validity, invariant};

/// The number of words that any window may take, even with few runs: half a kilobyte. A ledger of two runs is a window
/// if both are within 5,000 entries. A default Pulsar ledger (50,000 entries) becomes a window at 90 runs.
const WORDS_ALWAYS: u64 = 64;

/// The number of additional words that a window may take for each run. In the worst case a window is two to three times
/// as large as the tree, but ten times as fast.
const WORDS_PER_RUN: u64 = 8;

#[derive(Debug, Clone)]
pub(super) enum LedgerAcks {
    /// One run. If its bounds are equal, the ledger is empty.
    Single(Run),
    Window(Box<Window>),
    Runs(Box<Runs>, Patience),
}

/// The number of adds until a tree is checked again for conversion to a window.
type Patience = usize;

impl Default for LedgerAcks {
    fn default() -> Self {
        Self::Single(Run { lower: -1, upper: -1 })
    }
}

impl LedgerAcks {
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Single(run) if run.lower == run.upper)
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Single(run) => usize::from(run.lower < run.upper),
            Self::Window(window) => window.len(),
            Self::Runs(runs, _) => runs.len(),
        }
    }

    pub(super) fn cardinality(&self) -> u64 {
        match self {
            Self::Single(run) => run.len(),
            Self::Window(window) => window.cardinality(),
            Self::Runs(runs, _) => runs.cardinality(),
        }
    }

    pub(super) fn contains(&self, entry_id: i64) -> bool {
        match self {
            Self::Single(run) => run.contains(entry_id),
            Self::Window(window) => window.contains(entry_id),
            Self::Runs(runs, _) => runs.run_containing(entry_id).is_some(),
        }
    }

    /// Adds an entry ≥ 0; returns whether it was new.
    pub(super) fn add(&mut self, entry_id: i64) -> bool {
        match self {
            Self::Window(window) if window.reaches(entry_id) => {
                let added = window.add(entry_id);
                if window.len() == 1 {
                    self.choose_form();
                }
                added
            }
            _ => self.add_run(Run::of_entry(entry_id)) == 1,
        }
    }

    /// Adds a run and returns how many of its entries are new.
    pub(super) fn add_run(&mut self, run: Run) -> u64 {
        let added = match self {
            Self::Single(own) if own.lower == own.upper => {
                *own = run;
                return run.len();
            }
            Self::Single(own) if own.touches(run) => {
                let before = own.len();
                *own = own.joined(run);
                return own.len() - before;
            }
            Self::Single(own) => {
                let mut runs = [*own, run];
                runs.sort_unstable_by_key(|run| run.lower);
                *self = Self::of_runs(own.joined(run), 2, runs.into_iter());
                return run.len();
            }
            Self::Window(window) => {
                let joined = window.span().joined(run);
                if Window::words_over(joined) > 2 * words_for(window.len() + 1) {
                    let patience = window.len();
                    let mut runs = Runs::from_runs(window.iter());
                    let added = runs.add_run(run);
                    *self = Self::Runs(Box::new(runs), patience);
                    added
                } else {
                    window.add_run(run)
                }
            }
            Self::Runs(runs, patience) => {
                *patience = patience.saturating_sub(1);
                runs.add_run(run)
            }
        };
        self.choose_form();
        added
    }

    /// Adds the entries `(lower, upper]` of each pair. Ascending runs that are close to each other are first combined
    /// in a window. This avoids a look-up for each run.
    pub(super) fn add_runs(&mut self, bounds: &[(i64, i64)]) {
        let runs = bounds.iter().map(|&(lower, upper)| Run { lower, upper });
        let rising = bounds.iter().all(|(lower, upper)| lower < upper)
            && bounds.windows(2).all(|pair| pair[0].1 < pair[1].0);
        if let (true, [first, .., last]) = (rising, bounds) {
            let span = Run { lower: first.0, upper: last.1 };
            if Window::words_over(span) <= words_for(bounds.len()) {
                let block = Self::Window(Box::new(Window::from_runs(span, runs)));
                match self.is_empty() {
                    true => *self = block,
                    false => self.union_with(&block),
                }
                return;
            }
        }
        for run in runs.filter(|run| run.lower < run.upper) {
            self.add_run(run);
        }
    }

    /// Removes an entry; returns whether it was in the set.
    pub(super) fn remove(&mut self, entry_id: i64) -> bool {
        if !self.contains(entry_id) {
            return false;
        }
        if let Self::Window(window) = self {
            window.remove(entry_id);
            self.choose_form();
        } else {
            self.remove_run(Run::of_entry(entry_id));
        }
        true
    }

    pub(super) fn remove_up_to(&mut self, entry_id: i64) {
        if entry_id >= 0 {
            self.remove_run(Run { lower: -1, upper: entry_id });
        }
    }

    /// Adds entries, given as bits. Bit `b` of word `i` is entry `64 * (first_word + i) + b`.
    pub(super) fn add_words(&mut self, first_word: i64, words: &[u64]) {
        let Some(block) = Window::of_words(first_word, words) else { return };
        if block.len() > 1 && Window::words_over(block.span()) <= words_for(block.len()) {
            self.union_with(&Self::Window(Box::new(block)));
        } else {
            for run in block.iter() {
                self.add_run(run);
            }
        }
    }

    pub(super) fn union_with(&mut self, other: &Self) {
        if let (Self::Window(window), Self::Window(theirs)) = (&mut *self, other) {
            let joined = window.span().joined(theirs.span());
            // The union may take the words that both windows may take together.
            if Window::words_over(joined) <= words_for(window.len() + theirs.len()) {
                window.union_with(theirs);
                return self.choose_form();
            }
        }
        if self.len() >= other.len() {
            for run in other.runs() {
                self.add_run(run);
            }
        } else {
            let mut union = other.clone();
            for run in self.runs() {
                union.add_run(run);
            }
            *self = union;
        }
    }

    pub(super) fn difference_with(&mut self, other: &Self) {
        if let (Self::Window(window), Self::Window(theirs)) = (&mut *self, other) {
            window.difference_with(theirs);
            return self.choose_form();
        }
        for run in other.runs() {
            self.remove_run(run);
        }
    }

    /// Returns the first run. The ledger must not be empty.
    pub(super) fn first_run(&self) -> Run {
        self.runs().next().expect("a ledger that is kept is not empty")
    }

    /// Returns the last entry. The ledger must not be empty.
    pub(super) fn last_entry(&self) -> i64 {
        match self {
            Self::Single(run) => run.upper,
            Self::Window(window) => window.last_entry(),
            Self::Runs(runs, _) => runs.span().map_or(-1, |span| span.upper),
        }
    }

    pub(super) fn run_containing(&self, entry_id: i64) -> Option<Run> {
        match self {
            Self::Single(run) => Some(*run).filter(|run| run.contains(entry_id)),
            Self::Window(window) => window.run_containing(entry_id),
            Self::Runs(runs, _) => runs.run_containing(entry_id),
        }
    }

    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        match self {
            Self::Single(run) => {
                Either3::A(Some(*run).filter(|run| run.lower < run.upper).into_iter())
            }
            Self::Window(window) => Either3::B(window.iter()),
            Self::Runs(runs, _) => Either3::C(runs.iter()),
        }
    }

    /// Returns the runs that begin after an entry.
    pub(super) fn runs_after(&self, entry_id: i64) -> impl Iterator<Item = Run> + '_ {
        match self {
            Self::Single(run) => {
                Either3::A(Some(*run).filter(|run| run.lower >= entry_id).into_iter())
            }
            Self::Window(window) => Either3::B(window.iter_after(entry_id)),
            Self::Runs(runs, _) => Either3::C(runs.iter_after(entry_id)),
        }
    }

    /// Sets in `words` the bit of each entry. The first word of `words` has the index 0. `words` must have the word of
    /// the last entry.
    pub(super) fn write_words(&self, words: &mut [u64]) {
        if let Self::Window(window) = self {
            return window.write_words(words);
        }
        for run in self.runs() {
            let (first, last) = ((run.lower + 1) as usize, run.upper as usize);
            for (index, word) in words.iter_mut().enumerate().take(last / 64 + 1).skip(first / 64) {
                let low = if index == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
                let high = if index == last / 64 { u64::MAX >> (63 - last % 64) } else { u64::MAX };
                *word |= low & high;
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Single(_) => 0,
            Self::Window(window) => size_of::<Window>() + window.heap_bytes(),
            Self::Runs(runs, _) => size_of::<Runs>() + runs.heap_bytes(),
        }
    }

    pub(super) fn validate(&self) -> Validity {
        match self {
            Self::Single(run) => {
                invariant!(
                    -1 <= run.lower && run.lower < run.upper,
                    "an empty ledger is kept: {run:?}"
                );
            }
            Self::Window(window) => {
                window.validate()?;
                invariant!(window.len() > 1, "a window of {} runs", window.len());
            }
            Self::Runs(runs, _) => {
                runs.validate()?;
                invariant!(runs.len() > 1, "a tree of {} runs", runs.len());
            }
        }
        Ok(())
    }

    pub(super) fn remove_run(&mut self, run: Run) {
        match self {
            Self::Single(own) => {
                let left = Run { lower: own.lower, upper: own.upper.min(run.lower) };
                let right = Run { lower: own.lower.max(run.upper), upper: own.upper };
                *self = match (left.lower < left.upper, right.lower < right.upper) {
                    (true, true) => {
                        let span = left.joined(right);
                        Self::of_runs(span, 2, [left, right].into_iter())
                    }
                    (true, false) => Self::Single(left),
                    (false, true) => Self::Single(right),
                    (false, false) => Self::default(),
                };
            }
            Self::Window(window) => {
                window.remove_run(run);
                self.choose_form();
            }
            Self::Runs(runs, _) => {
                runs.remove_run(run);
                self.choose_form();
            }
        }
    }

    /// Creates a ledger with `len` runs. `span` is the smallest run that contains all of them. There must be at least
    /// two runs, and they must be ascending and not adjacent.
    fn of_runs(span: Run, len: usize, runs: impl Iterator<Item = Run>) -> Self {
        if Window::words_over(span) <= words_for(len) {
            Self::Window(Box::new(Window::from_runs(span, runs)))
        } else {
            Self::Runs(Box::new(Runs::from_runs(runs)), 0)
        }
    }

    /// Converts the ledger to another form if the number and the distance of its runs require it.
    fn choose_form(&mut self) {
        let suited = match self {
            Self::Single(_) => None,
            Self::Window(window) if window.len() == 0 => Some(Self::default()),
            Self::Window(window) if window.len() == 1 => window.iter().next().map(Self::Single),
            Self::Window(_) => None,
            Self::Runs(runs, patience) => match (runs.len(), runs.span()) {
                (0, _) | (_, None) => Some(Self::default()),
                (1, Some(span)) => Some(Self::Single(span)),
                (len, Some(span)) => (*patience == 0 && Window::words_over(span) <= words_for(len))
                    .then(|| Self::of_runs(span, len, runs.iter())),
            },
        };
        if let Some(suited) = suited {
            *self = suited;
        }
    }
}

/// Returns the number of words that a window with `len` runs may take.
const fn words_for(len: usize) -> u64 {
    WORDS_ALWAYS + WORDS_PER_RUN * len as u64
}

/// One of three iterators with the same item type.
enum Either3<A, B, C> {
    A(A),
    B(B),
    C(C),
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>, C: Iterator<Item = T>> Iterator
    for Either3<A, B, C>
{
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Self::A(iterator) => iterator.next(),
            Self::B(iterator) => iterator.next(),
            Self::C(iterator) => iterator.next(),
        }
    }

    /// Selects the variant once for all items, not for each item.
    fn fold<R, F: FnMut(R, T) -> R>(self, start: R, step: F) -> R {
        match self {
            Self::A(iterator) => iterator.fold(start, step),
            Self::B(iterator) => iterator.fold(start, step),
            Self::C(iterator) => iterator.fold(start, step),
        }
    }
}
