//! Functions for corpora: what a file is, and jobs into shards. Jobs and reports are JSON, as
//! `gristmill_corpus` has them.

use std::path::PathBuf;

use gristmill_corpus::run::{Options, Progress, Watch, run};
use gristmill_corpus::{Job, ShardReport, read};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::PyError;
use crate::tokenizer::PyTokenizer;

/// Find out what a file is; JSON.
#[pyfunction]
#[pyo3(signature = (path, /, *, format = None, separator = None, unit_bytes = 67_108_864))]
pub(crate) fn inspect_input(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    separator: Option<&str>,
    unit_bytes: u64,
) -> PyResult<String> {
    let inspect = || read::inspect(&path, format, separator, unit_bytes).map_err(PyError::from);
    json(&py.detach(inspect)?)
}

/// Make the shards of one job.
#[pyfunction]
#[pyo3(signature = (tokenizer, job, /, *, threads, max_memory, on_shard, on_progress = None))]
pub(crate) fn run_job(
    py: Python<'_>,
    tokenizer: &PyTokenizer,
    job: &str,
    threads: usize,
    max_memory: usize,
    on_shard: Py<PyAny>,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<()> {
    run_jobs(
        py,
        tokenizer,
        vec![job.to_owned()],
        threads,
        max_memory,
        on_shard,
        on_progress,
        0,
    )
}

/// Make the shards of jobs, in their order as far as threads allow it.
#[pyfunction]
#[pyo3(signature = (
    tokenizer, jobs, /, *, threads, max_memory, on_shard, on_progress = None, block_bytes = 0
))]
#[expect(clippy::too_many_arguments, reason = "each is an option of its own")]
pub(crate) fn run_jobs(
    py: Python<'_>,
    tokenizer: &PyTokenizer,
    jobs: Vec<String>,
    threads: usize,
    max_memory: usize,
    on_shard: Py<PyAny>,
    on_progress: Option<Py<PyAny>>,
    block_bytes: usize,
) -> PyResult<()> {
    let jobs = jobs
        .iter()
        .map(|job| serde_json::from_str(job))
        .collect::<Result<Vec<Job>, _>>()
        .map_err(|error| PyValueError::new_err(format!("not a job: {error}")))?;
    let options = Options {
        threads,
        max_memory,
        block_bytes,
    };
    let mut callbacks = Callbacks {
        on_shard,
        on_progress,
        raised: None,
    };
    let tokenizer = tokenizer.inner();
    match py.detach(|| run(tokenizer, &jobs, &options, &mut callbacks)) {
        Ok(()) => Ok(()),
        Err(error) => Err(callbacks
            .raised
            .unwrap_or_else(|| PyError::from(error).into())),
    }
}

/// Tells Python what happens. The first exception ends the run and is what the caller sees.
struct Callbacks {
    on_shard: Py<PyAny>,
    on_progress: Option<Py<PyAny>>,
    raised: Option<PyErr>,
}

impl Callbacks {
    fn done(&mut self, done: PyResult<()>) -> gristmill_corpus::Result<()> {
        done.map_err(|error| {
            self.raised.get_or_insert(error);
            gristmill_corpus::Error::Interrupted
        })
    }
}

impl Watch for Callbacks {
    fn shard(&mut self, report: &ShardReport) -> gristmill_corpus::Result<()> {
        let done = Python::attach(|py| {
            self.on_shard.call1(py, (json(report)?,))?;
            py.check_signals()
        });
        self.done(done)
    }

    fn progress(&mut self, progress: &Progress) -> gristmill_corpus::Result<()> {
        let done = Python::attach(|py| {
            if let Some(on_progress) = &self.on_progress {
                on_progress.call1(py, (json(progress)?,))?;
            }
            py.check_signals()
        });
        self.done(done)
    }
}

fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}
