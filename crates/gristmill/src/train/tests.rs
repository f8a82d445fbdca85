//! The merging compared with counting all pairs anew before each merge; files of counts.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::bytes::byte_symbols;
use super::merge::Goal;
use super::queue::Ties;
use super::symbols::Limits;
use super::*;

/// A word and its count, in the order of a text.
type Word = (Vec<u8>, u64);

/// The merges by the definition.
fn naive(words: &[Word], ties: Ties, number: usize, longest: Option<u32>) -> Vec<Vec<u8>> {
    let mut rows: Vec<(Vec<Vec<u8>>, u64)> = words
        .iter()
        .map(|(word, count)| (word.iter().map(|&byte| vec![byte]).collect(), *count))
        .collect();
    let mut ids: BTreeMap<Vec<u8>, usize> =
        (0..=255).map(|byte| (vec![byte], byte.into())).collect();
    let mut made = Vec::new();
    while made.len() < number {
        let mut counts: BTreeMap<(Vec<u8>, Vec<u8>), (u64, usize)> = BTreeMap::new();
        let mut seen = 0;
        for (row, count) in &rows {
            for pair in row.windows(2) {
                let length = pair[0].len() + pair[1].len();
                if longest.is_some_and(|longest| length > longest as usize) {
                    continue;
                }
                seen += 1;
                let entry = counts.entry((pair[0].clone(), pair[1].clone()));
                entry.or_insert((0, seen)).0 += count;
            }
        }
        let best = counts
            .iter()
            .min_by(|(a, (more, first)), (b, (count, later))| {
                let order = count.cmp(more);
                order.then_with(|| match ties {
                    Ties::Ids => (ids[&a.0], ids[&a.1]).cmp(&(ids[&b.0], ids[&b.1])),
                    Ties::First => first.cmp(later),
                    Ties::Greatest => b.cmp(a),
                    Ties::Shortest => {
                        let whole =
                            |(left, right): &(Vec<u8>, Vec<u8>)| [&left[..], right].concat();
                        let (a, b) = (whole(a), whole(b));
                        a.len().cmp(&b.len()).then(a.cmp(&b))
                    }
                })
            });
        let Some(((left, right), _)) = best else {
            break;
        };
        let (left, right) = (left.clone(), right.clone());
        let joined = [&left[..], &right].concat();
        for (row, _) in &mut rows {
            let mut at = 0;
            while at + 1 < row.len() {
                if row[at] == left && row[at + 1] == right {
                    row[at] = joined.clone();
                    row.remove(at + 1);
                }
                at += 1;
            }
        }
        ids.insert(joined.clone(), 256 + made.len());
        made.push(joined);
    }
    made
}

/// A slot that few merges fill.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Narrow(u16);

impl Slot for Narrow {
    const BORDER: Narrow = Narrow(u16::BORDER);
    const DEAD: Narrow = Narrow(u16::DEAD);
    const END: u32 = 256 + 11;
    const LARGE: u64 = u16::LARGE;

    fn of(id: u32) -> Narrow {
        assert!(id < Narrow::END);
        Narrow(u16::of(id))
    }

    fn id(self) -> u32 {
        self.0.id()
    }

    fn part(number: u64) -> Narrow {
        Narrow(u16::part(number))
    }

    fn number(self) -> u64 {
        self.0.number()
    }
}

fn fast(
    words: &[Word],
    ties: Ties,
    number: usize,
    longest: Option<u32>,
    wide: bool,
    room: fn(usize) -> Room,
) -> Vec<Vec<u8>> {
    let mut symbols = byte_symbols(Limits {
        size: longest,
        size_of_first: true,
        ..Limits::default()
    })
    .unwrap();
    let goal = Goal {
        symbols: 256 + number,
        count: 0,
    };
    let fill = |give: &mut Fill<'_>| {
        words.iter().try_for_each(|(word, count)| {
            let row: Vec<u32> = word.iter().map(|&byte| byte.into()).collect();
            give(&row, *count)
        })
    };
    let mut look = |_: &Progress| Ok(());
    let merges = if wide {
        merge_slots::<u32>(&mut symbols, ties, goal, room, fill, &mut look)
    } else {
        merge_slots::<Narrow>(&mut symbols, ties, goal, room, fill, &mut look)
    };
    let token = |(_, _, id)| symbols.bytes(id).to_vec();
    merges.unwrap().into_iter().map(token).collect()
}

/// Different words, in the order of a text.
fn words() -> impl Strategy<Value = Vec<Word>> {
    let letter = prop_oneof![Just(b'a'), Just(b'b'), Just(b'c')];
    let short = proptest::collection::vec(letter.clone(), 0..9);
    let run = (letter.clone(), 0..40usize).prop_map(|(byte, length)| vec![byte; length]);
    // Long enough to stand among the long words.
    let long = proptest::collection::vec(letter, 90..150);
    let word = prop_oneof![6 => short, 2 => run, 1 => long];
    // Counts of one slot and of many.
    let count = prop_oneof![8 => 1..6u64, 1 => 65_530..65_540u64];
    proptest::collection::vec((word, count), 0..25).prop_map(|words| {
        let mut seen = BTreeSet::new();
        let new = words.into_iter();
        new.filter(|(word, _)| seen.insert(word.clone())).collect()
    })
}

proptest! {
    #[test]
    fn merges_as_counting_anew_does(words in words(), longest in proptest::option::of(1..9u32), wide: bool) {
        for ties in [Ties::Ids, Ties::First, Ties::Greatest, Ties::Shortest] {
            let expected = naive(&words, ties, 40, longest);
            for room in [Room::of, Room::none] {
                let made = fast(&words, ties, 40, longest, wide, room);
                prop_assert_eq!(&made, &expected, "{:?}", ties);
            }
        }
    }
}

#[test]
fn counts_of_sixty_four_bits_fit_both_widths() {
    let words = [
        (b"ab".to_vec(), 0x0123_4567_89AB_CDEF),
        (b"cd".to_vec(), 0x0123_4567_89AB_CDF0),
    ];
    for wide in [false, true] {
        let made = fast(&words, Ties::Ids, 2, None, wide, Room::of);
        assert_eq!(made, [b"cd", b"ab"]);
    }
}

/// Texts that are at hand.
struct Given(Vec<String>);

impl Texts for Given {
    type Text = String;

    fn fill(&mut self, batch: &mut Vec<String>) -> Result<bool> {
        *batch = std::mem::take(&mut self.0);
        Ok(false)
    }

    fn look(&mut self, _: &Progress) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_broken_file_of_counts_is_refused_wherever_it_is_broken() {
    let trainer = Trainer::new(300, Parity::Minbpe);
    let mut counts = trainer.counts().unwrap();
    counts
        .add(&mut Given(vec!["some words, some more words".into()]))
        .unwrap();
    let path = std::env::temp_dir().join(format!("gristmill-test-{}.counts", std::process::id()));
    counts.save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    assert!(WordCounts::load(&path, 1, None).is_ok());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x11;
        std::fs::write(&path, &bad).unwrap();
        assert!(WordCounts::load(&path, 1, None).is_err(), "changed at {at}");
        std::fs::write(&path, &good[..at]).unwrap();
        assert!(WordCounts::load(&path, 1, None).is_err(), "cut at {at}");
    }
    std::fs::remove_file(&path).unwrap();
}
