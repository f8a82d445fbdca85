//! What Python passes in, checked and borrowed: texts, lists of ids, policies, paths.

use std::collections::{BTreeMap, BTreeSet};

use gristmill::Special;
use numpy::{PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyFrozenSet, PyList, PySet, PyString};

use crate::error::invalid_utf8;

/// A text: `str`, or `bytes` that are UTF-8. Holds on to the Python object.
pub(crate) enum Text {
    Str(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Text::Str(text) => text,
            // Checked when it was extracted; bytes objects do not change.
            Text::Bytes(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
        }
    }

    pub(crate) fn is_str(&self) -> bool {
        matches!(self, Text::Str(_))
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl<'py> FromPyObject<'_, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Text::Str(PyBackedStr::try_from(text.to_owned())?));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            if let Err(error) = std::str::from_utf8(bytes.as_bytes()) {
                return Err(invalid_utf8(object.py(), bytes.as_bytes(), error));
            }
            return Ok(Text::Bytes(PyBackedBytes::from(bytes.to_owned())));
        }
        Err(PyTypeError::new_err(format!(
            "text must be str or bytes, not {}",
            object.get_type().name()?
        )))
    }
}

/// Every text of an iterable.
pub(crate) fn texts(batch: &Bound<'_, PyAny>) -> PyResult<Vec<Text>> {
    if batch.is_instance_of::<PyString>() || batch.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(
            "a batch is a list of texts; for one text use the method without _batch",
        ));
    }
    batch.try_iter()?.map(|text| text?.extract()).collect()
}

/// A list of ids, from any sequence of integers or array of integers.
pub(crate) enum Ids<'py> {
    List(Vec<u32>),
    /// The memory of the array itself.
    Array(PyReadonlyArray1<'py, u32>),
}

impl Ids<'_> {
    pub(crate) fn as_slice(&self) -> PyResult<&[u32]> {
        match self {
            Ids::List(ids) => Ok(ids),
            Ids::Array(ids) => Ok(ids.as_slice()?),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for Ids<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = object.cast::<PyList>() {
            let mut ids = Vec::with_capacity(list.len());
            for id in list.iter() {
                ids.push(id_of(&id)?);
            }
            return Ok(Ids::List(ids));
        }
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err("ids must be integers"));
        }
        if let Some(ids) = array_of_ids(&object)? {
            return Ok(ids);
        }
        let mut ids = Vec::new();
        for id in object.try_iter()? {
            ids.push(id_of(&id?)?);
        }
        Ok(Ids::List(ids))
    }
}

/// The fast way for arrays of the usual integers. An object that is no array of numpy must not cause
/// numpy to be imported. `None` if the slow way has to say what is wrong.
fn array_of_ids<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Ids<'py>>> {
    if object.get_type().module()?.to_cow()? != "numpy" {
        return Ok(None);
    }
    if let Ok(array) = object.cast::<PyUntypedArray>()
        && array.ndim() != 1
    {
        return Err(PyValueError::new_err("an array of ids has one dimension"));
    }
    if let Ok(array) = object.extract::<PyReadonlyArray1<'py, u32>>() {
        return Ok(Some(match array.as_slice() {
            Ok(_) => Ids::Array(array),
            Err(_) => Ids::List(array.as_array().to_vec()),
        }));
    }
    let ids = match object.extract::<PyReadonlyArray1<'py, i64>>() {
        Ok(array) => in_range(array.as_array().iter()),
        Err(_) => match object.extract::<PyReadonlyArray1<'py, i32>>() {
            Ok(array) => in_range(array.as_array().iter()),
            Err(_) => None,
        },
    };
    Ok(ids.map(Ids::List))
}

/// These numbers, if each may be an id.
fn in_range<'a, T: Copy + TryInto<u32> + 'a>(
    numbers: impl ExactSizeIterator<Item = &'a T>,
) -> Option<Vec<u32>> {
    let mut ids = Vec::with_capacity(numbers.len());
    for &number in numbers {
        ids.push(number.try_into().ok()?);
    }
    Some(ids)
}

/// One id. What is no id at all is unknown, like any other number without a token.
pub(crate) fn id_of(object: &Bound<'_, PyAny>) -> PyResult<u32> {
    match object.extract::<u32>() {
        Ok(id) => Ok(id),
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(object.py()) => {
            Err(PyKeyError::new_err(object.clone().unbind()))
        }
        Err(error) => Err(error),
    }
}

/// What becomes of special tokens: a word or a set of tokens.
pub(crate) struct Policy(pub(crate) Special);

impl<'py> FromPyObject<'_, 'py> for Policy {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(word) = object.extract::<PyBackedStr>() {
            return match &*word {
                "text" => Ok(Policy(Special::Text)),
                "parse" => Ok(Policy(Special::Parse)),
                "forbid" => Ok(Policy(Special::Forbid)),
                other => Err(PyValueError::new_err(format!(
                    "special must be \"text\", \"parse\", \"forbid\" or a set of special tokens, \
                     not {other:?}"
                ))),
            };
        }
        if !is_set(&object)? {
            return Err(PyTypeError::new_err(format!(
                "special must be \"text\", \"parse\", \"forbid\" or a set of special tokens, not {}",
                object.get_type().name()?
            )));
        }
        let names = object.try_iter()?.map(|name| name?.extract::<String>());
        let names = names.collect::<PyResult<BTreeSet<String>>>()?;
        Ok(Policy(Special::Only(names)))
    }
}

/// Whether an object is a set of any kind, such as the keys of a dictionary.
fn is_set(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.is_instance_of::<PySet>() || object.is_instance_of::<PyFrozenSet>() {
        return Ok(true);
    }
    let sets = object.py().import("collections.abc")?.getattr("Set")?;
    object.is_instance(&sets)
}

/// What a rank file does not hold.
pub(crate) fn options(
    pattern: Option<String>,
    special_tokens: Option<BTreeMap<String, u32>>,
) -> gristmill::Options {
    let mut options = gristmill::Options::default();
    if let Some(pattern) = pattern {
        options = options.pattern(pattern);
    }
    if let Some(tokens) = special_tokens {
        options = options.special_tokens(tokens);
    }
    options
}
