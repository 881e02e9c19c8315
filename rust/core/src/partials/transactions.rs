//! Acknowledgments in transactions: which count, because their transaction is committed, and which are uncertain.
//!
//! Transactions are numbers here, as topics and subscriptions are; [`NONE`] is no transaction.

use super::events::{Action, Codes};
use super::rows::PairsOfBatch;
use super::{Mixed, Partials};
use crate::error::{Error, Result};
use std::collections::HashSet;

/// The number of no transaction.
const NONE: i32 = 0;

/// What is committed: pairs and transactions.
pub(super) type Committed = HashSet<(u32, i32), Mixed>;

/// The names of some events: of their topics, subscriptions, kinds and transactions.
#[derive(Debug, Clone, Copy)]
pub struct InTransactions<'a> {
    /// How many events there are.
    pub count: usize,
    /// The topic.
    pub topics: Codes<'a>,
    /// The subscription.
    pub subscriptions: Codes<'a>,
    /// What happened: numbers are those of [`Action::ALL`].
    pub kinds: Codes<'a>,
    /// The transaction, or [`NONE`].
    pub transactions: Codes<'a>,
}

impl InTransactions<'_> {
    fn check(&self) -> Result<()> {
        for column in [self.topics, self.subscriptions, self.kinds, self.transactions] {
            if column.codes.is_some_and(|codes| codes.len() != self.count) {
                return Err(Error::Value("columns of different lengths".into()));
            }
            column.check()?;
        }
        Action::check(self.kinds.numbers)
    }
}

impl Partials {
    /// Takes the commit of a pair's transaction.
    pub fn commit(&mut self, pair: u32, transaction: i32) {
        self.committed.insert((pair, transaction));
    }

    /// The transactions that are committed, one for each of their pairs.
    pub fn committed(&self) -> impl Iterator<Item = i32> + '_ {
        self.committed.iter().map(|(_, transaction)| *transaction)
    }

    /// The rows of acknowledgments in transactions of which it is not known that they are committed, in order.
    /// `takes_commits` takes those of the rows first. O(rows).
    ///
    /// # Errors
    /// [`Error::Value`] for columns of different lengths and codes that are out of range; then no commit is taken.
    pub fn uncertain(
        &mut self,
        rows: &InTransactions<'_>,
        takes_commits: bool,
    ) -> Result<Vec<i64>> {
        rows.check()?;
        let InTransactions { count, topics, subscriptions, kinds, transactions } = *rows;
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
        let acknowledges = does(|action| matches!(action, Action::Ack | Action::UpTo));
        let is_one: Vec<bool> = transactions.numbers.iter().map(|number| *number != NONE).collect();
        // Without a branch on the kind, which no processor foresees.
        let zeros = vec![0; count];
        let [of_kinds, of_transactions] =
            [kinds, transactions].map(|column| column.codes.unwrap_or(&zeros));
        let mut memory = std::mem::take(&mut self.memory);
        let (uncertain, mut found) = (&mut memory.uncertain, 0);
        uncertain.resize(count, 0);
        for (row, (kind, transaction)) in of_kinds.iter().zip(of_transactions).enumerate() {
            uncertain[found] = row as u32;
            let is_in_one = acknowledges[*kind as usize] & is_one[*transaction as usize];
            found += usize::from(is_in_one);
        }
        uncertain.truncate(found);
        // A transaction acknowledges several entries one after the other, so few of them are looked up.
        let mut last = (usize::MAX, usize::MAX, usize::MAX);
        let mut is_open = false;
        found = 0;
        for at in 0..uncertain.len() {
            let row = uncertain[at] as usize;
            let codes = (topics.code(row), subscriptions.code(row), transactions.code(row));
            if codes != last {
                let pair = pairs.get(self, (codes.0, codes.1));
                is_open = !self.committed.contains(&(pair, transactions.numbers[codes.2]));
                last = codes;
            }
            uncertain[found] = row as u32;
            found += usize::from(is_open);
        }
        let uncertain = uncertain[..found].iter().map(|row| i64::from(*row)).collect();
        self.keep(memory);
        Ok(uncertain)
    }
}
