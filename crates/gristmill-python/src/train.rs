//! The classes `Trainer` and `WordCounts`: extract, detach, call, wrap.

use std::borrow::Borrow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gristmill::{BATCH_BYTES, Normalization, Parity, Progress, Stage, Texts, Units};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString};

use crate::arguments::Text;
use crate::error::PyError;
use crate::tokenizer::PyTokenizer;

/// Between two calls of whoever shows progress.
const SHOW_EVERY: Duration = Duration::from_millis(100);
/// Between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// See `_native.pyi`.
#[pyclass(name = "Trainer", module = "gristmill", frozen)]
pub(crate) struct PyTrainer {
    inner: gristmill::Trainer,
    progress: Option<Py<PyAny>>,
}

/// See `_native.pyi`.
#[pyclass(name = "WordCounts", module = "gristmill")]
pub(crate) struct PyWordCounts {
    inner: gristmill::WordCounts,
    progress: Option<Py<PyAny>>,
    /// Whether files are read without the ends of their lines.
    bare_lines: bool,
}

#[pymethods]
impl PyTrainer {
    #[new]
    #[pyo3(signature = (
        vocab_size = 30_000, *, pattern = Some("default".to_owned()), parity = "rustbpe",
        special_tokens = Strings(Vec::new()), min_frequency = 0, max_token_length = None,
        limit_alphabet = None, initial_alphabet = None, continuing_subword_prefix = None,
        end_of_word_suffix = None, units = "bytes", character_coverage = 0.9995,
        normalization = "nmt_nfkc", byte_fallback = false, max_sentence_length = 4192,
        threads = 0, memory_limit = None, progress = None
    ), text_signature = "(vocab_size=30000, *, pattern='default', parity='rustbpe', \
        special_tokens=(), min_frequency=0, max_token_length=None, limit_alphabet=None, \
        initial_alphabet=None, continuing_subword_prefix=None, end_of_word_suffix=None, \
        units='bytes', character_coverage=0.9995, normalization='nmt_nfkc', \
        byte_fallback=False, max_sentence_length=4192, threads=0, memory_limit=None, \
        progress=None)")]
    #[expect(clippy::too_many_arguments, reason = "each is an option of its own")]
    fn new(
        py: Python<'_>,
        vocab_size: usize,
        pattern: Option<String>,
        parity: &str,
        special_tokens: Strings,
        min_frequency: u64,
        max_token_length: Option<u32>,
        limit_alphabet: Option<usize>,
        initial_alphabet: Option<Strings>,
        continuing_subword_prefix: Option<String>,
        end_of_word_suffix: Option<String>,
        units: &str,
        character_coverage: f32,
        normalization: &str,
        byte_fallback: bool,
        max_sentence_length: usize,
        threads: usize,
        memory_limit: Option<Bytes>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<PyTrainer> {
        let mut inner = gristmill::Trainer::new(vocab_size, parity_of(parity)?);
        if pattern.as_deref() != Some("default") {
            inner.pattern = pattern;
        }
        inner.special_tokens = special_tokens.0;
        inner.min_frequency = min_frequency;
        inner.max_token_length = max_token_length;
        inner.limit_alphabet = limit_alphabet;
        inner.initial_alphabet = initial_alphabet.map(chars_of).transpose()?;
        inner.continuing_subword_prefix = continuing_subword_prefix;
        inner.end_of_word_suffix = end_of_word_suffix;
        inner.units = match units {
            "bytes" => Units::Bytes,
            "chars" => Units::Chars,
            _ => return Err(choice("units", units, &["bytes", "chars"])),
        };
        inner.character_coverage = character_coverage;
        inner.normalization = match normalization {
            "nmt_nfkc" => Normalization::NmtNfkc,
            "identity" => Normalization::Identity,
            _ => {
                return Err(choice(
                    "normalization",
                    normalization,
                    &["nmt_nfkc", "identity"],
                ));
            }
        };
        inner.byte_fallback = byte_fallback;
        inner.max_sentence_length = max_sentence_length;
        inner.threads = threads;
        inner.memory_limit = memory_limit.map(|limit| limit.0);
        inner.check().map_err(PyError::from)?;
        Ok(PyTrainer {
            inner,
            progress: shown_by(py, progress)?,
        })
    }

    #[pyo3(signature = (source, /))]
    fn train(&self, py: Python<'_>, source: &Bound<'_, PyAny>) -> PyResult<PyTokenizer> {
        if let Ok(counts) = source.cast::<PyWordCounts>() {
            return self.merged(py, &counts.try_borrow()?.inner);
        }
        let mut counts = self.inner.counts().map_err(PyError::from)?;
        add(py, &mut counts, source, self.progress.as_ref())?;
        self.merged(py, counts)
    }

    #[pyo3(signature = (paths, /, *, field = "text"))]
    fn train_files(
        &self,
        py: Python<'_>,
        paths: &Bound<'_, PyAny>,
        field: &str,
    ) -> PyResult<PyTokenizer> {
        let bare = self.inner.parity == Parity::SentencePiece;
        self.train(py, &texts_of(py, paths, field, bare)?)
    }

    fn __repr__(&self) -> String {
        let parity = name_of(self.inner.parity);
        format!(
            "<gristmill.Trainer: {} tokens, as {parity}>",
            self.inner.vocab_size
        )
    }
}

impl PyTrainer {
    /// Counts that are given away are dropped as soon as may be.
    fn merged(
        &self,
        py: Python<'_>,
        counts: impl Borrow<gristmill::WordCounts> + Send,
    ) -> PyResult<PyTokenizer> {
        let mut watch = Watch::new(self.progress.as_ref().map(|shown| shown.clone_ref(py)));
        let (texts, bytes) = (counts.borrow().texts(), counts.borrow().bytes());
        let trained = py.detach(|| {
            self.inner.train(counts, &mut |progress| {
                let mut progress = *progress;
                (progress.texts, progress.bytes) = (texts, bytes);
                watch.look(&progress)
            })
        });
        match trained {
            Ok(tokenizer) => Ok(PyTokenizer::loaded(tokenizer)),
            Err(error) => Err(watch.exception(error)),
        }
    }
}

#[pymethods]
impl PyWordCounts {
    #[new]
    #[pyo3(signature = (trainer, /))]
    fn new(py: Python<'_>, trainer: &PyTrainer) -> PyResult<PyWordCounts> {
        Ok(PyWordCounts {
            inner: trainer.inner.counts().map_err(PyError::from)?,
            progress: trainer.progress.as_ref().map(|shown| shown.clone_ref(py)),
            bare_lines: trainer.inner.parity == Parity::SentencePiece,
        })
    }

    #[staticmethod]
    #[pyo3(signature = (path, /, *, threads = 0, memory_limit = None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        threads: usize,
        memory_limit: Option<Bytes>,
    ) -> PyResult<PyWordCounts> {
        let limit = memory_limit.map(|limit| limit.0);
        let load = || gristmill::WordCounts::load(&path, threads, limit).map_err(PyError::from);
        let inner = py.detach(load)?;
        Ok(PyWordCounts {
            bare_lines: inner.parity() == Parity::SentencePiece,
            inner,
            progress: None,
        })
    }

    #[pyo3(signature = (texts, /))]
    fn add(&mut self, py: Python<'_>, texts: &Bound<'_, PyAny>) -> PyResult<()> {
        add(py, &mut self.inner, texts, self.progress.as_ref())
    }

    #[pyo3(signature = (paths, /, *, field = "text"))]
    fn add_files(&mut self, py: Python<'_>, paths: &Bound<'_, PyAny>, field: &str) -> PyResult<()> {
        let texts = texts_of(py, paths, field, self.bare_lines)?;
        self.add(py, &texts)
    }

    #[pyo3(signature = (path, /))]
    fn add_tsv(&mut self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.inner.add_tsv(&path).map_err(PyError::from))?)
    }

    #[pyo3(signature = (words, /))]
    fn add_words(&mut self, words: &Bound<'_, PyAny>) -> PyResult<()> {
        let words = match words.cast::<PyDict>() {
            Ok(words) => words.items().into_any(),
            Err(_) => words.clone(),
        };
        for pair in words.try_iter()? {
            let (word, count): (Bound<'_, PyAny>, u64) = pair?.extract()?;
            let add = |counts: &mut gristmill::WordCounts, word: &[u8]| {
                counts.add_word(word, count).map_err(PyError::from)
            };
            match word.cast::<PyBytes>() {
                Ok(word) => add(&mut self.inner, word.as_bytes())?,
                Err(_) => {
                    let word: Text = word.extract()?;
                    add(&mut self.inner, word.as_str().as_bytes())?;
                }
            }
        }
        Ok(())
    }

    #[pyo3(signature = (other, /))]
    fn merge(&mut self, py: Python<'_>, other: &Bound<'_, PyWordCounts>) -> PyResult<()> {
        let other = other
            .try_borrow()
            .map_err(|_| PyValueError::new_err("counts cannot be merged with themselves"))?;
        let other = &other.inner;
        Ok(py.detach(|| self.inner.merge(other).map_err(PyError::from))?)
    }

    #[pyo3(signature = (path, /))]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        Ok(py.detach(|| self.inner.save(&path).map_err(PyError::from))?)
    }

    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut words: Vec<(Vec<u8>, u64)> = Vec::new();
        py.detach(|| {
            self.inner.for_each(&mut |word, count| {
                words.push((word.to_vec(), count));
                Ok(())
            })?;
            words.sort_unstable();
            Ok::<_, gristmill::Error>(())
        })
        .map_err(PyError::from)?;
        let items = words
            .iter()
            .map(|(word, count)| (PyBytes::new(py, word), *count));
        PyList::new(py, items)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(py.detach(|| self.inner.len().map_err(PyError::from))?)
    }

    #[getter]
    fn texts(&self) -> u64 {
        self.inner.texts()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    #[getter]
    fn left_out(&self) -> u64 {
        self.inner.left_out()
    }

    #[getter]
    fn files(&self) -> usize {
        self.inner.files()
    }

    fn __repr__(&self) -> String {
        format!(
            "<gristmill.WordCounts: {} texts, {} bytes>",
            self.inner.texts(),
            self.inner.bytes()
        )
    }
}

/// Count the words of an iterable of texts.
fn add(
    py: Python<'_>,
    counts: &mut gristmill::WordCounts,
    texts: &Bound<'_, PyAny>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<()> {
    if texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(
            "texts are given as an iterable; for one text give [text]",
        ));
    }
    let mut source = Source {
        texts: texts.try_iter()?.unbind(),
        taken: 0,
        watch: Watch::new(progress.map(|shown| shown.clone_ref(py))),
    };
    let added = py.detach(|| counts.add(&mut source));
    added.map_err(|error| source.watch.exception(error))
}

/// The texts in files, read by Python.
fn texts_of<'py>(
    py: Python<'py>,
    paths: &Bound<'py, PyAny>,
    field: &str,
    bare_lines: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let arguments = PyDict::new(py);
    arguments.set_item("field", field)?;
    arguments.set_item("bare_lines", bare_lines)?;
    py.import("gristmill.files")?
        .call_method("texts", (paths,), Some(&arguments))
}

/// An iterator of Python as a source of texts. The GIL is held only while it is asked.
struct Source {
    texts: Py<PyIterator>,
    taken: u64,
    watch: Watch,
}

impl Texts for Source {
    type Text = Text;

    fn fill(&mut self, batch: &mut Vec<Text>) -> gristmill::Result<bool> {
        let filled = Python::attach(|py| -> PyResult<bool> {
            batch.clear();
            let mut bytes = 0;
            let mut texts = self.texts.bind(py).clone();
            while bytes < BATCH_BYTES {
                let Some(text) = texts.next() else {
                    return Ok(false);
                };
                let text = text?;
                let text: Text = text.extract().inspect_err(|error: &PyErr| {
                    // The exception itself says what is wrong with the text.
                    let note = format!("in text {} of those given, from 0", self.taken);
                    let _ = error.value(py).call_method1("add_note", (note,));
                })?;
                self.taken += 1;
                bytes += text.as_str().len() + 1;
                batch.push(text);
            }
            Ok(true)
        });
        filled.map_err(|error| self.watch.keep(error))
    }

    fn look(&mut self, progress: &Progress) -> gristmill::Result<()> {
        self.watch.look(progress)
    }
}

/// Looks for signals and shows progress on behalf of one training.
struct Watch {
    shown_by: Option<Py<PyAny>>,
    looked: Instant,
    shown: Option<(Instant, Stage)>,
    raised: Option<PyErr>,
}

impl Watch {
    fn new(shown_by: Option<Py<PyAny>>) -> Watch {
        Watch {
            shown_by,
            looked: Instant::now(),
            shown: None,
            raised: None,
        }
    }

    fn look(&mut self, progress: &Progress) -> gristmill::Result<()> {
        let due = self
            .shown
            .is_none_or(|(at, stage)| stage != progress.stage || at.elapsed() >= SHOW_EVERY);
        let show = due && self.shown_by.is_some();
        if !show && self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        let done = Python::attach(|py| {
            py.check_signals()?;
            match &self.shown_by {
                Some(shown_by) if show => shown_by.call1(py, (as_dict(py, progress)?,)).map(drop),
                _ => Ok(()),
            }
        });
        self.looked = Instant::now();
        if show {
            self.shown = Some((self.looked, progress.stage));
        }
        done.map_err(|error| self.keep(error))
    }

    /// Keep an exception for the caller.
    fn keep(&mut self, error: PyErr) -> gristmill::Error {
        self.raised = Some(error);
        gristmill::Error::Interrupted
    }

    /// The exception to raise for an error.
    fn exception(self, error: gristmill::Error) -> PyErr {
        match (error, self.raised) {
            (gristmill::Error::Interrupted, Some(raised)) => raised,
            (error, _) => PyError::from(error).into(),
        }
    }
}

fn as_dict<'py>(py: Python<'py>, progress: &Progress) -> PyResult<Bound<'py, PyDict>> {
    let stage = match progress.stage {
        Stage::Pairs => "pairs",
        Stage::Merging => "merging",
        _ => "counting",
    };
    let dict = PyDict::new(py);
    dict.set_item("stage", stage)?;
    for (name, number) in [
        ("texts", progress.texts),
        ("bytes", progress.bytes),
        ("words", progress.words),
        ("pairs", progress.pairs),
        ("merges", progress.merges),
        ("wanted", progress.wanted),
    ] {
        dict.set_item(name, number)?;
    }
    Ok(dict)
}

/// Who shows progress: nobody, the display of the command line, or a function.
fn shown_by(py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<Option<Py<PyAny>>> {
    let Some(progress) = progress else {
        return Ok(None);
    };
    if let Ok(wanted) = progress.extract::<bool>() {
        if !wanted {
            return Ok(None);
        }
        let display = py.import("gristmill.cli.progress")?.getattr("Display")?;
        return Ok(Some(display.call0()?.unbind()));
    }
    if progress.is_callable() {
        return Ok(Some(progress.unbind()));
    }
    Err(PyTypeError::new_err(
        "progress is True, False or a function",
    ))
}

const PARITIES: [(&str, Parity); 5] = [
    ("rustbpe", Parity::Rustbpe),
    ("hf", Parity::Hf),
    ("minbpe", Parity::Minbpe),
    ("cs336", Parity::Cs336),
    ("sentencepiece", Parity::SentencePiece),
];

fn parity_of(name: &str) -> PyResult<Parity> {
    let found = PARITIES.iter().find(|(known, _)| *known == name);
    found
        .map(|&(_, parity)| parity)
        .ok_or_else(|| choice("parity", name, &PARITIES.map(|(name, _)| name)))
}

fn name_of(parity: Parity) -> &'static str {
    let found = PARITIES.iter().find(|(_, known)| *known == parity);
    found.map_or("?", |&(name, _)| name)
}

fn choice(option: &str, given: &str, known: &[&str]) -> PyErr {
    PyValueError::new_err(format!(
        "{option} is one of {}, not {given:?}",
        known.join(", ")
    ))
}

fn chars_of(strings: Strings) -> PyResult<Vec<char>> {
    let char = |string: &String| {
        let mut chars = string.chars();
        match (chars.next(), chars.next()) {
            (Some(char), None) => Ok(char),
            _ => Err(PyValueError::new_err(format!(
                "initial_alphabet holds single characters, not {string:?}"
            ))),
        }
    };
    strings.0.iter().map(char).collect()
}

/// Any iterable of strings but a string.
struct Strings(Vec<String>);

impl<'py> FromPyObject<'_, 'py> for Strings {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if object.is_instance_of::<PyString>() {
            return Err(PyTypeError::new_err(
                "a list of strings is wanted, not one string",
            ));
        }
        let strings = object.try_iter()?.map(|string| string?.extract());
        strings.collect::<PyResult<_>>().map(Strings)
    }
}

/// A number of bytes: an integer, or text such as "512MB" or "2 GiB".
pub(crate) struct Bytes(usize);

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Ok(text) = object.cast::<PyString>() else {
            return object.extract().map(Bytes);
        };
        let text = text.to_str()?;
        parse_bytes(text).map(Bytes).ok_or_else(|| {
            PyValueError::new_err(format!(
                "memory_limit is a number of bytes or text such as \"512MB\", not {text:?}"
            ))
        })
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

/// Train a tokenizer on.
#[pyfunction]
#[pyo3(signature = (
    tokenizer, texts, /, *, tokens, min_frequency = 0, threads = 0, memory_limit = None,
    progress = None
))]
#[expect(clippy::too_many_arguments, reason = "each is an option of its own")]
pub(crate) fn extend(
    py: Python<'_>,
    tokenizer: &PyTokenizer,
    texts: &Bound<'_, PyAny>,
    tokens: usize,
    min_frequency: u64,
    threads: usize,
    memory_limit: Option<Bytes>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<PyTokenizer> {
    let progress = shown_by(py, progress)?;
    let limit = memory_limit.map(|limit| limit.0);
    let tokenizer = tokenizer.inner();
    let mut counts = tokenizer.counts(threads, limit).map_err(PyError::from)?;
    add(py, &mut counts, texts, progress.as_ref())?;
    let mut watch = Watch::new(progress);
    let extended = py
        .detach(|| tokenizer.extended(&counts, tokens, min_frequency, &mut |now| watch.look(now)));
    match extended {
        Ok(tokenizer) => Ok(PyTokenizer::loaded(tokenizer)),
        Err(error) => Err(watch.exception(error)),
    }
}

/// Leave out the last tokens of a tokenizer.
#[pyfunction]
#[pyo3(signature = (tokenizer, /, vocab_size))]
pub(crate) fn prune(
    py: Python<'_>,
    tokenizer: &PyTokenizer,
    vocab_size: usize,
) -> PyResult<PyTokenizer> {
    let tokenizer = tokenizer.inner();
    let pruned = py.detach(|| tokenizer.pruned(vocab_size).map_err(PyError::from))?;
    Ok(PyTokenizer::loaded(pruned))
}
