//! `ackwell._native.Partials`: the class of `ackwell_core::partials`.

use std::collections::HashSet;
use std::ops::DerefMut;
use std::sync::Mutex;

use ackwell_core::error::InvalidArgument;
use ackwell_core::partials::{
    ACKS, Action, Codes, CursorColumns, EXISTS, Flaw, INTEGERS, NULL, Order, POSITION, Rows,
    SUBSCRIPTION, SizeRun, Texts, TransactionRows,
};
use ackwell_core::{self as core, Error, Position};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::Ints;
use crate::convert::{Int, raise};
use crate::ledgers::Ledgers;
use crate::position_info::PositionInfo;
use crate::shared::SharedCell;

type Array<'py> = Bound<'py, PyArray1<i64>>;
type Offsets<'py> = Bound<'py, PyArray1<i32>>;

/// A column of names: the int32 code of each row (None if each row has code 0), and for each code the int32 number that
/// identifies the name.
type PyCodes<'py> = (Option<PyReadonlyArray1<'py, i32>>, PyReadonlyArray1<'py, i32>);

/// The combined effect of events on many subscriptions. Two such objects can be merged in any order.
///
/// The caller numbers topics and subscriptions. Subscription 0 is the topic itself; its entries belong to all
/// subscriptions of the topic. In columns, the least int64 means null. Events may be fed in any order, and more than
/// once. An invalid event becomes the flaw of its subscription; other subscriptions are not affected.
///
/// Parameters
/// ----------
/// ordered : bool
///     Store the place (file and sequence) of each acknowledgment. A seek that is applied later needs these places.
/// resets_known : bool
///     The caller applies every seek (`seek`) and every cleared backlog (`clear`) before it feeds events.
/// batch_size_max : int
///     The number of messages in the largest accepted batch.
///
/// Examples
/// --------
/// >>> import numpy as np
/// >>> from ackwell._native import Partials
/// >>> partials = Partials()
/// >>> names = np.zeros(3, dtype=np.int32), np.array([1], dtype=np.int32)
/// >>> kinds = np.array([0, 0, 1], dtype=np.int32), np.array([2, 3], dtype=np.int32)  # exists, ack
/// >>> partials.feed(names, names, kinds, [7, 7, 7], [0, 1, 0])
/// >>> info, ledgers, sizes = partials.cursor(0)
/// >>> info.position, list(ledgers)
/// (Position(ledger_id=7, entry_id=0), [(7, 2)])
#[pyclass(frozen, module = "ackwell._native")]
pub(crate) struct Partials(SharedCell<core::Partials>, Mutex<Option<Copies>>);

#[pymethods]
impl Partials {
    #[new]
    #[pyo3(signature = (*, ordered=true, resets_known=false, batch_size_max=1_048_576))]
    fn new(ordered: bool, resets_known: bool, batch_size_max: i64) -> Self {
        let partials = core::Partials::new(ordered, resets_known, batch_size_max);
        Self(SharedCell::new(partials), Mutex::default())
    }

    /// The names of the actions of event kinds, by number.
    #[classattr]
    #[pyo3(name = "ACTIONS")]
    fn actions() -> Vec<String> {
        Action::ALL.iter().map(|action| format!("{action:?}")).collect()
    }

    /// Four lists of action numbers: the actions whose events need a subscription, those whose events need a position,
    /// those whose events prove that their entry exists, and those whose events acknowledge their entry.
    #[classattr]
    #[pyo3(name = "ACTIONS_BY_PROPERTY")]
    fn actions_by_property() -> [Vec<usize>; 4] {
        [SUBSCRIPTION, POSITION, EXISTS, ACKS].map(|property| {
            (0..Action::ALL.len()).filter(|number| Action::ALL[*number].has(property)).collect()
        })
    }

    /// The names of the flaws, by number.
    #[classattr]
    #[pyo3(name = "FLAWS")]
    fn flaws() -> Vec<String> {
        Flaw::ALL.iter().map(|flaw| format!("{flaw:?}")).collect()
    }

    /// Return the number that identifies a (topic, subscription). A new pair gets a new number.
    fn pair(&self, py: Python<'_>, topic: i32, subscription: i32) -> u32 {
        self.0.locked(py).pair(topic, subscription)
    }

    /// Return an int64 array with the result of `pair` for each row's (topic, subscription).
    ///
    /// Raises `ValueError`, and adds no pair, for columns of different lengths.
    fn pair_many<'py>(
        &self,
        py: Python<'py>,
        topics: PyReadonlyArray1<'py, i32>,
        subscriptions: PyReadonlyArray1<'py, i32>,
    ) -> PyResult<Array<'py>> {
        let (topics, subscriptions) = (topics.as_slice()?, subscriptions.as_slice()?);
        if topics.len() != subscriptions.len() {
            return Err(raise(Error::Value(InvalidArgument::ColumnLengths)));
        }
        let mut partials = self.0.locked(py);
        let mut last = None;
        let number = |(topic, subscription): (&i32, &i32)| match last {
            Some((names, pair)) if names == (*topic, *subscription) => pair,
            _ => {
                let pair = i64::from(partials.pair(*topic, *subscription));
                last = Some(((*topic, *subscription), pair));
                pair
            }
        };
        let pairs: Vec<i64> = topics.iter().zip(subscriptions).map(number).collect();
        drop(partials);
        Ok(pairs.into_pyarray(py))
    }

    /// Return two int64 arrays: the topic and the subscription of each pair, by pair number.
    fn names<'py>(&self, py: Python<'py>) -> (Array<'py>, Array<'py>) {
        let (topics, subscriptions): (Vec<i64>, Vec<i64>) =
            self.0.locked(py).names().map(|(t, s)| (i64::from(t), i64::from(s))).unzip();
        (topics.into_pyarray(py), subscriptions.into_pyarray(py))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.0.locked(py).len()
    }

    /// Return the number that identifies a file. A new file gets a new number; 0 is the file without a name.
    fn file(&self, py: Python<'_>, name: &str) -> u32 {
        self.0.locked(py).file(name)
    }

    /// Apply a seek: `ledger_id:entry_id` is read next, and earlier acknowledgments are void.
    ///
    /// `ack_set` has the messages of that entry that are not acknowledged. The seek is ignored if a seek with a later
    /// (file, sequence) is known.
    #[pyo3(signature = (pair, file, sequence, ledger_id, entry_id, ack_set=None))]
    #[expect(clippy::too_many_arguments, reason = "the columns of an event")]
    fn seek(
        &self,
        py: Python<'_>,
        pair: u32,
        file: u32,
        sequence: Int,
        ledger_id: Int,
        entry_id: Int,
        ack_set: Option<Vec<i64>>,
    ) -> PyResult<()> {
        let position = Position::entry(ledger_id.0, entry_id.0).map_err(raise)?;
        let mut partials = self.known(py, pair, file)?;
        let order = Order { file, sequence: sequence.0 };
        partials.seek(pair, order, position, ack_set.as_deref());
        Ok(())
    }

    /// Apply a cleared backlog: everything up to `ledger_id:entry_id` is acknowledged.
    fn clear(
        &self,
        py: Python<'_>,
        pair: u32,
        file: u32,
        sequence: Int,
        ledger_id: Int,
        entry_id: Int,
    ) -> PyResult<()> {
        let position = Position::entry(ledger_id.0, entry_id.0).map_err(raise)?;
        let mut partials = self.known(py, pair, file)?;
        partials.clear(pair, Order { file, sequence: sequence.0 }, position);
        Ok(())
    }

    /// Apply `info`, the state of a subscription before its first event, and add the known ledgers of its topic.
    ///
    /// If a seek is already known, it voids the acknowledgments of this state.
    fn start(
        &self,
        py: Python<'_>,
        pair: u32,
        info: &PositionInfo,
        ledgers: Vec<(i64, i64)>,
    ) -> PyResult<()> {
        if ledgers.iter().any(|(ledger_id, entries)| *ledger_id < 0 || *entries < 0) {
            return Err(raise(Error::Value(InvalidArgument::Ledgers)));
        }
        self.known(py, pair, 0)?.start(pair, info.state(), &ledgers);
        Ok(())
    }

    /// Set the settings of a subscription, given as a JSON text.
    ///
    /// The call is ignored if settings with a later (file, sequence) are known.
    fn set_settings(
        &self,
        py: Python<'_>,
        pair: u32,
        file: u32,
        sequence: Int,
        detail: String,
    ) -> PyResult<()> {
        let mut partials = self.known(py, pair, file)?;
        partials.set_settings(pair, Order { file, sequence: sequence.0 }, detail);
        Ok(())
    }

    /// Return `(pair, JSON text)` for each pair with settings.
    fn settings(&self, py: Python<'_>) -> Vec<(u32, String)> {
        let partials = self.0.locked(py);
        partials.settings().map(|(pair, detail)| (pair, detail.to_owned())).collect()
    }

    /// Set the ledgers of a pair's topic, given as ascending ids and numbers of entries.
    ///
    /// These ledgers replace the ledgers that are computed from the events.
    fn set_ledgers(
        &self,
        py: Python<'_>,
        pair: u32,
        ledger_ids: Ints<'_>,
        entries: Ints<'_>,
    ) -> PyResult<()> {
        let mut ledgers = core::Ledgers::new();
        for (ledger_id, entries) in ledger_ids.to_vec().iter().zip(entries.to_vec().iter()) {
            ledgers.grow(*ledger_id, *entries).map_err(raise)?;
        }
        self.known(py, pair, 0)?.set_ledgers(pair, ledgers);
        Ok(())
    }

    /// Return the flaw of a pair as a dictionary, or None.
    ///
    /// The keys are `file`, `sequence` (or None), `flaw` (a number of `ackwell.errors.Flaw`) and `message`.
    fn flaw(&self, py: Python<'_>, pair: u32) -> PyResult<Option<FlawFound>> {
        let partials = self.known(py, pair, 0)?;
        Ok(partials.flaw(pair).map(|(Order { file, sequence }, flaw)| FlawFound {
            file: partials.file_name(file).to_owned(),
            sequence: Some(sequence).filter(|sequence| *sequence != NULL),
            flaw: flaw as u8,
            message: flaw.text(),
        }))
    }

    /// Record a flaw of a pair, unless a flaw with an earlier (file, sequence) is known. `flaw` is the flaw's number.
    fn note_flaw(
        &self,
        py: Python<'_>,
        pair: u32,
        file: u32,
        sequence: Int,
        flaw: u8,
    ) -> PyResult<()> {
        let flaw = Flaw::numbered(flaw)
            .ok_or_else(|| raise(Error::Value(InvalidArgument::Unknown { what: "a flaw" })))?;
        let mut partials = self.known(py, pair, file)?;
        partials.note_flaw(pair, Order { file, sequence: sequence.0 }, flaw);
        Ok(())
    }

    /// Return whether the subscription was deleted and not created again.
    fn is_deleted(&self, py: Python<'_>, pair: u32) -> PyResult<bool> {
        Ok(self.known(py, pair, 0)?.is_deleted(pair))
    }

    /// Return the last position that exists according to the events of the subscription and its topic, or None.
    fn last_published(&self, py: Python<'_>, pair: u32) -> PyResult<Option<(i64, i64)>> {
        let last = self.known(py, pair, 0)?.last_published(pair);
        Ok(last.map(|at| (at.ledger_id, at.entry_id)))
    }

    /// Return the pair whose flaw comes first by (file, sequence); None if no pair has a flaw.
    fn first_flawed(&self, py: Python<'_>) -> Option<u32> {
        self.0.locked(py).first_flawed()
    }

    /// Apply rows of events; return the index of the first row that is not an event, or None.
    ///
    /// The subscription of a row that is not an event gets a flaw. A column of names (`topics`, `subscriptions`,
    /// `kinds` and files) is a pair of int32 arrays, `(codes, numbers)`. `codes` has the code of each row, or is None
    /// if each row has code 0. `numbers[code]` is the number that identifies a name. For a kind, this number is an
    /// index into `ACTIONS`. Every other column is an int64 array. O(rows); other threads run during the call.
    ///
    /// Parameters
    /// ----------
    /// batches : (batch indexes or None, batch sizes or None), optional
    ///     The index of each row's message in its batch, and the number of messages in the batch.
    /// ack_sets : (starts, ends, words), optional
    ///     The ack set of a row is `words[start:end]`. If the start is null, the row has no ack set.
    /// order : (sequences or None, files or None), optional
    ///     The sequence of each event in its file, and the file. Without files, all rows belong to file 0.
    ///
    /// Raises
    /// ------
    /// ValueError
    ///     For columns of different lengths, and for codes or ack sets that are out of range. No row is applied.
    #[pyo3(signature = (topics, subscriptions, kinds, ledger_ids, entry_ids, *, batches=(None, None), ack_sets=None,
                        order=(None, None)),
           text_signature = "($self, topics, subscriptions, kinds, ledger_ids, entry_ids, *, batches=(None, None), ack_sets=None, order=(None, None))")]
    #[expect(clippy::too_many_arguments, reason = "the columns of an event")]
    fn feed(
        &self,
        py: Python<'_>,
        topics: PyCodes<'_>,
        subscriptions: PyCodes<'_>,
        kinds: PyCodes<'_>,
        ledger_ids: Ints<'_>,
        entry_ids: Ints<'_>,
        batches: (Option<Ints<'_>>, Option<Ints<'_>>),
        ack_sets: Option<(Ints<'_>, Ints<'_>, Ints<'_>)>,
        order: (Option<Ints<'_>>, Option<PyCodes<'_>>),
    ) -> PyResult<Option<usize>> {
        let ((batch_indexes, batch_sizes), (sequences, files)) = (batches, order);
        let [starts, ends, words] = match &ack_sets {
            Some((starts, ends, words)) => [Some(starts), Some(ends), Some(words)],
            None => [None; 3],
        };
        let mut copies = self.copies();
        let columns =
            [Some(&ledger_ids), Some(&entry_ids), batch_indexes.as_ref(), batch_sizes.as_ref()];
        let columns = columns.into_iter().chain([starts, ends, words, sequences.as_ref()]);
        for (column, copy) in columns.zip(&mut copies.integers) {
            if let Some(column) = column {
                column.copy_to(copy);
            }
        }
        let codes = [Some(&topics), Some(&subscriptions), Some(&kinds), files.as_ref()];
        for (column, copy) in codes.into_iter().zip(&mut copies.codes) {
            if let Some((codes, numbers)) = column {
                copy.take(codes.as_ref(), numbers)?;
            }
        }
        let [ledger_ids, entry_ids, indexes, sizes, starts, ends, words, orders] =
            copies.integers.each_ref().map(Vec::as_slice);
        let [topics, subscriptions, kinds, files_of] = copies.codes.each_ref().map(OwnCodes::view);
        let rows = Rows {
            topics,
            subscriptions,
            kinds,
            ledger_ids,
            entry_ids,
            batch_indexes: batch_indexes.is_some().then_some(indexes),
            batch_sizes: batch_sizes.is_some().then_some(sizes),
            ack_sets: ack_sets.is_some().then_some((starts, ends)),
            words: if ack_sets.is_some() { words } else { &[] },
            sequences: sequences.is_some().then_some(orders),
            files: files.is_some().then_some(files_of),
        };
        let taken = self.0.detached(py, |partials| partials.feed(&rows)).map_err(raise);
        self.keep(copies);
        taken
    }

    /// Apply commits of transactions, given as an int64 array of pairs and an int32 array of transaction numbers.
    ///
    /// Raises `ValueError`, and applies no commit, for columns of different lengths and for an unknown pair.
    fn commit_many(
        &self,
        py: Python<'_>,
        pairs: Ints<'_>,
        transactions: PyReadonlyArray1<'_, i32>,
    ) -> PyResult<()> {
        let (pairs, transactions) = (pairs.to_vec(), transactions.as_array().to_vec());
        if pairs.len() != transactions.len() {
            return Err(raise(Error::Value(InvalidArgument::ColumnLengths)));
        }
        let mut partials = self.0.locked(py);
        let known = |pair: &i64| usize::try_from(*pair).is_ok_and(|pair| pair < partials.len());
        if !pairs.iter().all(known) {
            drop(partials);
            return Err(raise(Error::Value(InvalidArgument::Unknown { what: "a pair" })));
        }
        for (pair, transaction) in pairs.iter().zip(transactions) {
            partials.commit(*pair as u32, transaction);
        }
        Ok(())
    }

    /// Return the indexes of the rows with an acknowledgment in a transaction whose commit is not known.
    ///
    /// The result is an int64 array in ascending order. The columns are those of `feed`. The length of `ledger_ids` is
    /// the number of rows. Transaction 0 means no transaction. With `takes_commits`, the commits among the rows are
    /// applied first. Raises `ValueError`, and applies no commit, in the cases of `feed`. O(rows); other threads run
    /// during the call.
    #[pyo3(signature = (topics, subscriptions, kinds, transactions, ledger_ids, *, takes_commits))]
    #[expect(clippy::too_many_arguments, reason = "the columns of an event")]
    fn uncommitted_rows<'py>(
        &self,
        py: Python<'py>,
        topics: PyCodes<'py>,
        subscriptions: PyCodes<'py>,
        kinds: PyCodes<'py>,
        transactions: PyCodes<'py>,
        ledger_ids: Ints<'py>,
        takes_commits: bool,
    ) -> PyResult<Array<'py>> {
        let mut copies = self.copies();
        let columns = [&topics, &subscriptions, &kinds, &transactions];
        for ((codes, numbers), copy) in columns.into_iter().zip(&mut copies.codes) {
            copy.take(codes.as_ref(), numbers)?;
        }
        let [topics, subscriptions, kinds, transactions] =
            copies.codes.each_ref().map(OwnCodes::view);
        let count = ledger_ids.len();
        let rows = TransactionRows { count, topics, subscriptions, kinds, transactions };
        let uncommitted =
            self.0.detached(py, |partials| partials.uncommitted_rows(&rows, takes_commits));
        self.keep(copies);
        Ok(uncommitted.map_err(raise)?.into_pyarray(py))
    }

    /// Merge states that `encode` returned. Each row has a pair, a ledger id or null, and a state.
    ///
    /// Raises `CorruptStateError` for invalid bytes, and `NewerVersionError` for bytes of a newer release. In both
    /// cases, the states of the rows before the error are merged.
    fn merge(
        &self,
        py: Python<'_>,
        pairs: Ints<'_>,
        ledger_ids: Ints<'_>,
        states: Vec<Bound<'_, PyBytes>>,
    ) -> PyResult<()> {
        let (pairs, ledger_ids) = (pairs.to_vec(), ledger_ids.to_vec());
        let states: Vec<&[u8]> = states.iter().map(|state| state.as_bytes()).collect();
        if pairs.len() != states.len() || ledger_ids.len() != states.len() {
            return Err(raise(Error::Value(InvalidArgument::ColumnLengths)));
        }
        let merge = |partials: &mut core::Partials| {
            for ((pair, ledger_id), state) in pairs.iter().zip(ledger_ids.iter()).zip(&states) {
                let pair =
                    u32::try_from(*pair).ok().filter(|pair| (*pair as usize) < partials.len());
                let pair = pair.ok_or(Error::Value(InvalidArgument::Unknown { what: "a pair" }))?;
                partials.merge(pair, Some(*ledger_id).filter(|id| *id != NULL), state)?;
            }
            Ok(())
        };
        self.0.detached(py, merge).map_err(raise)
    }

    /// Merge all of `other` into this object, and leave `other` empty.
    ///
    /// `topics`, `subscriptions` and `transactions` are int32 arrays that map the numbers of `other` to the numbers in
    /// this object. O(size of `other`); other threads run during the call. Raises `ValueError` if a number of `other`
    /// is not in its mapping. Then nothing is merged, and `other` is empty.
    fn absorb(
        &self,
        py: Python<'_>,
        other: &Self,
        topics: PyReadonlyArray1<'_, i32>,
        subscriptions: PyReadonlyArray1<'_, i32>,
        transactions: PyReadonlyArray1<'_, i32>,
    ) -> PyResult<()> {
        let [topics, subscriptions, transactions] =
            [topics, subscriptions, transactions].map(|numbers| numbers.as_array().to_vec());
        let theirs = std::mem::take(&mut *other.0.locked(py));
        let fits =
            |number: i32, ours: &[i32]| usize::try_from(number).is_ok_and(|n| n < ours.len());
        let named = theirs.names().all(|(t, s)| fits(t, &topics) && fits(s, &subscriptions));
        if !named || !theirs.committed().all(|transaction| fits(transaction, &transactions)) {
            return Err(raise(Error::Value(InvalidArgument::Unnumbered)));
        }
        self.0.detached(py, |partials| {
            partials.absorb(theirs, &topics, &subscriptions, &transactions);
        });
        Ok(())
    }

    /// Return the states of pairs as a dictionary of columns, from pair number `start`, up to about `max_bytes`.
    ///
    /// `taken` is the number of encoded pairs. Each row has a pair, a ledger id or null, and a state. The column of
    /// states is int32 offsets and bytes.
    #[pyo3(signature = (start=0, max_bytes=4_194_304))]
    fn encode<'py>(&self, py: Python<'py>, start: u32, max_bytes: usize) -> PartialRows<'py> {
        let (taken, pairs, ledger_ids, states) = self.0.detached(py, |partials| {
            let (mut pairs, mut ledger_ids, mut states) = (vec![], vec![], Texts::default());
            let mut pair = start;
            while (pair as usize) < partials.len() && states.bytes.len() < max_bytes {
                for (ledger_id, state) in partials.encode(pair) {
                    pairs.push(i64::from(pair));
                    ledger_ids.push(ledger_id.unwrap_or(NULL));
                    states.push(&state);
                }
                pair += 1;
            }
            (pair - start, pairs, ledger_ids, states)
        });
        PartialRows {
            taken,
            pairs: pairs.into_pyarray(py),
            ledger_ids: ledger_ids.into_pyarray(py),
            states: PyTexts::new(py, states),
        }
    }

    /// Return a pair's state: its `PositionInfo`, its `Ledgers`, and `(ledger_id, entry_id, size)` of each batch.
    ///
    /// Raises `ProtocolError` for a flaw, for an acknowledgment of an entry that was never published, and for a batch
    /// index beyond its batch or in a batch of unknown size.
    #[pyo3(signature = (pair, *, batch_index_acks=true))]
    #[expect(clippy::type_complexity, reason = "three values")]
    fn cursor(
        &self,
        py: Python<'_>,
        pair: u32,
        batch_index_acks: bool,
    ) -> PyResult<(PositionInfo, Ledgers, Vec<(i64, i64, i64)>)> {
        let cursor = self.known(py, pair, 0)?.cursor(pair, batch_index_acks).map_err(raise)?;
        let entries = |run: &SizeRun| {
            let run = *run;
            (run.first_entry_id..run.end()).map(move |entry_id| (run.ledger_id, entry_id, run.size))
        };
        let sizes = cursor.sizes.iter().flat_map(entries).collect();
        Ok((PositionInfo::of(cursor.info), Ledgers::of(cursor.ledgers), sizes))
    }

    /// Return the cursors of `pairs` as a dictionary of columns, and stop after about `max_bytes`.
    ///
    /// `taken` is the number of pairs that are returned. Each of these pairs is a row. Columns of texts, bytes and
    /// lists have int32 offsets. `errors` has `(row, message)` for each pair without a cursor. `deleted` has the rows
    /// of deleted subscriptions. For the pairs in `whole_acks`, acknowledgments of single batch indexes are ignored.
    /// For each ack set, `acked` has the number of acknowledged messages in its batch; the value -n - 1 means at least
    /// n.
    #[pyo3(signature = (pairs, whole_acks=None, max_bytes=4_194_304))]
    fn cursors<'py>(
        &self,
        py: Python<'py>,
        pairs: Ints<'py>,
        whole_acks: Option<Vec<u32>>,
        max_bytes: usize,
    ) -> PyResult<Cursors<'py>> {
        let pairs = pairs.to_vec();
        let whole_acks: HashSet<u32> = whole_acks.unwrap_or_default().into_iter().collect();
        let columns = self.0.detached(py, |partials| {
            let mut columns = CursorColumns::default();
            for pair in pairs.iter() {
                let pair =
                    u32::try_from(*pair).ok().filter(|pair| (*pair as usize) < partials.len());
                let pair = pair.ok_or(Error::Value(InvalidArgument::Unknown { what: "a pair" }))?;
                columns.push(partials, pair, !whole_acks.contains(&pair));
                if columns.bytes() >= max_bytes {
                    break;
                }
            }
            Ok(columns)
        });
        Cursors::new(py, columns.map_err(raise)?)
    }
}

/// The result of [`Partials::flaw`].
#[derive(IntoPyObject)]
struct FlawFound {
    file: String,
    sequence: Option<i64>,
    flaw: u8,
    message: &'static str,
}

impl Partials {
    /// Returns memory for copies: the memory that an earlier call stored with `keep`, or new memory if none is stored.
    /// It is also new if another thread uses the stored memory.
    fn copies(&self) -> Copies {
        self.1.lock().ok().and_then(|mut kept| kept.take()).unwrap_or_default()
    }

    /// Stores the memory of copies for the next call, unless it is too large.
    fn keep(&self, copies: Copies) {
        let rows = copies.codes.iter().map(|own| own.codes.len()).max().unwrap_or(0);
        if rows.max(copies.integers[0].len()) <= COPIES_KEPT_MAX
            && let Ok(mut kept) = self.1.lock()
        {
            *kept = Some(copies);
        }
    }

    /// Locks the partials. Returns an error if they do not have this pair or this file.
    fn known(
        &self,
        py: Python<'_>,
        pair: u32,
        file: u32,
    ) -> PyResult<impl DerefMut<Target = core::Partials> + '_> {
        let partials = self.0.locked(py);
        if pair as usize >= partials.len() || file as usize >= partials.files() {
            drop(partials);
            return Err(raise(Error::Value(InvalidArgument::Unknown { what: "a pair or a file" })));
        }
        Ok(partials)
    }
}

/// If copies have at most this number of rows, their memory (some tens of MB) is kept for the next call.
const COPIES_KEPT_MAX: usize = 1 << 20;

/// Copies of the columns of events. No other thread can write to the copies. Their memory is reused.
#[derive(Default)]
struct Copies {
    integers: [Vec<i64>; 8],
    codes: [OwnCodes; 4],
}

/// A copy of a column of names. No other thread can write to it.
#[derive(Default)]
struct OwnCodes {
    codes: Vec<i32>,
    has_codes: bool,
    numbers: Vec<i32>,
}

impl OwnCodes {
    fn take(
        &mut self,
        codes: Option<&PyReadonlyArray1<'_, i32>>,
        numbers: &PyReadonlyArray1<'_, i32>,
    ) -> PyResult<()> {
        self.has_codes = codes.is_some();
        self.codes.clear();
        if let Some(codes) = codes {
            self.codes.extend_from_slice(codes.as_slice()?);
        }
        self.numbers.clear();
        self.numbers.extend_from_slice(numbers.as_slice()?);
        Ok(())
    }

    fn view(&self) -> Codes<'_> {
        Codes { codes: self.has_codes.then_some(&self.codes), numbers: &self.numbers }
    }
}

/// A column of texts or byte strings in Arrow's layout: offsets, and concatenated bytes. It is not copied, because it
/// may take 100 MB.
#[derive(IntoPyObject)]
struct PyTexts<'py> {
    offsets: Offsets<'py>,
    data: Bound<'py, PyArray1<u8>>,
}

impl<'py> PyTexts<'py> {
    fn new(py: Python<'py>, texts: Texts) -> Self {
        Self { offsets: texts.offsets.into_pyarray(py), data: texts.bytes.into_pyarray(py) }
    }
}

/// The result of [`Partials::encode`]: the number of encoded pairs, and for each row the pair, the ledger or null, and
/// the state.
#[derive(IntoPyObject)]
struct PartialRows<'py> {
    taken: u32,
    pairs: Array<'py>,
    ledger_ids: Array<'py>,
    states: PyTexts<'py>,
}

/// Columns of ack sets: the start of each row's sets, their positions as texts, the start of each set's words, the
/// words, and the number of acknowledged messages.
#[derive(IntoPyObject)]
struct AckSets<'py> {
    offsets: Offsets<'py>,
    keys: PyTexts<'py>,
    word_offsets: Offsets<'py>,
    words: Array<'py>,
    acked: Array<'py>,
}

/// Columns of ledgers: the start of each row's ledgers, their ids and numbers of entries.
#[derive(IntoPyObject)]
struct LedgerColumns<'py> {
    offsets: Offsets<'py>,
    ids: Array<'py>,
    entries: Array<'py>,
}

/// The columns of cursors; see `ackwell_core::partials::CursorColumns`.
#[derive(IntoPyObject)]
struct Cursors<'py> {
    taken: usize,
    errors: Vec<(usize, String)>,
    deleted: Vec<usize>,
    integers: Bound<'py, PyDict>,
    individually_deleted: PyTexts<'py>,
    position_info: PyTexts<'py>,
    compact: PyTexts<'py>,
    batch_sizes: PyTexts<'py>,
    batch_deleted: AckSets<'py>,
    ledgers: LedgerColumns<'py>,
}

impl<'py> Cursors<'py> {
    fn new(py: Python<'py>, columns: CursorColumns) -> PyResult<Self> {
        let integers = PyDict::new(py);
        for (name, values) in INTEGERS.into_iter().zip(columns.integers) {
            integers.set_item(name, values.into_pyarray(py))?;
        }
        let texts = |texts| PyTexts::new(py, texts);
        Ok(Self {
            taken: columns.rows,
            errors: columns.errors,
            deleted: columns.deleted,
            integers,
            individually_deleted: texts(columns.individually_deleted),
            position_info: texts(columns.position_info),
            compact: texts(columns.compact),
            batch_sizes: texts(columns.batch_sizes),
            batch_deleted: AckSets {
                offsets: columns.batch_offsets.into_pyarray(py),
                keys: texts(columns.batch_keys),
                word_offsets: columns.word_offsets.into_pyarray(py),
                words: columns.words.into_pyarray(py),
                acked: columns.batch_acked.into_pyarray(py),
            },
            ledgers: LedgerColumns {
                offsets: columns.ledger_offsets.into_pyarray(py),
                ids: columns.ledger_ids.into_pyarray(py),
                entries: columns.entries.into_pyarray(py),
            },
        })
    }
}
