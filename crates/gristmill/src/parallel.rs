//! Work over many items on threads that live as long as one call.
//!
//! Threads take items one after the other, so the slowest item delays nothing but itself; results
//! come back in the order of the items. No thread outlives the call, so a process may fork between
//! calls. Few or small items are not worth a thread. [`map`] gives a result for each item, [`gather`] one
//! list of numbers for all of them.

use std::cmp::Reverse;
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::error::{Error, Result};
use crate::memory::prefer_large_pages;

/// A thread is worth starting for this much work.
const WORTH_A_THREAD: usize = 1 << 15;

/// `work` over every item, in order; the first error in that order if any fails.
///
/// `threads` is the most threads to use, 0 for one a core; `weight` is an item's size in bytes.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    weight: impl Fn(&T) -> usize,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let bytes: usize = items.iter().map(weight).sum();
    let threads = limit(threads)
        .min(items.len())
        .min(bytes / WORTH_A_THREAD + 1);
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        while let Some((at, item)) = take(items, &next) {
            done.push((at, work(item)));
        }
        done
    };
    let mut results: Vec<(usize, Result<R>)> =
        on_threads(threads, &worker).into_iter().flatten().collect();
    results.sort_unstable_by_key(|&(at, _)| at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, T>(items: &'a [T], next: &AtomicUsize) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, items.get(at)?))
}

/// What [`gather`] does: what a thread begins with, what it does for each item, what it leaves behind.
pub(crate) struct Work<B, E, F> {
    pub(crate) begin: B,
    pub(crate) each: E,
    pub(crate) end: F,
}

/// The numbers of all items, and how many each has.
pub(crate) struct Flat {
    pub(crate) ids: Vec<u32>,
    pub(crate) lengths: Vec<usize>,
}

/// What one thread made.
#[derive(Default)]
struct Made {
    ids: Vec<u32>,
    /// Items side by side, and where in `ids` their numbers are.
    runs: Vec<(Range<usize>, Range<usize>)>,
    /// How many numbers each item of each run has.
    lengths: Vec<usize>,
    /// The item that failed.
    failed: Option<(usize, Error)>,
}

/// Let `work` append to a list for each item, and put the lists together in order; the first error in
/// that order if any fails.
///
/// `threads` and `weight` are as for [`map`].
pub(crate) fn gather<T: Sync, S>(
    items: &[T],
    threads: usize,
    weight: impl Fn(&T) -> usize,
    work: Work<
        impl Fn() -> S + Sync,
        impl Fn(&mut S, &T, &mut Vec<u32>) -> Result<()> + Sync,
        impl Fn(S) + Sync,
    >,
) -> Result<Flat> {
    let bytes: usize = items.iter().map(&weight).sum();
    let threads = limit(threads).min(bytes / WORTH_A_THREAD + 1);
    let runs = runs(items, threads, weight);
    let threads = threads.min(runs.len()).max(1);
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(usize::MAX);
    let worker = || {
        let mut state = (work.begin)();
        let mut made = Made::default();
        made.ids.reserve(bytes / threads / 3);
        prefer_large_pages(made.ids.spare_capacity_mut());
        while let Some((_, run)) = take(&runs, &next) {
            // What comes after a failure does not count.
            if run.start > failed.load(Ordering::Relaxed) {
                continue;
            }
            let from = made.ids.len();
            for at in run.clone() {
                let before = made.ids.len();
                if let Err(error) = (work.each)(&mut state, &items[at], &mut made.ids) {
                    failed.fetch_min(at, Ordering::Relaxed);
                    if made.failed.as_ref().is_none_or(|&(first, _)| at < first) {
                        made.failed = Some((at, error));
                    }
                    break;
                }
                made.lengths.push(made.ids.len() - before);
            }
            made.runs.push((run.clone(), from..made.ids.len()));
        }
        (work.end)(state);
        made
    };
    let made = on_threads(threads, &worker);
    join(items.len(), made)
}

/// Items to take at a time: small ones together, large ones first.
fn runs<T>(items: &[T], threads: usize, weight: impl Fn(&T) -> usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    let mut taken = 0;
    for (at, item) in items.iter().enumerate() {
        taken += weight(item);
        if taken >= WORTH_A_THREAD || at + 1 == items.len() {
            runs.push((taken, start..at + 1));
            (start, taken) = (at + 1, 0);
        }
    }
    if threads > 1 {
        // Those that are about as large as others stay in order.
        runs.sort_by_key(|&(bytes, _)| Reverse(bytes.checked_ilog2()));
    }
    runs.into_iter().map(|(_, run)| run).collect()
}

/// What each of `threads` threads makes, this one among them.
fn on_threads<R: Send>(threads: usize, worker: &(impl Fn() -> R + Sync)) -> Vec<R> {
    thread::scope(|scope| {
        // A thread the system will not give is work for the others.
        let others: Vec<_> = (1..threads)
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok())
            .collect();
        let mut results = vec![worker()];
        for other in others {
            match other.join() {
                Ok(done) => results.push(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results
    })
}

/// Put what threads made in the order of the items.
fn join(items: usize, mut made: Vec<Made>) -> Result<Flat> {
    let failed = made.iter_mut().filter_map(|made| made.failed.take());
    if let Some((_, error)) = failed.min_by_key(|&(at, _)| at) {
        return Err(error);
    }
    let mut lengths = vec![0; items];
    for made in &made {
        let mut rest = made.lengths.as_slice();
        for (run, _) in &made.runs {
            let (own, others) = rest.split_at(run.len());
            lengths[run.clone()].copy_from_slice(own);
            rest = others;
        }
    }
    if let [only] = made.as_mut_slice()
        && only.runs.is_sorted_by_key(|(run, _)| run.start)
    {
        return Ok(Flat {
            ids: std::mem::take(&mut only.ids),
            lengths,
        });
    }
    let mut pieces = Vec::new();
    for made in &made {
        for (run, range) in &made.runs {
            pieces.push((run.start, &made.ids[range.clone()]));
        }
    }
    pieces.sort_unstable_by_key(|&(at, _)| at);
    let pieces: Vec<&[u32]> = pieces.into_iter().map(|(_, ids)| ids).collect();
    Ok(Flat {
        ids: concatenated(&pieces, made.len()),
        lengths,
    })
}

/// All pieces in one list, copied by `threads` threads.
fn concatenated(pieces: &[&[u32]], threads: usize) -> Vec<u32> {
    let total = pieces.iter().map(|piece| piece.len()).sum();
    // Zeros from the system cost nothing before they are written over.
    let mut ids = vec![0; total];
    prefer_large_pages(&mut ids);
    let share = total / threads + 1;
    thread::scope(|scope| {
        let mut pieces = pieces;
        let mut room = ids.as_mut_slice();
        while !pieces.is_empty() {
            let mut length = 0;
            let enough = pieces.iter().position(|piece| {
                length += piece.len();
                length >= share
            });
            let (own, others) = pieces.split_at(enough.map_or(pieces.len(), |at| at + 1));
            let (place, rest) = std::mem::take(&mut room).split_at_mut(length);
            (pieces, room) = (others, rest);
            let copy = move || {
                let mut place = place;
                for piece in own {
                    let (here, behind) = std::mem::take(&mut place).split_at_mut(piece.len());
                    here.copy_from_slice(piece);
                    place = behind;
                }
            };
            if pieces.is_empty() {
                copy();
            } else {
                scope.spawn(copy);
            }
        }
    });
    ids
}

/// The number of threads that a caller asks for, 0 for one a core.
pub(crate) fn limit(threads: usize) -> usize {
    match threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled = map(&items, 4, |_| 1000, |item| Ok(item * 2)).unwrap();
        assert!(doubled.iter().enumerate().all(|(at, &item)| item == at * 2));
    }

    #[test]
    fn gathers_in_order() {
        for (count, weight) in [
            (0, 1000),
            (1, 1 << 20),
            (1000, 1),
            (1000, 1000),
            (300, 1 << 16),
        ] {
            let items: Vec<u32> = (0..count).collect();
            for threads in [1, 2, 3, 8] {
                let work = Work {
                    begin: || 0,
                    each: |seen: &mut u32, &item: &u32, ids: &mut Vec<u32>| {
                        *seen += 1;
                        ids.extend((0..item % 5).map(|part| item * 5 + part));
                        Ok(())
                    },
                    end: |_| (),
                };
                let weight = |&item: &u32| weight + item as usize % 7 * 10_000;
                let flat = gather(&items, threads, weight, work).unwrap();
                let expected: Vec<u32> = items
                    .iter()
                    .flat_map(|&item| (0..item % 5).map(move |part| item * 5 + part))
                    .collect();
                assert_eq!(flat.ids, expected);
                let lengths: Vec<usize> = items.iter().map(|&item| item as usize % 5).collect();
                assert_eq!(flat.lengths, lengths);
            }
        }
    }

    #[test]
    fn gathering_fails_as_the_first_item_that_does() {
        let items: Vec<u32> = (0..1000).collect();
        for threads in [1, 2, 4] {
            let work = Work {
                begin: || (),
                each: |(): &mut (), &item: &u32, _: &mut Vec<u32>| match item % 100 {
                    57 => Err(Error::UnknownId(item)),
                    _ => Ok(()),
                },
                end: |()| (),
            };
            let error = gather(&items, threads, |item| 1000 * *item as usize, work);
            assert!(matches!(error, Err(Error::UnknownId(57))));
        }
    }

    #[test]
    fn the_first_error_wins() {
        let items: Vec<u32> = (0..1000).collect();
        let fail = |item: &u32| {
            if item % 100 == 57 {
                Err(Error::UnknownId(*item))
            } else {
                Ok(())
            }
        };
        let error = map(&items, 4, |_| 1000, fail).unwrap_err();
        assert!(matches!(error, Error::UnknownId(57)));
    }
}
