//! `AckSets` against a map of positions to words.

use std::collections::{BTreeMap, BTreeSet};

use ackwell_core::ack_sets::{CHANGES_MAX, Effect};
use ackwell_core::{AckSets, Position, PositionRangeSet};
use proptest::prelude::*;

type Model = BTreeMap<Position, Vec<i64>>;

fn trimmed(words: &[i64]) -> Vec<i64> {
    let mut words = words.to_vec();
    while words.last() == Some(&0) {
        words.pop();
    }
    words
}

fn listed(sets: &AckSets) -> Model {
    sets.validate().unwrap();
    let listed: Vec<_> = sets.iter().map(|(at, set)| (at, set.words().collect())).collect();
    assert!(listed.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(sets.len(), listed.len());
    listed.into_iter().collect()
}

fn ones(words: &[i64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn position() -> impl Strategy<Value = Position> {
    let entry_id = prop_oneof![6 => 0..40i64, 1 => 0..3000i64, 1 => prop::sample::select(vec![
        0, 1 << 32, (1 << 32) + 1, 1 << 40, i64::MAX, i64::MIN
    ])];
    (0..3i64, entry_id).prop_map(|(ledger_id, entry_id)| Position::new(ledger_id, entry_id))
}

fn words() -> impl Strategy<Value = Vec<i64>> {
    let word = prop_oneof![Just(0i64), Just(-1), Just(5), any::<i64>()];
    prop_oneof![
        6 => prop::collection::vec(word.clone(), 1),
        3 => prop::collection::vec(word.clone(), 0..6),
        1 => prop::collection::vec(word, 200..700),
    ]
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Position, Vec<i64>),
    Intersect(Position, Vec<i64>),
    ReplaceIfLater(Position, Vec<i64>),
    Remove(Position),
    RemoveUpTo(Position),
    RemoveRange(i64, i64, i64),
    RemoveEmpty,
    BeginSave,
    EndSave,
    Clear,
    Many(i64, Vec<i64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (position(), words()).prop_map(|(at, words)| Step::Insert(at, words)),
        8 => (position(), words()).prop_map(|(at, words)| Step::Intersect(at, words)),
        4 => (position(), words()).prop_map(|(at, words)| Step::ReplaceIfLater(at, words)),
        6 => position().prop_map(Step::Remove),
        1 => position().prop_map(Step::RemoveUpTo),
        2 => (0..3i64, 0..3000i64, 0..900i64)
            .prop_map(|(ledger_id, lower, more)| Step::RemoveRange(ledger_id, lower, lower + more)),
        1 => Just(Step::RemoveEmpty),
        2 => Just(Step::BeginSave),
        2 => Just(Step::EndSave),
        1 => Just(Step::Clear),
        2 => (0..2i64, prop::collection::vec(0..3000i64, 0..500))
            .prop_map(|(ledger_id, entry_ids)| Step::Many(ledger_id, entry_ids)),
    ]
}

/// The model with the positions that changed since the last save, and since the current one began.
#[derive(Default)]
struct Tracked {
    sets: Model,
    changed: Option<BTreeSet<Position>>,
    since: Option<BTreeSet<Position>>,
    is_moved: bool,
}

impl Tracked {
    fn insert(&mut self, at: Position, words: Vec<i64>) -> bool {
        if self.sets.get(&at) == Some(&words) {
            return false;
        }
        self.sets.insert(at, words);
        self.is_moved = true;
        for changes in [&mut self.changed, &mut self.since] {
            changes.as_mut().map(|positions| positions.insert(at));
        }
        true
    }

    fn intersect(&mut self, at: Position, words: &[i64]) -> Effect {
        let own = self.sets.get(&at).cloned();
        let left = match &own {
            Some(own) => own.iter().zip(words).map(|(own, word)| own & word).collect(),
            None => words.to_vec(),
        };
        let left = trimmed(&left);
        if left.is_empty() {
            self.remove(at);
            return Effect::Emptied;
        }
        match self.insert(at, left.clone()) {
            true => Effect::Left(ones(&left)),
            false => Effect::Unchanged,
        }
    }

    fn remove(&mut self, at: Position) -> bool {
        let had = self.sets.remove(&at).is_some();
        self.is_moved |= had;
        had
    }

    fn retain(&mut self, keeps: impl Fn(&Position, &Vec<i64>) -> bool) -> usize {
        let before = self.sets.len();
        self.sets.retain(|at, words| keeps(at, words));
        self.is_moved |= self.sets.len() < before;
        before - self.sets.len()
    }
}

fn first(words: &[i64]) -> i64 {
    let found = words.iter().enumerate().find(|(_, word)| **word != 0);
    found.map_or(-1, |(at, word)| 64 * at as i64 + i64::from(word.trailing_zeros()))
}

fn run(step: Step, sets: &mut AckSets, model: &mut Tracked) {
    match step {
        Step::Insert(at, words) => {
            assert_eq!(model.insert(at, trimmed(&words)), sets.insert(at, &words));
        }
        Step::Intersect(at, words) => {
            assert_eq!(model.intersect(at, &words), sets.intersect(at, &words));
        }
        Step::ReplaceIfLater(at, words) => {
            let words = trimmed(&words);
            let replaces = model.sets.get(&at).is_none_or(|own| first(&words) > first(own));
            let expected = replaces && model.insert(at, words.clone());
            assert_eq!(expected, sets.replace_if_later(at, &words));
        }
        Step::Remove(at) => {
            assert_eq!(model.remove(at), sets.remove(at));
            assert!(sets.get(at).is_none());
        }
        Step::RemoveUpTo(last) => {
            assert_eq!(model.retain(|at, _| *at > last), sets.remove_up_to(last));
        }
        Step::RemoveRange(ledger_id, lower, upper) => {
            let is_kept = |at: &Position| {
                at.ledger_id != ledger_id || at.entry_id <= lower || at.entry_id > upper
            };
            let removed = sets.remove_range(ledger_id, lower, upper);
            assert_eq!(model.retain(|at, _| is_kept(at)), removed);
        }
        Step::RemoveEmpty => {
            assert_eq!(model.retain(|_, words| !words.is_empty()), sets.remove_empty());
        }
        Step::BeginSave => {
            let expected = model.changed.as_ref().map(|changed| {
                let kept = model.sets.iter().filter(|(at, _)| changed.contains(at));
                kept.map(|(at, words)| (*at, words.clone())).collect()
            });
            assert_eq!(expected, sets.begin_save().map(|changed| listed(&changed)));
            model.since = Some(BTreeSet::new());
            model.is_moved = false;
        }
        Step::EndSave => {
            sets.end_save();
            model.changed = model.since.clone();
        }
        Step::Clear => {
            *model = Tracked { is_moved: true, ..Tracked::default() };
            sets.clear();
            assert!(sets.is_empty() && sets.is_moved());
        }
        Step::Many(ledger_id, entry_ids) => {
            let ledger_ids = vec![ledger_id; entry_ids.len()];
            let rows = entry_ids.iter().enumerate();
            let words: Vec<i64> =
                rows.map(|(row, id)| 0b101_0110 << ((id + row as i64) % 5)).collect();
            let ends: Vec<i64> = (1..=entry_ids.len() as i64).collect();
            let mut emptied = BTreeSet::new();
            let effects = sets.intersect_many(&ledger_ids, &entry_ids, &ends, &words).unwrap();
            for ((entry_id, word), effect) in entry_ids.iter().zip(&words).zip(effects) {
                let at = Position::new(ledger_id, *entry_id);
                let expected = match emptied.contains(&at) {
                    true => Effect::Unchanged,
                    false => model.intersect(at, &[*word]),
                };
                if expected == Effect::Emptied {
                    emptied.insert(at);
                }
                assert_eq!(expected, effect);
            }
        }
    }
}

proptest! {
    #[test]
    fn steps_in_any_order_are_those_of_a_map(steps in prop::collection::vec(step(), 1..60)) {
        let (mut sets, mut model) = (AckSets::new(), Tracked::default());
        for step in steps {
            run(step, &mut sets, &mut model);
            prop_assert_eq!(&model.sets, &listed(&sets));
            prop_assert_eq!(model.is_moved, sets.is_moved());
        }
        prop_assert_eq!(sets.iter().map(|(_, set)| set.word_count()).max().unwrap_or(0), sets.longest());
        for (at, set) in sets.iter() {
            let words = &model.sets[&at];
            prop_assert_eq!(words.len(), set.word_count());
            prop_assert_eq!(ones(words), set.message_count());
            prop_assert_eq!(first(words), set.first_message());
            let last = words.last().map_or(0, |word| i64::from(word.leading_zeros()));
            prop_assert_eq!(64 * words.len() as i64 - 1 - last, set.last_message());
            prop_assert_eq!(Some(set), sets.get(at));
        }
        let rebuilt: AckSets = model.sets.iter().rev().map(|(at, words)| (*at, words)).collect();
        prop_assert_eq!(&rebuilt, &sets);
        prop_assert!(rebuilt.ledger_ids().eq(sets.ledger_ids()));
    }

    #[test]
    fn ranges_and_counts_split_a_map(
        rows in prop::collection::btree_map((0..3i64, 0..600i64), 1..9i64, 0..400),
        lower in -1..600i64,
        more in 0..300i64,
        count in 0..450usize,
    ) {
        let place = |(ledger_id, entry_id)| Position::new(ledger_id, entry_id);
        let sets: AckSets = rows.iter().map(|(at, word)| (place(*at), [*word])).collect();
        let mut acked = PositionRangeSet::new();
        acked.add_range(1, lower, lower + more + 1).unwrap();
        let is_acked = |at: &Position| acked.contains(at.ledger_id, at.entry_id);
        let mut kept = sets.clone();
        let removed = kept.remove_ranges(&acked);
        let mut expected = listed(&sets);
        expected.retain(|at, _| !is_acked(at));
        prop_assert_eq!(sets.len() - expected.len(), removed);
        prop_assert_eq!(expected, listed(&kept));

        let newer = kept.changed_from(&head_of(&sets, count));
        let mut joined = head_of(&sets, count);
        joined.update(&kept);
        prop_assert!(listed(&newer).iter().all(|(at, words)| listed(&kept)[at] == *words));
        let mut applied = head_of(&sets, count);
        applied.update(&newer);
        prop_assert_eq!(&applied, &joined);
        prop_assert!(kept.changed_from(&kept).is_empty());
        prop_assert_eq!(&kept.changed_from(&AckSets::new()), &kept);

        let mut head = sets.clone();
        let rest = head.split_off(count);
        prop_assert_eq!(sets.len().min(count), head.len());
        let joined: Model = listed(&head).into_iter().chain(listed(&rest)).collect();
        prop_assert_eq!(joined, listed(&sets));
        prop_assert!(head.iter().last().map(|(at, _)| at) < rest.iter().next().map(|(at, _)| at)
            || rest.is_empty());
    }
}

fn head_of(sets: &AckSets, count: usize) -> AckSets {
    let mut head = sets.clone();
    let _rest = head.split_off(count);
    head
}

/// Sets of one word cost little in any order of insertion, also when most are gone.
#[test]
fn a_set_of_one_word_takes_at_most_24_bytes() {
    const SETS: i64 = 20_000;
    let in_order: Vec<i64> = (0..SETS).collect();
    let backwards: Vec<i64> = (0..SETS).rev().collect();
    let scattered: Vec<i64> = (0..SETS).map(|at| at * 7_919 % SETS).collect();
    let sparse: Vec<i64> = scattered.iter().map(|at| at * 1_000).collect();
    for entry_ids in [in_order, backwards, scattered, sparse] {
        let mut sets = AckSets::new();
        sets.begin_save();
        sets.end_save();
        for entry_id in &entry_ids {
            sets.insert(Position::new(3, *entry_id), &[0b11_1110_1111]);
        }
        sets.validate().unwrap();
        assert!(sets.heap_bytes() <= 24 * sets.len(), "{} bytes", sets.heap_bytes());
        sets.begin_save();
        for entry_id in entry_ids.iter().filter(|entry_id| **entry_id % 13_000 != 0) {
            sets.remove(Position::new(3, *entry_id));
        }
        sets.validate().unwrap();
        assert!(
            sets.heap_bytes() <= 24 * sets.len() + 1_000,
            "{} for {}",
            sets.heap_bytes(),
            sets.len()
        );
    }
}

/// A batch of 1,048,576 messages.
const LARGEST: usize = 1 << 14;

#[test]
fn empty_and_full_words_cost_nothing() {
    let mut sets = AckSets::new();
    for entry_id in 0..100 {
        let mut words = vec![-1; LARGEST];
        words[entry_id * 7] = -2;
        words[9_000..12_000].fill(0);
        sets.insert(Position::new(3, entry_id as i64), &words);
        let set = sets.get(Position::new(3, entry_id as i64)).unwrap();
        assert!(set.words().eq(words.iter().copied()));
        assert_eq!((LARGEST as u64 - 3_000) * 64 - 1, set.message_count());
    }
    assert!(sets.heap_bytes() < 100 * 100, "{}", sets.heap_bytes());
    for words in [vec![-1; 2], vec![-1; LARGEST], vec![0, -1], vec![-1, 0, 0, -1]] {
        let mut sets = AckSets::new();
        sets.insert(Position::new(0, 0), &words);
        sets.validate().unwrap();
        assert!(sets.get(Position::new(0, 0)).unwrap().words().eq(words));
    }
}

#[test]
fn words_that_do_not_repeat_stay_bounded() {
    let mut sets = AckSets::new();
    let words: Vec<i64> = (1..=LARGEST as i64).collect();
    for entry_id in (0..40).rev() {
        sets.insert(Position::new(3, entry_id), &words);
    }
    sets.validate().unwrap();
    assert!(sets.heap_bytes() < 40 * (8 * LARGEST + 1_000), "{}", sets.heap_bytes());
}

#[test]
fn too_many_changes_are_unknown() {
    for (count, is_known) in [(CHANGES_MAX, true), (CHANGES_MAX + 1, false)] {
        let mut sets = AckSets::new();
        assert!(sets.begin_save().is_none());
        sets.end_save();
        for entry_id in 0..count as i64 {
            sets.insert(Position::new(3, entry_id), &[1]);
        }
        assert_eq!(is_known.then_some(count), sets.begin_save().map(|changed| changed.len()));
        sets.end_save();
        assert_eq!(Some(0), sets.begin_save().map(|changed| changed.len()));
    }
}

#[test]
fn a_change_during_a_save_is_in_the_next_one() {
    let mut sets = AckSets::new();
    sets.begin_save();
    sets.end_save();
    assert!(!sets.is_moved());
    sets.insert(Position::new(3, 1), &[1]);
    sets.begin_save();
    assert!(!sets.is_moved());
    sets.insert(Position::new(3, 2), &[1]);
    assert!(sets.is_moved());
    // The save failed, so the next one has both.
    assert_eq!(2, sets.begin_save().unwrap().len());
    assert!(!sets.insert(Position::new(3, 2), &[1]));
    assert!(!sets.is_moved());
    assert_eq!(Effect::Left(1), sets.intersect(Position::new(3, 4), &[2]));
    assert!(sets.is_moved());
    sets.end_save();
    assert_eq!(1, sets.begin_save().unwrap().len());
    assert!(sets.remove(Position::new(3, 1)));
    assert!(sets.is_moved());
    sets.begin_save();
    assert_eq!(1, sets.remove_up_to(Position::new(3, 3)));
    assert!(sets.is_moved());
    assert!(sets.clone().begin_save().is_none());
}

#[test]
fn messages_that_are_already_acknowledged_change_nothing() {
    for words in [vec![5], vec![5, 0, 7], vec![-1, -1, 3]] {
        let (mut sets, at) = (AckSets::new(), Position::new(3, 1));
        sets.insert(at, &words);
        sets.begin_save();
        for again in [&words, &vec![-1; 4]] {
            assert_eq!(Effect::Unchanged, sets.intersect(at, again));
        }
        assert!(!sets.is_moved());
        let mut newer = sets.clone();
        assert_eq!(Effect::Left(1), newer.intersect(at, &[1]));
        assert!(newer.is_moved());
        assert_eq!(newer, newer.changed_from(&sets));
        assert_ne!(newer, sets);
    }
}

/// The chunk of 128 sets still begins at 0, which it no longer has.
#[test]
fn an_entry_before_a_full_chunk_is_found() {
    let at = |entry_id| Position::new(3, entry_id);
    let mut sets: AckSets = [0].into_iter().chain(10..137).map(|id| (at(id), [1])).collect();
    sets.remove(at(0));
    for entry_id in [137, 5] {
        sets.insert(at(entry_id), &[1]);
        sets.validate().unwrap();
        assert!(sets.get(at(entry_id)).is_some());
    }
}

#[test]
fn ends_that_are_not_those_of_the_words_are_refused() {
    let mut sets = AckSets::new();
    for ends in [[0, 3], [2, 1], [3, 2], [-1, 2], [0, 1]] {
        assert!(sets.intersect_many(&[3, 3], &[1, 2], &ends, &[1, 1]).is_err());
    }
    let effects = sets.intersect_many(&[3, 3], &[1, 1], &[0, 2], &[1, 1]).unwrap();
    assert_eq!(vec![0, -1], effects.into_iter().map(Effect::code).collect::<Vec<_>>());
    assert!(sets.is_empty());
}
