//! Ctrl-C during a batch.
//!
//! Python runs signal handlers in its main thread, and only when that thread asks. The thread that
//! called asks between two items, a few times a second; what a handler raises ends the batch and is
//! what the caller sees.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::Instant;

use pyo3::prelude::*;

use crate::error::PyError;

/// Milliseconds between two looks.
const BETWEEN_LOOKS: u64 = 50;

/// Looks for signals on behalf of one batch.
pub(crate) struct Interrupt {
    caller: ThreadId,
    began: Instant,
    /// Milliseconds from the beginning to the next look.
    next_look: AtomicU64,
    stopped: AtomicBool,
    raised: Mutex<Option<PyErr>>,
}

impl Interrupt {
    /// For a batch of the current thread.
    pub(crate) fn new() -> Interrupt {
        Interrupt {
            caller: thread::current().id(),
            began: Instant::now(),
            next_look: AtomicU64::new(BETWEEN_LOOKS),
            stopped: AtomicBool::new(false),
            raised: Mutex::new(None),
        }
    }

    /// Fails once a signal handler has raised an exception.
    pub(crate) fn check(&self) -> gristmill::Result<()> {
        if self.stopped.load(Ordering::Relaxed) || (self.is_due() && self.look()) {
            return Err(gristmill::Error::Interrupted);
        }
        Ok(())
    }

    fn is_due(&self) -> bool {
        thread::current().id() == self.caller
            && self.elapsed() >= self.next_look.load(Ordering::Relaxed)
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether a handler raised something.
    fn look(&self) -> bool {
        let raised = Python::attach(|py| py.check_signals()).err();
        let next = self.elapsed().saturating_add(BETWEEN_LOOKS);
        self.next_look.store(next, Ordering::Relaxed);
        let Some(error) = raised else {
            return false;
        };
        if let Ok(mut slot) = self.raised.lock() {
            *slot = Some(error);
        }
        self.stopped.store(true, Ordering::Relaxed);
        true
    }

    /// The exception to raise for an error of the batch.
    pub(crate) fn exception(self, error: gristmill::Error) -> PyErr {
        let raised = self.raised.into_inner().ok().flatten();
        raised.unwrap_or_else(|| PyError::from(error).into())
    }
}
