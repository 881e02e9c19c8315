//! One slot of the wheel: the messages of `2^bits` ticks.
//!
//! Messages in order of position go to the tail run and from there into the stream. Messages out of order wait in one
//! small sorted list, and removed messages in another. When both lists together are longer than about the square root
//! of the number of messages, the stream is rewritten. This limit balances the cost of inserts into the lists with the
//! cost of rewriting the stream.

use super::run::{MessageRun, Tail};
use super::stream::Stream;
use crate::error::Validity;

/// A slot with at most this many late and removed messages does not rewrite its stream.
const EDITS_MIN: usize = 64;

/// A message as `(ledger, entry, tick)`. The stream is sorted by these numbers.
pub(super) type Message = (i64, i64, u64);

#[derive(Debug, Clone, Default)]
struct Edits {
    /// The sorted messages that are not in the stream. A position can be both in this list and in the stream, with
    /// different ticks.
    late: Vec<Message>,
    /// The removed messages that are still in the stream or the tail, sorted.
    removed: Vec<Message>,
    /// The stream is rewritten when there are more late and removed messages than this number.
    limit: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Slot {
    pub(super) bits: u32,
    stream: Stream,
    tail: Option<Tail>,
    edits: Option<Box<Edits>>,
    count: u64,
    /// The least tick; `None` if a message with the least tick was removed and the new least tick was not searched yet.
    least: Option<u64>,
}

impl Slot {
    pub(super) fn new(bits: u32) -> Self {
        Self {
            bits,
            stream: Stream::new(),
            tail: None,
            edits: None,
            count: 0,
            least: Some(u64::MAX),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// Adds a message if it continues the tail run; returns whether it was added. This is the fast path for messages in
    /// order.
    #[inline]
    pub(super) fn extend(&mut self, ledger: i64, entry: i64, tick: u64) -> bool {
        // The ticks of a run never decrease, so the least tick does not change.
        let taken = self.tail_takes(ledger, entry, tick);
        self.count += u64::from(taken);
        taken
    }

    #[inline]
    fn tail_takes(&mut self, ledger: i64, entry: i64, tick: u64) -> bool {
        let Some(tail) = &mut self.tail else { return false };
        let run = &tail.run;
        ledger == run.ledger
            && entry.wrapping_sub(run.entry) as u64 == run.count
            && tail.extend(tick)
    }

    /// Adds a message; returns false if the slot already has it.
    #[inline]
    pub(super) fn add(&mut self, ledger: i64, entry: i64, tick: u64) -> bool {
        if self.extend(ledger, entry, tick) {
            return true;
        }
        if (ledger, entry) <= self.last() {
            return self.add_late((ledger, entry, tick));
        }
        self.append(MessageRun::one(ledger, entry, tick));
        self.note(tick);
        true
    }

    /// Updates the count and the least tick after a message was added.
    #[inline]
    fn note(&mut self, tick: u64) {
        self.count += 1;
        self.least = self.least.map(|least| least.min(tick));
    }

    /// Returns the greatest position in the stream and the tail.
    #[inline]
    pub(super) fn last(&self) -> (i64, i64) {
        match &self.tail {
            Some(tail) => (tail.run.ledger, tail.run.last_entry()),
            None => self.stream.last(),
        }
    }

    /// Moves the tail into the stream, and makes `run` the new tail. `run` must be after all other messages.
    fn append(&mut self, run: MessageRun) {
        if let Some(tail) = self.tail.replace(Tail::new(run)) {
            self.stream.push(tail.run, self.bits);
        }
    }

    /// Adds a run, which must be after all other messages of the stream and the tail.
    pub(super) fn add_run(&mut self, run: MessageRun) {
        self.count += run.count;
        self.least = self.least.map(|least| least.min(run.tick));
        if run.count > 1 || !self.tail_takes(run.ledger, run.entry, run.tick) {
            self.append(run);
        }
    }

    #[cold]
    fn add_late(&mut self, message: Message) -> bool {
        let held = self.in_stream(message);
        let edits = self.edits.get_or_insert_default();
        if held {
            // The message is in the stream. It is new only if it was removed before.
            let Ok(at) = edits.removed.binary_search(&message) else { return false };
            edits.removed.remove(at);
            self.note(message.2);
            return true;
        }
        let Err(at) = edits.late.binary_search(&message) else { return false };
        edits.late.insert(at, message);
        self.note(message.2);
        self.compact_when_due();
        true
    }

    /// Returns whether the stream or the tail has the message, even if the message was removed.
    fn in_stream(&self, (ledger, entry, tick): Message) -> bool {
        let held = match &self.tail {
            Some(tail) if (ledger, entry) >= (tail.run.ledger, tail.run.entry) => {
                (ledger == tail.run.ledger).then(|| tail.run.tick_at(entry)).flatten()
            }
            _ => self
                .stream
                .runs_from(ledger, entry, self.bits)
                .find(|run| (run.ledger, run.last_entry()) >= (ledger, entry))
                .filter(|run| run.ledger == ledger)
                .and_then(|run| run.tick_at(entry)),
        };
        held == Some(tick)
    }

    pub(super) fn contains(&self, ledger: i64, entry: i64, tick: u64) -> bool {
        let message = (ledger, entry, tick);
        match &self.edits {
            Some(edits) if edits.late.binary_search(&message).is_ok() => true,
            Some(edits) if edits.removed.binary_search(&message).is_ok() => false,
            _ => self.in_stream(message),
        }
    }

    /// Removes a message; returns false if the slot does not have it.
    pub(super) fn remove(&mut self, ledger: i64, entry: i64, tick: u64) -> bool {
        let message = (ledger, entry, tick);
        if !self.contains(ledger, entry, tick) {
            return false;
        }
        let edits = self.edits.get_or_insert_default();
        match edits.late.binary_search(&message) {
            Ok(at) => {
                edits.late.remove(at);
            }
            Err(_) => {
                let at = edits.removed.binary_search(&message).expect_err("contains");
                edits.removed.insert(at, message);
            }
        }
        self.count -= 1;
        if self.least == Some(tick) {
            self.least = None;
        }
        self.compact_when_due();
        true
    }

    /// Returns the least tick. O(n) if a message with the least tick was removed.
    pub(super) fn least(&mut self) -> u64 {
        if self.least.is_none() {
            let mut least = u64::MAX;
            self.for_each_live(|run| least = least.min(run.tick));
            let late = self.edits.iter().flat_map(|edits| &edits.late);
            self.least = Some(late.map(|message| message.2).fold(least, u64::min));
        }
        self.least.expect("just found")
    }

    /// Returns the least tick, or a lower bound of it.
    pub(super) fn least_bound(&self) -> u64 {
        self.least.unwrap_or(0)
    }

    fn compact_when_due(&mut self) {
        let Some(edits) = &self.edits else { return };
        let held = edits.late.len() + edits.removed.len();
        if held > EDITS_MIN && held > edits.limit {
            // Four times the square root of the number of messages. An insert moves half of a list on average, and
            // rewriting a message costs as much as about sixteen moves.
            let root = (self.count as f64).sqrt() as usize * 4;
            self.compact();
            // Some late messages cannot go into the stream. The limit is at least twice their number, so that they do
            // not cause the next rewriting soon.
            if let Some(edits) = &mut self.edits {
                edits.limit = root.max(2 * edits.late.len());
            }
        }
    }

    /// Rewrites the stream with the late messages and without the removed ones. The positions in the stream are
    /// strictly ascending. So if a position has messages at two ticks, one of them stays in the list of late messages.
    pub(super) fn compact(&mut self) {
        let Some(edits) = self.edits.take() else { return };
        let mut fresh = Self::new(self.bits);
        let mut kept = Edits::default();
        let mut late = edits.late.iter().copied().peekable();
        let place = |fresh: &mut Self, kept: &mut Edits, (ledger, entry, tick): Message| {
            if (ledger, entry) > fresh.last() {
                fresh.add_run(MessageRun::one(ledger, entry, tick));
            } else {
                kept.late.push((ledger, entry, tick));
            }
        };
        self.edits = Some(Box::new(Edits { removed: edits.removed.clone(), ..Edits::default() }));
        self.for_each_live(|run| {
            while let Some(message) =
                late.next_if(|&(ledger, entry, _)| (ledger, entry) < (run.ledger, run.entry))
            {
                place(&mut fresh, &mut kept, message);
            }
            fresh.add_run(run);
        });
        late.for_each(|message| place(&mut fresh, &mut kept, message));
        kept.late.sort_unstable();
        fresh.count += kept.late.len() as u64;
        debug_assert_eq!(self.count, fresh.count);
        fresh.least = self.least;
        fresh.edits = (!kept.late.is_empty()).then(|| Box::new(kept));
        *self = fresh;
    }

    /// Calls `visit` with each run of the stream and then with the tail, in order of position. Removed messages are
    /// first cut out of these runs.
    fn for_each_live(&self, mut visit: impl FnMut(MessageRun)) {
        let mut removed = self.edits.iter().flat_map(|edits| &edits.removed).peekable();
        let tail = self.tail.iter().map(|tail| tail.run);
        for run in self.stream.runs(self.bits).chain(tail) {
            let mut rest = Some(run);
            while let Some(mut run) = rest
                && let Some(&(_, entry, _)) =
                    removed.next_if(|m| m.0 == run.ledger && m.1 <= run.last_entry())
            {
                if let Some(front) = run.cut_front((entry - run.entry) as u64) {
                    visit(front);
                }
                rest = (run.count > 1).then(|| {
                    run.cut_front(1);
                    run
                });
            }
            if let Some(run) = rest {
                visit(run);
            }
        }
    }

    /// Calls `visit` with runs that together contain every message: first the runs of the stream and the tail, in order
    /// of position, then each late message as a run.
    pub(super) fn for_each_run(&self, mut visit: impl FnMut(MessageRun)) {
        self.for_each_live(&mut visit);
        let late = self.edits.iter().flat_map(|edits| &edits.late);
        late.for_each(|&(ledger, entry, tick)| visit(MessageRun::one(ledger, entry, tick)));
    }

    /// Rewrites the stream if there are late or removed messages, and moves the tail into it. The stream then has every
    /// message except those that must stay late (see [`Slot::compact`]).
    pub(super) fn seal(&mut self) {
        self.compact();
        if let Some(tail) = self.tail.take() {
            self.stream.push(tail.run, self.bits);
        }
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn late(&self) -> impl ExactSizeIterator<Item = Message> + '_ {
        let late: &[Message] = self.edits.as_ref().map_or(&[], |edits| &edits.late);
        late.iter().copied()
    }

    /// Creates a slot from a checked stream and late messages. The late messages must be in strictly ascending order,
    /// have ticks of this slot, and not be in the stream. Otherwise, returns `None`. Makes one pass over the stream and
    /// the late messages.
    pub(super) fn from_parts(
        bits: u32,
        stream: Stream,
        streamed: u64,
        least: u64,
        mut late: Vec<Message>,
    ) -> Option<Self> {
        let inside = late.iter().all(|message| message.2 >> bits == 0);
        if !inside || !late.is_sorted_by(|a, b| a < b) {
            return None;
        }
        let after = late.partition_point(|&(ledger, entry, _)| (ledger, entry) <= stream.last());
        let after = late.split_off(after);
        let mut runs = stream.runs(bits).peekable();
        let in_stream = |&(ledger, entry, tick): &Message| {
            while runs.next_if(|run| (run.ledger, run.last_entry()) < (ledger, entry)).is_some() {}
            runs.peek().is_some_and(|run| run.ledger == ledger && run.tick_at(entry) == Some(tick))
        };
        if late.iter().any(in_stream) {
            return None;
        }
        let mut slot = Self::new(bits);
        slot.stream = stream;
        slot.count = streamed.saturating_add(late.len() as u64);
        slot.least = late.iter().map(|message| message.2).chain([least]).min();
        if !late.is_empty() {
            let limit = 2 * late.len();
            slot.edits = Some(Box::new(Edits { late, limit, ..Edits::default() }));
        }
        after.iter().all(|&(ledger, entry, tick)| slot.add(ledger, entry, tick)).then_some(slot)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let edits = self.edits.as_ref().map_or(0, |edits| {
            size_of::<Edits>()
                + (edits.late.capacity() + edits.removed.capacity()) * size_of::<Message>()
        });
        self.stream.heap_bytes() + edits
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.compact();
        self.stream.shrink_to_fit();
    }

    pub(super) fn validate(&self) -> Validity {
        let (mut before, mut count, mut least) = ((-1, -1), 0, u64::MAX);
        let tail = self.tail.iter().map(|tail| tail.run);
        for run in self.stream.runs(self.bits).chain(tail) {
            if (run.ledger, run.entry) <= before {
                return Err(format!("{run:?} is not after {before:?}"));
            }
            before = (run.ledger, run.last_entry());
            if run.last_tick() >> self.bits > 0 {
                return Err(format!("{run:?} leaves its slot of {} bits", self.bits));
            }
        }
        self.for_each_run(|run| {
            count += run.count;
            least = least.min(run.tick);
        });
        if let Some(edits) = &self.edits {
            let sorted = |messages: &[Message]| messages.is_sorted_by(|a, b| a < b);
            if !sorted(&edits.late) || !sorted(&edits.removed) {
                return Err("edits are not ascending".into());
            }
            if edits.late.iter().any(|&message| self.in_stream(message)) {
                return Err("a late message is in the stream, too".into());
            }
            if !edits.removed.iter().all(|&message| self.in_stream(message)) {
                return Err("a removed message was never here".into());
            }
        }
        match (count == self.count && count > 0, self.least) {
            (false, _) => Err(format!("slot counts {}, holds {count}", self.count)),
            (_, Some(known)) if known != least => Err(format!("least {known} is {least}")),
            _ => Ok(()),
        }
    }
}
