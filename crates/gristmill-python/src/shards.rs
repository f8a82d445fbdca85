//! Shards: what is made when all are there, read back, verified, converted. Outputs, reports and lists are
//! JSON, as `gristmill_corpus` has them.

use std::path::PathBuf;
use std::sync::Mutex;

use gristmill_corpus::shards::{self, Collection};
use gristmill_corpus::write::{self, Format, Output};
use gristmill_corpus::{Error, ShardReport};
use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::error::PyError;
use crate::interrupt::Interrupt;

/// Refuse an output that its format cannot hold.
#[pyfunction]
#[pyo3(signature = (output, /))]
pub(crate) fn check_output(output: &str) -> PyResult<()> {
    Ok(write::check(&output_of(output)?).map_err(PyError::from)?)
}

/// Write what stands beside all shards of an output.
#[pyfunction]
#[pyo3(signature = (folder, output, reports, /))]
pub(crate) fn finish_output(
    py: Python<'_>,
    folder: PathBuf,
    output: &str,
    reports: &str,
) -> PyResult<String> {
    let output = output_of(output)?;
    py.detach(|| {
        let reports: Vec<ShardReport> = parsed("reports", reports)?;
        let shards = reports
            .into_iter()
            .map(|report| (report.documents, report.files));
        let written = write::finish_output(&folder, &output, shards).map_err(PyError::from)?;
        json(&written)
    })
}

/// Look at every byte of a folder's shards.
#[pyfunction]
#[pyo3(signature = (path, /, *, format = None, threads = 0))]
pub(crate) fn verify_shards(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    threads: usize,
) -> PyResult<String> {
    let format = format.map(format_of).transpose()?;
    let interrupt = Interrupt::new();
    let check = || interrupt.check().map_err(|_| Error::Interrupted);
    let verified = py.detach(|| {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        shards::verify(&Collection::open(&path, format)?, threads, &check)
    });
    match verified {
        Ok(verified) => json(&verified),
        Err(error) => Err(exception(interrupt, error)),
    }
}

/// Write the documents of shards to other shards.
#[pyfunction]
#[pyo3(signature = (paths, folder, output, /, *, format = None, shard_tokens = None))]
pub(crate) fn convert_shards(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    folder: PathBuf,
    output: &str,
    format: Option<&str>,
    shard_tokens: Option<u64>,
) -> PyResult<String> {
    let format = format.map(format_of).transpose()?;
    let output = output_of(output)?;
    let interrupt = Interrupt::new();
    let check = || interrupt.check().map_err(|_| Error::Interrupted);
    let converted = py.detach(|| {
        let sources = paths.iter().map(|path| Collection::open(path, format));
        let mut sources = sources.collect::<gristmill_corpus::Result<Vec<Collection>>>()?;
        shards::convert(&mut sources, &output, &folder, shard_tokens, &check)
    });
    match converted {
        Ok(converted) => json(&converted),
        Err(error) => Err(exception(interrupt, error)),
    }
}

/// The shards of one format, read by the numbers of documents.
#[pyclass(frozen, name = "Shards", module = "gristmill")]
pub(crate) struct PyShards {
    collection: Mutex<Collection>,
    documents: u64,
    list: String,
    folder: PathBuf,
}

#[pymethods]
impl PyShards {
    #[new]
    #[pyo3(signature = (path, /, *, format = None))]
    fn new(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<Self> {
        let format = format.map(format_of).transpose()?;
        let collection = py
            .detach(|| Collection::open(&path, format))
            .map_err(PyError::from)?;
        Ok(PyShards {
            documents: collection.documents(),
            list: json(collection.list())?,
            folder: collection.folder().to_owned(),
            collection: Mutex::new(collection),
        })
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.documents).unwrap_or(usize::MAX)
    }

    /// The ids of a document.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        document: i64,
    ) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let number = match u64::try_from(document) {
            Ok(number) => Some(number),
            Err(_) => self.documents.checked_sub(document.unsigned_abs()),
        };
        let Some(number) = number.filter(|number| *number < self.documents) else {
            return Err(PyIndexError::new_err(format!(
                "there is no document {document}: there are {}",
                self.documents
            )));
        };
        let ids = py.detach(|| {
            let mut ids = Vec::new();
            let mut collection = self
                .collection
                .lock()
                .map_err(|_| PyRuntimeError::new_err("an earlier call ended in a panic"))?;
            collection.read(number, &mut ids).map_err(PyError::from)?;
            Ok::<_, PyErr>(ids)
        })?;
        Ok(PyArray1::from_vec(py, ids))
    }

    /// What there is, as JSON.
    #[getter]
    fn list(&self) -> &str {
        &self.list
    }

    /// The folder that the names of files are in.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.folder.clone()
    }
}

fn exception(interrupt: Interrupt, error: Error) -> PyErr {
    match error {
        Error::Interrupted => interrupt.exception(gristmill::Error::Interrupted),
        error => PyError::from(error).into(),
    }
}

fn format_of(name: &str) -> PyResult<Format> {
    Format::ALL
        .into_iter()
        .find(|format| format.name() == name)
        .ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            PyValueError::new_err(format!(
                "no format {name:?}: there are {}",
                names.join(", ")
            ))
        })
}

fn output_of(output: &str) -> PyResult<Output> {
    parsed("output", output)
}

fn parsed<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
