//! Things that are costly to make and used by one call at a time.
//!
//! A few places, each behind a lock that is only ever tried, never waited for, and held for no longer
//! than it takes to move a pointer. A call that finds no thing makes one; one that finds no place
//! drops it. So a pool bounds what is kept, and a process that forks while some other thread holds a
//! lock loses that one place in the child and nothing else.

use std::sync::Mutex;

const PLACES: usize = 16;

/// A few things to take and put back.
pub(crate) struct Pool<T> {
    places: [Mutex<Option<Box<T>>>; PLACES],
}

impl<T> Pool<T> {
    /// A pool with nothing in it.
    pub(crate) fn new() -> Pool<T> {
        Pool {
            places: std::array::from_fn(|_| Mutex::new(None)),
        }
    }

    /// Take a thing out, or make one.
    pub(crate) fn take(&self, make: impl FnOnce() -> T) -> Box<T> {
        let found = self
            .places
            .iter()
            .find_map(|place| place.try_lock().ok()?.take());
        found.unwrap_or_else(|| Box::new(make()))
    }

    /// Put a thing back for the next call.
    pub(crate) fn put(&self, thing: Box<T>) {
        for place in &self.places {
            if let Ok(mut place) = place.try_lock()
                && place.is_none()
            {
                *place = Some(thing);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_is_taken() {
        let pool = Pool::new();
        assert_eq!(*pool.take(|| 1), 1);
        pool.put(Box::new(2));
        assert_eq!(*pool.take(|| 3), 2);
        assert_eq!(*pool.take(|| 4), 4);
    }

    #[test]
    fn no_more_is_kept_than_there_are_places() {
        let pool = Pool::new();
        for number in 0..100 {
            pool.put(Box::new(number));
        }
        let kept = (0..100).filter(|_| *pool.take(|| 1000) < 1000).count();
        assert_eq!(kept, PLACES);
    }
}
