//! A verb of the command on a thread of its own, while the calling thread listens for signals.

use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use frazil_cli::{InMemory, Problem, Watch};
use frazil_simulator::trace;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Map, Value};

use super::records::Records;

create_exception!(
    frazil,
    TraceError,
    PyException,
    "A trace that can't be read: `file` has its name, `place` the line or byte, if that is known."
);

/// Errors of a trace that have no file or place say `None`.
pub(crate) fn give_places(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<TraceError>();
    class.setattr("file", py.None())?;
    class.setattr("place", py.None())
}

/// The interval at which the calling thread looks for signals. Ctrl-C is to stop a replay within
/// 0.2 s, of which the replay needs the rest to end.
const PERIOD: Duration = Duration::from_millis(40);
/// How long the caller waits for a stopped verb. In a step that can't be stopped the verb takes longer,
/// and its thread ends by itself.
const PATIENCE: Duration = Duration::from_millis(100);
/// By how much a replay gives way to the program's other threads, in steps of `nice`.
#[cfg(unix)]
const GIVES_WAY: i32 = 10;

/// Behind a lock, because the one thread that has it gives it to closures by reference.
type Done<T> = Mutex<Receiver<Result<T, Problem>>>;

fn next<T>(done: &Done<T>, patience: Duration) -> Result<Result<T, Problem>, RecvTimeoutError> {
    done.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(patience)
}

/// The rows of a verb, and the notes that the command would have printed. `tell` is called with the
/// name of the present step, the work done, and the whole.
#[pyfunction]
#[pyo3(signature = (words, memory, tell=None, gives_way=false))]
pub(crate) fn rows<'py>(
    py: Python<'py>,
    words: Vec<OsString>,
    memory: Vec<(String, Given<'py>)>,
    tell: Option<Bound<'py, PyAny>>,
    gives_way: bool,
) -> PyResult<(Bound<'py, PyList>, Vec<String>)> {
    let memory = in_memory(memory);
    let run = move |watch: &Arc<Watch>| {
        let rows = frazil_cli::rows(&words, &memory, watch);
        // Arrays are released before the caller continues, because it may resize them.
        drop(memory);
        rows
    };
    let (rows, notes) = call(py, run, tell.as_ref(), gives_way)?;
    let list = PyList::empty(py);
    for row in &rows {
        list.append(object(py, row)?)?;
    }
    Ok((list, notes))
}

/// A trace as an argument.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Records(PyRef<'py, Records>),
    Decoded(PyRef<'py, Decoded>),
}

fn in_memory(given: Vec<(String, Given<'_>)>) -> Vec<(String, InMemory)> {
    let one = |(name, it)| match it {
        Given::Records(it) => (name, InMemory::Records(Arc::clone(&it.records))),
        Given::Decoded(it) => (name, InMemory::Decoded(Arc::clone(&it.loaded))),
    };
    given.into_iter().map(one).collect()
}

/// A decoded trace, for many calls of `rows`.
#[pyclass(frozen)]
pub(crate) struct Decoded {
    loaded: Arc<trace::Loaded>,
}

#[pymethods]
impl Decoded {
    /// The trace of the words, with all that their policies need.
    #[new]
    fn new(
        py: Python<'_>,
        words: Vec<OsString>,
        memory: Vec<(String, Given<'_>)>,
    ) -> PyResult<Self> {
        let memory = in_memory(memory);
        let run = move |watch: &Arc<Watch>| frazil_cli::decode(&words, &memory, watch);
        Ok(Decoded { loaded: call(py, run, None, false)?.0 })
    }

    fn __len__(&self) -> usize {
        self.loaded.trace.len()
    }
}

/// The result of `run` on a thread of its own, and the notes.
fn call<T: Send + 'static>(
    py: Python<'_>,
    run: impl FnOnce(&Arc<Watch>) -> Result<T, Problem> + Send + 'static,
    tell: Option<&Bound<'_, PyAny>>,
    gives_way: bool,
) -> PyResult<(T, Vec<String>)> {
    let watch = Arc::new(Watch::default());
    let done = spawn(run, &watch, gives_way)?;
    let answer = match listen(py, &done, &watch, tell) {
        Ok(answer) => answer,
        Err(error) => {
            watch.stop();
            let until = Instant::now() + PATIENCE;
            py.detach(|| next(&done, until.saturating_duration_since(Instant::now())).ok());
            return Err(error);
        }
    };
    Ok((answer.map_err(|problem| error_of(py, &problem))?, watch.take_notes()))
}

fn spawn<T: Send + 'static>(
    run: impl FnOnce(&Arc<Watch>) -> Result<T, Problem> + Send + 'static,
    watch: &Arc<Watch>,
    gives_way: bool,
) -> PyResult<Done<T>> {
    let (send, done) = channel();
    let watch = Arc::clone(watch);
    let work = move || {
        if gives_way {
            give_way();
        }
        // Nobody listens if a signal came.
        let _ = send.send(run(&watch));
    };
    std::thread::Builder::new().name("frazil-replay".to_owned()).spawn(work)?;
    Ok(Mutex::new(done))
}

/// Lowers the priority of this thread and of those that it starts, on systems where threads have
/// one each; with the cores taken by replays, the program's own threads keep their pace.
fn give_way() {
    #[cfg(target_os = "linux")]
    // SAFETY: takes numbers alone; on failure the priority stays.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, GIVES_WAY);
    }
}

/// Waits for the end of the verb. Fails if a signal's handler, or `tell`, raises.
fn listen<T: Send>(
    py: Python<'_>,
    done: &Done<T>,
    watch: &Watch,
    tell: Option<&Bound<'_, PyAny>>,
) -> PyResult<Result<T, Problem>> {
    loop {
        match py.detach(|| next(done, PERIOD)) {
            Ok(rows) => {
                if let Some(tell) = tell {
                    tell.call1(watch.progress())?;
                }
                return Ok(rows);
            }
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                if let Some(tell) = tell {
                    tell.call1(watch.progress())?;
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the replay panicked; please report this"));
            }
        }
    }
}

fn error_of(py: Python<'_>, problem: &Problem) -> PyErr {
    match problem {
        Problem::Usage(text) => PyValueError::new_err(text.clone()),
        Problem::Failed(_) | Problem::Stopped => PyRuntimeError::new_err(problem.to_string()),
        Problem::Trace(error) => trace_error(py, error),
    }
}

fn trace_error(py: Python<'_>, error: &trace::TraceError) -> PyErr {
    use trace::TraceError as E;
    let (file, place) = match error {
        E::Io { file, error } => {
            let Some(code) = error.raw_os_error() else {
                return PyOSError::new_err(format!("{file}: {error}"));
            };
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            return PyOSError::new_err((code, text, file.clone()));
        }
        #[cfg(unix)]
        E::Directory { file } => {
            let text = "Is a directory, expected a trace file".to_owned();
            return PyOSError::new_err((libc::EISDIR, text, file.clone()));
        }
        E::Line { file, line, .. } => (Some(file), Some(format!("line {line}"))),
        E::Byte { file, offset, .. } | E::Compressed { file, offset, .. } => {
            (Some(file), Some(format!("byte {offset}")))
        }
        E::Empty { file }
        | E::NotBuilt { file, .. }
        | E::AllSkipped { file, .. }
        | E::Unrecognised { file, .. }
        | E::TooLarge { file, .. } => (Some(file), None),
        _ => (None, None),
    };
    let hint =
        if matches!(error, E::Line { .. }) { " (skip_bad_rows skips such lines)" } else { "" };
    let raised = TraceError::new_err(format!("{error}{hint}"));
    let value = raised.value(py);
    // A class of ours takes attributes.
    let _ = value.setattr("file", file);
    let _ = value.setattr("place", place);
    raised
}

fn object<'py>(py: Python<'py>, row: &Map<String, Value>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in row {
        dict.set_item(name, python(py, value)?)?;
    }
    Ok(dict)
}

fn python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(it) => it.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(it) => match (it.as_u64(), it.as_i64()) {
            (Some(it), _) => it.into_pyobject(py)?.into_any(),
            (_, Some(it)) => it.into_pyobject(py)?.into_any(),
            _ => it.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(it) => it.into_pyobject(py)?.into_any(),
        Value::Array(all) => {
            let list = PyList::empty(py);
            for value in all {
                list.append(python(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(row) => object(py, row)?.into_any(),
    })
}
