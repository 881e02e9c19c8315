//! The acknowledgments in transactions. An acknowledgment takes effect if its transaction is committed. A pair is a
//! (topic, subscription).
//!
//! Each transaction has a number that identifies it, as topics and subscriptions have. The number [`NONE`] means no
//! transaction.

use super::events::{ACKS, Action, Codes};
use super::rows::PairsOfBatch;
use super::{MixBuilder, Partials};
use crate::error::{Error, InvalidArgument, Result};
use std::collections::HashSet;

/// The number that means no transaction.
const NONE: i32 = 0;

/// The committed transactions as (pair number, transaction number).
pub(super) type CommittedTransactions = HashSet<(u32, i32), MixBuilder>;

/// Columns of events: topics, subscriptions, kinds and transactions.
#[derive(Debug, Clone, Copy)]
pub struct TransactionRows<'a> {
    /// The number of events.
    pub count: usize,
    /// The topic.
    pub topics: Codes<'a>,
    /// The subscription.
    pub subscriptions: Codes<'a>,
    /// The kind of the event. The numbers of kinds are indexes into [`Action::ALL`].
    pub kinds: Codes<'a>,
    /// The transaction, or [`NONE`].
    pub transactions: Codes<'a>,
}

impl TransactionRows<'_> {
    fn check(&self) -> Result<()> {
        for column in [self.topics, self.subscriptions, self.kinds, self.transactions] {
            if column.codes.is_some_and(|codes| codes.len() != self.count) {
                return Err(Error::Value(InvalidArgument::ColumnLengths));
            }
            column.check()?;
        }
        Action::check(self.kinds.numbers)
    }
}

impl Partials {
    /// Records the commit of a transaction of a pair.
    pub fn commit(&mut self, pair: u32, transaction: i32) {
        self.committed.insert((pair, transaction));
    }

    /// Returns the numbers that identify the committed transactions. A transaction of several pairs is returned once
    /// for each pair.
    pub fn committed(&self) -> impl Iterator<Item = i32> + '_ {
        self.committed.iter().map(|(_, transaction)| *transaction)
    }

    /// Returns, in order, the indexes of the rows that are acknowledgments in a transaction whose commit is not known.
    /// If `takes_commits` is true, the commits in `rows` are recorded first. O(rows).
    ///
    /// # Errors
    /// [`Error::Value`] if the columns have different lengths, or if a code is out of range. No commit is applied then.
    pub fn uncommitted_rows(
        &mut self,
        rows: &TransactionRows<'_>,
        takes_commits: bool,
    ) -> Result<Vec<i64>> {
        rows.check()?;
        let TransactionRows { count, topics, subscriptions, kinds, transactions } = *rows;
        let mut pairs = PairsOfBatch::new(topics, subscriptions, count);
        let does = |action: fn(Action) -> bool| -> Vec<bool> {
            kinds.numbers.iter().map(|number| action(Action::ALL[*number as usize])).collect()
        };
        let commits = does(|action| action == Action::Commit);
        if takes_commits && commits.contains(&true) {
            for row in 0..count {
                let transaction = transactions.number(row);
                if commits[kinds.code(row)] && transaction != NONE {
                    let pair = pairs.get(self, (topics.code(row), subscriptions.code(row)));
                    self.commit(pair, transaction);
                }
            }
        }
        let acknowledges = does(|action| action.has(ACKS));
        let is_one: Vec<bool> = transactions.numbers.iter().map(|number| *number != NONE).collect();
        // This loop has no branch on the kind, because the branch would be mispredicted.
        let zeros = vec![0; count];
        let [of_kinds, of_transactions] =
            [kinds, transactions].map(|column| column.codes.unwrap_or(&zeros));
        let mut memory = std::mem::take(&mut self.memory);
        let (uncommitted, mut found) = (&mut memory.uncommitted, 0);
        uncommitted.resize(count, 0);
        for (row, (kind, transaction)) in of_kinds.iter().zip(of_transactions).enumerate() {
            uncommitted[found] = row as u32;
            let is_in_one = acknowledges[*kind as usize] & is_one[*transaction as usize];
            found += usize::from(is_in_one);
        }
        uncommitted.truncate(found);
        // Consecutive acknowledgments are often in the same transaction, so few look-ups are necessary.
        let mut last = (usize::MAX, usize::MAX, usize::MAX);
        let mut is_open = false;
        found = 0;
        for at in 0..uncommitted.len() {
            let row = uncommitted[at] as usize;
            let codes = (topics.code(row), subscriptions.code(row), transactions.code(row));
            if codes != last {
                let pair = pairs.get(self, (codes.0, codes.1));
                is_open = !self.committed.contains(&(pair, transactions.numbers[codes.2]));
                last = codes;
            }
            uncommitted[found] = row as u32;
            found += usize::from(is_open);
        }
        let uncommitted = uncommitted[..found].iter().map(|row| i64::from(*row)).collect();
        self.keep(memory);
        Ok(uncommitted)
    }
}
