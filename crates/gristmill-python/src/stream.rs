//! The classes `StreamBatch`, `DecodeStream` and `StreamTexts`: extract, detach, call, wrap.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use gristmill::stream::{
    DecodeStream, HfDecodeStream, StopSet, StreamBatch, StreamOptions, StreamTexts, TokenTexts,
    flags,
};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyUntypedArray, ToPyArray};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString};

use crate::error::PyError;
use crate::tokenizer::PyTokenizer;

/// Releasing the GIL and taking it back costs about as much as a step of this many streams.
const WORTH_RELEASING: usize = 64;

/// Numbers of a list, an array, or anything numpy makes an array of. What is out of range is -1:
/// neither a stream nor a token.
pub(crate) struct Numbers(pub(crate) Vec<i32>);

impl Numbers {
    /// As ids; what is negative becomes larger than any id.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.0.iter().map(|&id| id as u32).collect()
    }
}

/// One number, -1 if it is out of range.
fn number(object: &Bound<'_, PyAny>) -> PyResult<i32> {
    match object.extract::<i32>() {
        Ok(number) => Ok(number),
        Err(_) if object.is_instance_of::<PyInt>() => Ok(-1),
        Err(error) => Err(error),
    }
}

fn in_range<T: numpy::Element + Copy + TryInto<i32>>(array: &PyReadonlyArray1<'_, T>) -> Vec<i32> {
    let array = array.as_array();
    array
        .iter()
        .map(|&item| item.try_into().unwrap_or(-1))
        .collect()
}

/// The numbers of an array of integers or truth values.
fn of_array(object: &Bound<'_, PyAny>) -> Option<Vec<i32>> {
    if let Ok(array) = object.extract::<PyReadonlyArray1<'_, i32>>() {
        return Some(match array.as_slice() {
            Ok(slice) => slice.to_vec(),
            Err(_) => array.as_array().to_vec(),
        });
    }
    if let Ok(array) = object.extract::<PyReadonlyArray1<'_, i64>>() {
        return Some(in_range(&array));
    }
    if let Ok(array) = object.extract::<PyReadonlyArray1<'_, u32>>() {
        return Some(in_range(&array));
    }
    if let Ok(array) = object.extract::<PyReadonlyArray1<'_, u8>>() {
        return Some(in_range(&array));
    }
    let array = object.extract::<PyReadonlyArray1<'_, bool>>().ok()?;
    Some(
        array
            .as_array()
            .iter()
            .map(|&item| i32::from(item))
            .collect(),
    )
}

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(list) = object.cast::<PyList>() {
            let numbers = list.iter().map(|item| number(&item));
            return numbers.collect::<PyResult<_>>().map(Numbers);
        }
        if object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>() {
            return Err(PyTypeError::new_err("numbers must be integers"));
        }
        if object.hasattr("__array__")? || object.hasattr("__dlpack__")? {
            let array = if object.cast::<PyUntypedArray>().is_ok() {
                object.to_owned()
            } else {
                let numpy = object.py().import("numpy")?;
                numpy.call_method1("asarray", (object,))?
            };
            return of_array(&array).map(Numbers).ok_or_else(|| {
                PyTypeError::new_err(
                    "an array must have one dimension and int32, int64, uint32, uint8 or bool in it",
                )
            });
        }
        let numbers = object.try_iter()?.map(|item| number(&item?));
        numbers.collect::<PyResult<_>>().map(Numbers)
    }
}

/// One string or several.
pub(crate) struct Strings(Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Strings {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(one) = object.cast::<PyString>() {
            return Ok(Strings(vec![one.to_str()?.to_owned()]));
        }
        let strings = object.try_iter()?.map(|item| item?.extract());
        strings.collect::<PyResult<_>>().map(Strings)
    }
}

/// How a stream is opened, as Python says it.
pub(crate) struct Opening<'a, 'py> {
    pub(crate) skip_special_tokens: bool,
    pub(crate) prompt: Option<&'a Bound<'py, PyAny>>,
    pub(crate) stop: Option<Strings>,
    pub(crate) stop_ids: Option<Numbers>,
    pub(crate) include_stop: bool,
    pub(crate) min_tokens: u32,
}

impl Opening<'_, '_> {
    fn options(&self, texts: &TokenTexts, stops: Option<Arc<StopSet>>) -> PyResult<StreamOptions> {
        Ok(StreamOptions {
            skip_special_tokens: self.skip_special_tokens,
            stops,
            include_stop: self.include_stop,
            min_tokens: self.min_tokens,
            prompt: match self.prompt {
                Some(prompt) => context(texts, prompt, self.skip_special_tokens)?,
                None => Vec::new(),
            },
        })
    }
}

/// The end of a prompt that matters; of a list or an array nothing else is looked at.
fn context(
    texts: &TokenTexts,
    prompt: &Bound<'_, PyAny>,
    skip_special: bool,
) -> PyResult<Vec<u32>> {
    if let Ok(list) = prompt.cast::<PyList>() {
        let mut failed = None;
        let ids = list.iter().map(|id| match number(&id) {
            Ok(id) => id as u32,
            Err(error) => {
                failed = Some(error);
                u32::MAX
            }
        });
        let found = texts.context(ids, skip_special);
        return failed.map_or(Ok(found), Err);
    }
    if let Ok(array) = prompt.extract::<PyReadonlyArray1<'_, i32>>() {
        return Ok(texts.context(array.as_array().iter().map(|&id| id as u32), skip_special));
    }
    if let Ok(array) = prompt.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(texts.context(array.as_array().iter().copied(), skip_special));
    }
    let all: Numbers = prompt.extract()?;
    Ok(texts.context(all.ids().into_iter(), skip_special))
}

/// Python's strings for the tokens that are whole characters, each made when it is first asked for.
///
/// To make a string takes longer than to step a stream, and most text that streams give is that of one
/// token. Invariant: a place is empty or holds the text of its token, for good. There are no more
/// places than ids.
pub(crate) struct Kept {
    places: OnceLock<Box<[OnceLock<Py<PyString>>]>>,
    count: usize,
}

impl Kept {
    /// For the ids below `count`.
    pub(crate) fn new(count: u32) -> Arc<Kept> {
        Arc::new(Kept {
            places: OnceLock::new(),
            count: count as usize,
        })
    }

    fn places(&self) -> &[OnceLock<Py<PyString>>] {
        self.places.get_or_init(|| {
            std::iter::repeat_with(OnceLock::new)
                .take(self.count)
                .collect()
        })
    }
}

/// A text on its way to Python, and where its string is kept if it is one token's.
struct Part<'a> {
    place: Option<&'a OnceLock<Py<PyString>>>,
    text: &'a [u8],
}

impl<'py> IntoPyObject<'py> for Part<'_> {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = PyErr;

    #[inline]
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        if let Some(kept) = self.place.and_then(OnceLock::get) {
            return Ok(kept.bind(py).clone());
        }
        let made = PyString::from_bytes(py, self.text)?;
        Ok(match self.place {
            Some(place) => place.get_or_init(|| made.unbind()).bind(py).clone(),
            None => made,
        })
    }
}

/// See `_native.pyi`.
#[pyclass(name = "StreamTexts", module = "gristmill", frozen)]
pub(crate) struct PyStreamTexts {
    texts: StreamTexts,
    kept: Arc<Kept>,
}

impl PyStreamTexts {
    pub(crate) fn new(texts: StreamTexts, kept: &Arc<Kept>) -> PyStreamTexts {
        PyStreamTexts {
            texts,
            kept: Arc::clone(kept),
        }
    }
}

#[pymethods]
impl PyStreamTexts {
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.texts.text)
    }

    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        self.texts.offsets.to_pyarray(py)
    }

    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        self.texts.flags.to_pyarray(py)
    }

    #[getter]
    fn stops<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        self.texts.stops.to_pyarray(py)
    }

    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        self.texts.tokens.to_pyarray(py)
    }

    fn strs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let places = self.kept.places();
        let parts = self.texts.offsets.windows(2).zip(&self.texts.whole);
        let parts = parts.map(|(ends, &id)| Part {
            place: places.get(id as usize),
            text: self
                .texts
                .text
                .get(ends[0] as usize..ends[1] as usize)
                .unwrap_or_default(),
        });
        PyList::new(py, parts)
    }

    fn __len__(&self) -> usize {
        self.texts.flags.len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever panicked left the streams as they were between two ids.
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// See `_native.pyi`.
#[pyclass(name = "StreamBatch", module = "gristmill", frozen)]
pub(crate) struct PyStreamBatch {
    batch: Mutex<StreamBatch>,
    texts: Arc<TokenTexts>,
    kept: Arc<Kept>,
}

impl PyStreamBatch {
    /// Run `work`, without the GIL if that many streams are worth it.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        streams: usize,
        work: impl FnOnce(&mut StreamBatch) -> R + Send,
    ) -> R {
        if streams < WORTH_RELEASING {
            work(&mut lock(&self.batch))
        } else {
            py.detach(|| work(&mut lock(&self.batch)))
        }
    }
}

#[pymethods]
impl PyStreamBatch {
    #[new]
    #[pyo3(signature = (tokenizer, /))]
    fn new(py: Python<'_>, tokenizer: &Bound<'_, PyTokenizer>) -> PyResult<PyStreamBatch> {
        let texts = Arc::clone(tokenizer.get().texts(py)?);
        Ok(PyStreamBatch {
            batch: Mutex::new(StreamBatch::new(&texts)),
            texts,
            kept: Arc::clone(tokenizer.get().kept()),
        })
    }

    #[pyo3(
        signature = (
            n = 1, /, *, skip_special_tokens = false, prompt = None, stop = None, stop_ids = None,
            include_stop = false, min_tokens = 0
        ),
        text_signature = "($self, n=1, /, *, skip_special_tokens=False, prompt=None, stop=None, \
            stop_ids=None, include_stop=False, min_tokens=0)"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of one Python call"
    )]
    fn open<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        skip_special_tokens: bool,
        prompt: Option<&Bound<'_, PyAny>>,
        stop: Option<Strings>,
        stop_ids: Option<Numbers>,
        include_stop: bool,
        min_tokens: u32,
    ) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let strings = stop.map(|strings| strings.0).unwrap_or_default();
        let ids = stop_ids.map(|ids| ids.ids()).unwrap_or_default();
        let opening = Opening {
            skip_special_tokens,
            prompt,
            stop: None,
            stop_ids: None,
            include_stop,
            min_tokens,
        };
        let mut options = opening.options(&self.texts, None)?;
        let opened = self.with(py, n, |batch| {
            options.stops = batch.stop_set(strings, ids)?;
            batch.open(n, &options)
        });
        Ok(opened.map_err(PyError::from)?.into_pyarray(py))
    }

    #[pyo3(signature = (slots, tokens, offsets = None, finished = None))]
    fn step(
        &self,
        py: Python<'_>,
        slots: Numbers,
        tokens: Numbers,
        offsets: Option<Numbers>,
        finished: Option<Numbers>,
    ) -> PyResult<PyStreamTexts> {
        let offsets = offsets.as_ref().map(|offsets| offsets.0.as_slice());
        let finished = finished.map(|finished| {
            let finished = finished.0.iter().map(|&item| u8::from(item != 0));
            finished.collect::<Vec<u8>>()
        });
        let step =
            |batch: &mut StreamBatch| batch.step(&slots.0, &tokens.0, offsets, finished.as_deref());
        let found = self.with(py, slots.0.len(), step);
        Ok(PyStreamTexts::new(
            found.map_err(PyError::from)?,
            &self.kept,
        ))
    }

    #[pyo3(signature = (slots, /))]
    fn finish(&self, py: Python<'_>, slots: Numbers) -> PyStreamTexts {
        let found = self.with(py, slots.0.len(), |batch| batch.finish(&slots.0));
        PyStreamTexts::new(found, &self.kept)
    }

    #[pyo3(signature = (slots, /))]
    fn close(&self, py: Python<'_>, slots: Numbers) {
        self.with(py, slots.0.len(), |batch| batch.close(&slots.0));
    }

    fn __len__(&self) -> usize {
        lock(&self.batch).open_streams()
    }
}

/// The two kinds of stream.
enum Either {
    Exact(DecodeStream),
    Hf(HfDecodeStream),
}

/// What ends a stream, as the caller wrote it.
#[derive(Clone, IntoPyObject)]
pub(crate) enum Stop {
    String(String),
    Id(i32),
}

/// See `_native.pyi`.
#[pyclass(name = "DecodeStream", module = "gristmill", frozen)]
pub(crate) struct PyDecodeStream {
    stream: Mutex<Either>,
    stops: Vec<Stop>,
}

impl PyDecodeStream {
    pub(crate) fn open(
        tokenizer: &PyTokenizer,
        py: Python<'_>,
        opening: Opening<'_, '_>,
        mode: &str,
    ) -> PyResult<PyDecodeStream> {
        let strings = opening.stop.as_ref().map(|strings| strings.0.clone());
        let strings = strings.unwrap_or_default();
        let ids = opening.stop_ids.as_ref().map(|ids| ids.0.clone());
        let ids = ids.unwrap_or_default();
        let has_stops = !strings.is_empty() || !ids.is_empty();
        let stream = match mode {
            "exact" => {
                let texts = tokenizer.texts(py)?;
                let numbers = Numbers(ids.clone()).ids();
                let stops = has_stops.then(|| StopSet::new(&strings, &numbers));
                let stops = stops.transpose().map_err(PyError::from)?.map(Arc::new);
                let options = opening.options(texts, stops)?;
                Either::Exact(DecodeStream::new(texts, &options).map_err(PyError::from)?)
            }
            "hf" if has_stops || opening.min_tokens > 0 || opening.include_stop => {
                return Err(PyValueError::new_err("mode=\"hf\" knows no stops"));
            }
            "hf" => {
                let prompt = opening.prompt.map(|prompt| prompt.extract::<Numbers>());
                let prompt = prompt.transpose()?.map(|ids| ids.ids());
                Either::Hf(HfDecodeStream::new(
                    Arc::clone(tokenizer.inner()),
                    &prompt.unwrap_or_default(),
                    opening.skip_special_tokens,
                ))
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "mode must be \"exact\" or \"hf\", not {other:?}"
                )));
            }
        };
        let stops = strings.into_iter().map(Stop::String);
        Ok(PyDecodeStream {
            stream: Mutex::new(stream),
            stops: stops.chain(ids.into_iter().map(Stop::Id)).collect(),
        })
    }

    fn exact<R: Default>(&self, read: impl FnOnce(&DecodeStream) -> R) -> R {
        match &*lock(&self.stream) {
            Either::Exact(stream) => read(stream),
            Either::Hf(_) => R::default(),
        }
    }
}

#[pymethods]
impl PyDecodeStream {
    #[pyo3(signature = (ids, /))]
    fn push(&self, ids: &Bound<'_, PyAny>) -> PyResult<String> {
        let ids = if ids.is_instance_of::<PyInt>() {
            vec![number(ids)? as u32]
        } else {
            ids.extract::<Numbers>()?.ids()
        };
        match &mut *lock(&self.stream) {
            Either::Exact(stream) => {
                let text = stream.push(&ids);
                if stream.flags() & flags::FAILED > 0 {
                    return Err(crate::error::TokenizerError::new_err(
                        "the tokenizer's decoder cannot decode these ids",
                    ));
                }
                Ok(text)
            }
            Either::Hf(stream) => {
                let text = stream.step(&ids).map_err(PyError::from)?;
                Ok(text.unwrap_or_default())
            }
        }
    }

    fn finish(&self) -> String {
        match &mut *lock(&self.stream) {
            Either::Exact(stream) => stream.finish(),
            Either::Hf(_) => String::new(),
        }
    }

    #[getter]
    fn stop(&self) -> Option<Stop> {
        let at = self.exact(DecodeStream::stop)?;
        self.stops.get(at).cloned()
    }

    #[getter]
    fn flags(&self) -> u8 {
        self.exact(DecodeStream::flags)
    }

    #[getter]
    fn tokens(&self) -> u32 {
        self.exact(DecodeStream::tokens)
    }
}
