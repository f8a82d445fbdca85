//! The class `Tokenizer`: extract, detach, call, wrap.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use gristmill::stream::TokenTexts;
use gristmill::{EMBEDDED, Special, Unit};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::arguments::{Ids, Policy, Text, id_of, options, texts};
use crate::error::{PyError, TokenizerError};
use crate::interrupt::Interrupt;
use crate::ints::{Ints, offsets_list};
use crate::stream::{Kept, Numbers, Opening, PyDecodeStream, PyStreamTexts, Strings};

/// So many ids are copied into an array of their own memory sooner than an array is made to own theirs.
const WORTH_HANDING_OVER: usize = 1 << 12;

/// Releasing the GIL and taking it back costs about as much as encoding this many bytes.
const WORTH_RELEASING: usize = 1 << 14;

/// See `_native.pyi`.
#[pyclass(name = "Tokenizer", module = "gristmill", frozen)]
pub(crate) struct PyTokenizer {
    inner: Arc<gristmill::Tokenizer>,
    /// The name of an embedded tokenizer.
    name: Option<String>,
    ints: Ints,
    /// What its streams share, once there is one.
    texts: OnceLock<Arc<TokenTexts>>,
    kept: Arc<Kept>,
    /// Where it was loaded from.
    path: Option<PathBuf>,
    /// The chat template that lay there, or None.
    chat_template: OnceLock<Py<PyAny>>,
}

/// Ids, and for each where it stands in the text.
type WithOffsets<'py> = (Bound<'py, PyList>, Bound<'py, PyList>);

/// Ids of several texts, one after the other, and where each text's begin and end.
type Flat<'py> = (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<i64>>);

impl PyTokenizer {
    pub(crate) fn loaded(inner: gristmill::Tokenizer) -> PyTokenizer {
        PyTokenizer {
            ints: Ints::new(inner.id_end()),
            kept: Kept::new(inner.id_end()),
            inner: Arc::new(inner),
            name: None,
            texts: OnceLock::new(),
            path: None,
            chat_template: OnceLock::new(),
        }
    }

    fn loaded_from(inner: gristmill::Tokenizer, path: Option<PathBuf>) -> PyTokenizer {
        PyTokenizer {
            path,
            ..PyTokenizer::loaded(inner)
        }
    }

    /// The text of every id, made by the first that asks.
    pub(crate) fn texts(&self, py: Python<'_>) -> PyResult<&Arc<TokenTexts>> {
        if let Some(texts) = self.texts.get() {
            return Ok(texts);
        }
        let make = || TokenTexts::new(Arc::clone(&self.inner)).map_err(PyError::from);
        let made = py.detach(make)?;
        Ok(self.texts.get_or_init(|| made))
    }

    /// The strings of its tokens.
    pub(crate) fn kept(&self) -> &Arc<Kept> {
        &self.kept
    }

    /// The tokenizer itself.
    pub(crate) fn inner(&self) -> &Arc<gristmill::Tokenizer> {
        &self.inner
    }

    fn ids(&self, py: Python<'_>, text: &Text, special: &Special, add: bool) -> PyResult<Vec<u32>> {
        let text = text.as_str();
        let encode = || {
            let mut ids = Vec::with_capacity(text.len() / 3 + 16);
            self.inner.encode_into(text, special, add, &mut ids)?;
            Ok::<_, PyError>(ids)
        };
        Ok(release(py, text.len(), encode)?)
    }
}

/// Run `work`, without the GIL if it takes long enough to be worth it.
fn release<R: Send>(py: Python<'_>, bytes: usize, work: impl FnOnce() -> R + Send) -> R {
    if bytes < WORTH_RELEASING {
        work()
    } else {
        py.detach(work)
    }
}

/// An array of these ids. What a list has room for beyond its end costs no memory before it is used.
fn array(py: Python<'_>, ids: Vec<u32>) -> Bound<'_, PyArray1<u32>> {
    if ids.len() < WORTH_HANDING_OVER {
        PyArray1::from_slice(py, &ids)
    } else {
        ids.into_pyarray(py)
    }
}

/// The text of decoded bytes, in which U+FFFD stands for what is not UTF-8.
fn string<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyString> {
    // Python's own decoder finds out what is UTF-8 while it makes the string.
    match PyString::from_bytes(py, bytes) {
        Ok(text) => text,
        Err(_) => PyString::new(py, &String::from_utf8_lossy(bytes)),
    }
}

#[pymethods]
impl PyTokenizer {
    #[new]
    #[pyo3(signature = (source, /, *, pattern = None, special_tokens = None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        pattern: Option<String>,
        special_tokens: Option<BTreeMap<String, u32>>,
    ) -> PyResult<PyTokenizer> {
        let embedded = source
            .cast::<PyString>()
            .ok()
            .and_then(|name| name.to_str().ok())
            .filter(|name| EMBEDDED.contains(name));
        let Some(name) = embedded else {
            let path: PathBuf = source.extract()?;
            let options = options(pattern, special_tokens);
            let load = || gristmill::Tokenizer::load_with(&path, &options).map_err(PyError::from);
            return Ok(PyTokenizer::loaded_from(py.detach(load)?, Some(path)));
        };
        if pattern.is_some() || special_tokens.is_some() {
            return Err(TokenizerError::new_err(format!(
                "the embedded tokenizer {name:?} brings its own pattern and special tokens"
            )));
        }
        let load = || gristmill::Tokenizer::embedded(name).map_err(PyError::from);
        let mut loaded = PyTokenizer::loaded(py.detach(load)?);
        loaded.name = Some(name.to_owned());
        Ok(loaded)
    }

    #[staticmethod]
    #[pyo3(signature = (data, /, *, pattern = None, special_tokens = None))]
    fn from_bytes(
        py: Python<'_>,
        data: &[u8],
        pattern: Option<String>,
        special_tokens: Option<BTreeMap<String, u32>>,
    ) -> PyResult<PyTokenizer> {
        let options = options(pattern, special_tokens);
        let read = || gristmill::Tokenizer::from_bytes(data, &options).map_err(PyError::from);
        Ok(PyTokenizer::loaded(py.detach(read)?))
    }

    #[staticmethod]
    #[pyo3(signature = (repo_id, /, *, revision = None, token = None))]
    fn from_pretrained(
        py: Python<'_>,
        repo_id: &str,
        revision: Option<&str>,
        token: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyTokenizer> {
        let arguments = PyDict::new(py);
        arguments.set_item("revision", revision)?;
        arguments.set_item("token", token)?;
        let hub = py.import("gristmill.hub")?;
        let folder = hub.call_method("fetch", (repo_id,), Some(&arguments))?;
        let path: PathBuf = folder.extract()?;
        let load = || gristmill::Tokenizer::load(&path).map_err(PyError::from);
        Ok(PyTokenizer::loaded_from(py.detach(load)?, Some(path)))
    }

    #[pyo3(
        signature = (text, /, *, special = Policy(Special::Text), add_special_tokens = false),
        text_signature = "($self, text, /, *, special='text', add_special_tokens=False)"
    )]
    fn encode<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        special: Policy,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let ids = self.ids(py, &text, &special.0, add_special_tokens)?;
        self.ints.list(py, &ids)
    }

    #[pyo3(
        signature = (text, /, *, special = Policy(Special::Text), add_special_tokens = false),
        text_signature = "($self, text, /, *, special='text', add_special_tokens=False)"
    )]
    fn encode_numpy<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        special: Policy,
        add_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let ids = self.ids(py, &text, &special.0, add_special_tokens)?;
        Ok(array(py, ids))
    }

    #[pyo3(
        signature = (text, /, *, special = Policy(Special::Text), add_special_tokens = false),
        text_signature = "($self, text, /, *, special='text', add_special_tokens=False)"
    )]
    fn encode_with_offsets<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        special: Policy,
        add_special_tokens: bool,
    ) -> PyResult<WithOffsets<'py>> {
        let unit = if text.is_str() {
            Unit::Chars
        } else {
            Unit::Bytes
        };
        let text = text.as_str();
        let (ids, offsets) = release(py, text.len(), || {
            self.inner
                .encode_with_offsets(text, &special.0, add_special_tokens, unit)
                .map_err(PyError::from)
        })?;
        Ok((self.ints.list(py, &ids)?, offsets_list(py, &offsets)?))
    }

    #[pyo3(
        signature = (
            texts, /, *, special = Policy(Special::Text), add_special_tokens = false, threads = 0
        ),
        text_signature =
            "($self, texts, /, *, special='text', add_special_tokens=False, threads=0)"
    )]
    fn encode_batch<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        special: Policy,
        add_special_tokens: bool,
        threads: usize,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let (ids, ends) = self.flat(py, texts, &special.0, add_special_tokens, threads)?;
        let mut start = 0;
        let list = |end| {
            let own = start..end;
            start = end;
            self.ints.list(py, ids.get(own).unwrap_or_default())
        };
        ends.into_iter().map(list).collect()
    }

    #[pyo3(
        signature = (
            texts, /, *, special = Policy(Special::Text), add_special_tokens = false, threads = 0
        ),
        text_signature =
            "($self, texts, /, *, special='text', add_special_tokens=False, threads=0)"
    )]
    fn encode_batch_numpy<'py>(
        &self,
        py: Python<'py>,
        texts: &Bound<'py, PyAny>,
        special: Policy,
        add_special_tokens: bool,
        threads: usize,
    ) -> PyResult<Flat<'py>> {
        let (ids, ends) = self.flat(py, texts, &special.0, add_special_tokens, threads)?;
        let ends = ends.into_iter().map(|end| end as i64);
        let offsets: Vec<i64> = std::iter::once(0).chain(ends).collect();
        Ok((ids.into_pyarray(py), offsets.into_pyarray(py)))
    }

    #[pyo3(
        signature = (text, /, *, special = Policy(Special::Text), add_special_tokens = false),
        text_signature = "($self, text, /, *, special='text', add_special_tokens=False)"
    )]
    fn count(
        &self,
        py: Python<'_>,
        text: Text,
        special: Policy,
        add_special_tokens: bool,
    ) -> PyResult<usize> {
        let text = text.as_str();
        let count = || {
            self.inner
                .count(text, &special.0, add_special_tokens)
                .map_err(PyError::from)
        };
        Ok(release(py, text.len(), count)?)
    }

    #[pyo3(
        signature = (
            texts, /, *, special = Policy(Special::Text), add_special_tokens = false, threads = 0
        ),
        text_signature =
            "($self, texts, /, *, special='text', add_special_tokens=False, threads=0)"
    )]
    fn count_batch(
        &self,
        py: Python<'_>,
        texts: &Bound<'_, PyAny>,
        special: Policy,
        add_special_tokens: bool,
        threads: usize,
    ) -> PyResult<Vec<usize>> {
        self.batch(py, texts, threads, |tokenizer, text| {
            tokenizer.count(text, &special.0, add_special_tokens)
        })
    }

    #[pyo3(
        signature = (text, max_tokens, /, *, special = Policy(Special::Text)),
        text_signature = "($self, text, max_tokens, /, *, special='text')"
    )]
    fn truncate<'py>(
        &self,
        py: Python<'py>,
        text: Text,
        max_tokens: usize,
        special: Policy,
    ) -> PyResult<Bound<'py, PyAny>> {
        let whole = text.as_str();
        let cut = || {
            self.inner
                .truncate(whole, max_tokens, &special.0)
                .map_err(PyError::from)
        };
        let length = release(py, whole.len(), cut)?;
        let prefix = &whole[..length];
        Ok(if text.is_str() {
            PyString::new(py, prefix).into_any()
        } else {
            PyBytes::new(py, prefix.as_bytes()).into_any()
        })
    }

    #[pyo3(signature = (ids, /, *, skip_special_tokens = false))]
    fn decode<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'_>,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyString>> {
        let ids = ids.as_slice()?;
        let decode = || self.inner.decode_nearly(ids, skip_special_tokens);
        let bytes = release(py, ids.len() * 4, decode).map_err(PyError::from)?;
        Ok(string(py, &bytes))
    }

    #[pyo3(signature = (ids, /, *, skip_special_tokens = false))]
    fn decode_bytes<'py>(
        &self,
        py: Python<'py>,
        ids: Ids<'_>,
        skip_special_tokens: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let ids = ids.as_slice()?;
        let decode = || self.inner.decode_bytes(ids, skip_special_tokens);
        let bytes = release(py, ids.len() * 4, decode).map_err(PyError::from)?;
        Ok(PyBytes::new(py, &bytes))
    }

    #[pyo3(signature = (batch, /, *, skip_special_tokens = false, threads = 0))]
    fn decode_batch<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        skip_special_tokens: bool,
        threads: usize,
    ) -> PyResult<Vec<Bound<'py, PyString>>> {
        let lists = batch.try_iter()?.map(|ids| ids?.extract::<Ids<'_>>());
        let lists = lists.collect::<PyResult<Vec<_>>>()?;
        let lists = lists.iter().map(Ids::as_slice);
        let lists = lists.collect::<PyResult<Vec<&[u32]>>>()?;
        let decode = || {
            self.inner
                .decode_batch_nearly(&lists, skip_special_tokens, threads)
        };
        let texts = py.detach(decode).map_err(PyError::from)?;
        Ok(texts.iter().map(|bytes| string(py, bytes)).collect())
    }

    #[pyo3(signature = (messages, /, **options))]
    fn encode_chat<'py>(
        slf: &Bound<'py, Self>,
        messages: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let chat = slf.py().import("gristmill.chat")?;
        chat.call_method("encode", (slf, messages), options)
    }

    #[getter]
    fn chat_template(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if let Some(template) = self.chat_template.get() {
            return Ok(template.clone_ref(py));
        }
        let found = match &self.path {
            Some(path) => py
                .import("gristmill.chat")?
                .getattr("ChatTemplate")?
                .call_method1("load", (path,))?
                .unbind(),
            None => py.None(),
        };
        Ok(self.chat_template.get_or_init(|| found).clone_ref(py))
    }

    #[pyo3(signature = (ids, /, *, skip_special_tokens = false))]
    fn token_texts(
        &self,
        py: Python<'_>,
        ids: Numbers,
        skip_special_tokens: bool,
    ) -> PyResult<PyStreamTexts> {
        let texts = self.texts(py)?;
        let each = || {
            texts
                .each(&ids.ids(), skip_special_tokens)
                .map_err(PyError::from)
        };
        let found = release(py, ids.0.len() * 4, each)?;
        Ok(PyStreamTexts::new(found, &self.kept))
    }

    #[pyo3(
        signature = (
            *, skip_special_tokens = false, prompt = None, stop = None, stop_ids = None,
            include_stop = false, min_tokens = 0, mode = "exact"
        ),
        text_signature = "($self, *, skip_special_tokens=False, prompt=None, stop=None, \
            stop_ids=None, include_stop=False, min_tokens=0, mode='exact')"
    )]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the keywords of one Python call"
    )]
    fn decode_stream(
        &self,
        py: Python<'_>,
        skip_special_tokens: bool,
        prompt: Option<&Bound<'_, PyAny>>,
        stop: Option<Strings>,
        stop_ids: Option<Numbers>,
        include_stop: bool,
        min_tokens: u32,
        mode: &str,
    ) -> PyResult<PyDecodeStream> {
        let opening = Opening {
            skip_special_tokens,
            prompt,
            stop,
            stop_ids,
            include_stop,
            min_tokens,
        };
        PyDecodeStream::open(self, py, opening, mode)
    }

    #[pyo3(signature = (token, /))]
    fn token_to_id(&self, token: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
        if let Ok(token) = token.cast::<PyString>() {
            return Ok(self.inner.token_to_id(token.to_str()?));
        }
        if let Ok(token) = token.cast::<PyBytes>() {
            return Ok(self.inner.bytes_to_id(token.as_bytes()));
        }
        Err(PyTypeError::new_err("a token is str or bytes"))
    }

    #[pyo3(signature = (id, /))]
    fn id_to_token(&self, id: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(self.inner.id_to_token(id_of(id)?).map_err(PyError::from)?)
    }

    #[pyo3(signature = (id, /))]
    fn token_bytes<'py>(&self, id: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.inner.token_bytes(id_of(id)?).map_err(PyError::from)?;
        Ok(PyBytes::new(id.py(), &bytes))
    }

    #[getter]
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    #[getter]
    fn special_tokens(&self) -> BTreeMap<&str, u32> {
        self.inner.special_tokens()
    }

    #[getter]
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?
            .call_method1("loads", (self.inner.info().to_json(),))
    }

    #[pyo3(signature = (path, /))]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.inner.save(path).map_err(PyError::from))?)
    }

    fn __repr__(&self) -> String {
        match &self.name {
            Some(name) => format!("Tokenizer('{name}')"),
            None => format!(
                "<gristmill.Tokenizer: {}, {} tokens>",
                self.inner.format_name(),
                self.inner.vocab_size()
            ),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        if let Some(name) = &this.name {
            return Ok((slf.get_type(), (name,)).into_pyobject(py)?.into_any());
        }
        let content = py.detach(|| this.inner.to_bytes().map_err(PyError::from))?;
        let options = this.inner.options();
        let state = (
            PyBytes::new(py, &content),
            options.pattern,
            options.special_tokens,
            this.path.as_ref(),
        );
        let restore = py.import("gristmill._native")?.getattr("_restore")?;
        Ok((restore, state).into_pyobject(py)?.into_any())
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (memo, /))]
    fn __deepcopy__<'py>(slf: Bound<'py, Self>, memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        // What never changes need not be copied, however deep.
        let _ = memo;
        slf
    }
}

impl PyTokenizer {
    /// The ids of a batch, one text after the other, and where those of each end.
    fn flat(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        special: &Special,
        add: bool,
        threads: usize,
    ) -> PyResult<(Vec<u32>, Vec<usize>)> {
        let texts = texts(batch)?;
        let interrupt = Interrupt::new();
        let check = || interrupt.check();
        let encode = || {
            self.inner
                .encode_batch_flat(&texts, special, add, threads, check)
        };
        let result = py.detach(encode);
        result.map_err(|error| interrupt.exception(error))
    }

    fn batch<R: Send>(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, PyAny>,
        threads: usize,
        work: impl Fn(&gristmill::Tokenizer, &str) -> gristmill::Result<R> + Sync + Send,
    ) -> PyResult<Vec<R>> {
        let texts = texts(batch)?;
        let interrupt = Interrupt::new();
        let run = || {
            self.inner
                .for_each_text(&texts, threads, |tokenizer, text| {
                    interrupt.check()?;
                    work(tokenizer, text)
                })
        };
        let result = py.detach(run);
        result.map_err(|error| interrupt.exception(error))
    }
}

/// Make a tokenizer of what pickle kept.
#[pyfunction]
#[pyo3(name = "_restore", signature = (data, pattern, special_tokens, path = None))]
pub(crate) fn restore(
    py: Python<'_>,
    data: &[u8],
    pattern: Option<String>,
    special_tokens: Option<BTreeMap<String, u32>>,
    path: Option<PathBuf>,
) -> PyResult<PyTokenizer> {
    Ok(PyTokenizer {
        path,
        ..PyTokenizer::from_bytes(py, data, pattern, special_tokens)?
    })
}
