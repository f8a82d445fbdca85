//! The native module `gristmill._native`: PyO3 only, no logic. Documented in `_native.pyi`.

mod arguments;
mod corpus;
mod error;
mod interrupt;
mod ints;
mod shards;
mod stream;
mod tokenizer;
mod train;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _native {
    #[pymodule_export]
    use crate::corpus::{inspect_input, run_job, run_jobs};
    #[pymodule_export]
    use crate::error::{CorpusError, TokenizerError};
    #[pymodule_export]
    use crate::shards::{PyShards, check_output, convert_shards, finish_output, verify_shards};
    #[pymodule_export]
    use crate::stream::{PyDecodeStream, PyStreamBatch, PyStreamTexts};
    #[pymodule_export]
    use crate::tokenizer::{PyTokenizer, restore};
    #[pymodule_export]
    use crate::train::{PyTrainer, PyWordCounts, extend, prune};

    use pyo3::prelude::*;
    use pyo3::types::PyDict;

    /// See `_native.pyi`.
    #[pyfunction]
    fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("version", env!("CARGO_PKG_VERSION"))?;
        info.set_item("debug", cfg!(debug_assertions))?;
        info.set_item("system", std::env::consts::OS)?;
        info.set_item("processor", std::env::consts::ARCH)?;
        Ok(info)
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add(
            "EMBEDDED",
            pyo3::types::PyTuple::new(module.py(), gristmill::EMBEDDED)?,
        )?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
