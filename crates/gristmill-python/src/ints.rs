//! Python's numbers for ids, made once, and the lists that hold them.
//!
//! To make a number takes about as long as to encode what it stands for, and most ids of a text come
//! again. So a Tokenizer keeps the number of each id that it has handed out in a list. Invariant: a place
//! of the table is empty or holds the number of its index, for good; so any thread may use what it finds
//! there, with a GIL or without one. There are no more places than ids. Tested from Python in
//! tests/test_bindings.py.

use std::convert::Infallible;
use std::sync::OnceLock;

use gristmill::Offset;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};

/// The numbers of ids, each made when it is first asked for.
pub(crate) struct Ints {
    places: OnceLock<Box<[Place]>>,
    count: usize,
}

type Place = OnceLock<Py<PyInt>>;

impl Ints {
    /// For the ids below `count`; others are made anew each time.
    pub(crate) fn new(count: u32) -> Ints {
        Ints {
            places: OnceLock::new(),
            count: count as usize,
        }
    }

    /// The list of these ids.
    pub(crate) fn list<'py>(&self, py: Python<'py>, ids: &[u32]) -> PyResult<Bound<'py, PyList>> {
        let places = self.places.get_or_init(|| {
            std::iter::repeat_with(OnceLock::new)
                .take(self.count)
                .collect()
        });
        PyList::new(
            py,
            ids.iter().map(|&id| Number {
                place: places.get(id as usize),
                id,
            }),
        )
    }
}

/// An id on its way to Python, and where its number is kept.
struct Number<'a> {
    place: Option<&'a Place>,
    id: u32,
}

impl<'py> IntoPyObject<'py> for Number<'_> {
    type Target = PyInt;
    type Output = Bound<'py, PyInt>;
    type Error = Infallible;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        let Some(place) = self.place else {
            return self.id.into_pyobject(py);
        };
        if let Some(kept) = place.get() {
            return Ok(kept.bind(py).clone());
        }
        let made = self.id.into_pyobject(py)?;
        Ok(place.get_or_init(|| made.unbind()).bind(py).clone())
    }
}

/// The list of these offsets, as tuples. A token mostly begins where the one before it ends: then both
/// have the same number.
pub(crate) fn offsets_list<'py>(
    py: Python<'py>,
    offsets: &[Offset],
) -> PyResult<Bound<'py, PyList>> {
    let number = |at: usize| {
        let Ok(number) = at.into_pyobject(py);
        number
    };
    let mut last = (0, number(0));
    let pairs = offsets.iter().map(|offset| {
        let start = if offset.start == last.0 {
            last.1.clone()
        } else {
            number(offset.start)
        };
        let end = if offset.end == offset.start {
            start.clone()
        } else {
            number(offset.end)
        };
        last = (offset.end, end.clone());
        (start, end)
    });
    PyList::new(py, pairs)
}
