//! Columns of results as an Arrow stream of one chunk.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule, PyFloat, PyInt, PyString};

use super::arrow::{Array, STREAM, Schema, Stream};

/// The flag of a column that may have missing values.
const NULLABLE: i64 = 2;

/// A column, with the buffers of its Arrow array.
struct Column {
    name: CString,
    format: CString,
    rows: usize,
    nulls: usize,
    /// Validity first; each buffer in words, so that it is aligned.
    buffers: Vec<Vec<u64>>,
}

/// A capsule `arrow_array_stream` of a table: a list of values for each name, which are all `None`
/// or all booleans, numbers, or texts, or `None`.
#[pyfunction]
pub(crate) fn arrow_stream<'py>(
    py: Python<'py>,
    columns: Vec<(String, Vec<Bound<'py, PyAny>>)>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let rows = columns.first().map_or(0, |(_, values)| values.len());
    let columns = columns.iter().map(|(name, values)| Column::new(name, values));
    let columns = columns.collect::<PyResult<Vec<_>>>()?;
    let given = Box::new(Given { columns, rows, done: false });
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(given).cast(),
    };
    // The stream releases itself when the capsule drops it, unless a reader has moved it out.
    PyCapsule::new(py, stream, Some(STREAM.to_owned()))
}

impl Column {
    fn new(name: &str, values: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let name = CString::new(name).map_err(|_| PyValueError::new_err("a name with a zero"))?;
        let present = || values.iter().filter(|it| !it.is_none());
        let is_bool = |it: &Bound<'_, PyAny>| it.is_instance_of::<PyBool>();
        let is_int = |it: &Bound<'_, PyAny>| it.is_instance_of::<PyInt>();
        let is_number = |it: &Bound<'_, PyAny>| is_int(it) || it.is_instance_of::<PyFloat>();
        let nulls = values.len() - present().count();
        let (format, data) = if nulls == values.len() {
            ("n", Vec::new())
        } else if present().all(is_bool) {
            let set = |it: &Bound<'_, PyAny>| it.is_truthy();
            ("b", vec![bits(values.iter().map(set).collect::<PyResult<Vec<_>>>()?)])
        } else if present().all(is_int) {
            let numbers = |it: &Bound<'_, PyAny>| -> PyResult<u64> {
                if it.is_none() {
                    return Ok(0);
                }
                it.extract::<i64>().map(|it| it as u64).or_else(|_| it.extract::<u64>())
            };
            let is_large = present().any(|it| it.extract::<i64>().is_err());
            if is_large && present().any(|it| it.extract::<u64>().is_err()) {
                return Err(PyValueError::new_err("numbers of both signs beyond 63 bits"));
            }
            let data = values.iter().map(numbers).collect::<PyResult<Vec<_>>>()?;
            (if is_large { "L" } else { "l" }, vec![data])
        } else if present().all(is_number) {
            let number = |it: &Bound<'_, PyAny>| match it.is_none() {
                true => Ok(0),
                false => it.extract::<f64>().map(f64::to_bits),
            };
            ("g", vec![values.iter().map(number).collect::<PyResult<Vec<_>>>()?])
        } else if present().all(|it| it.is_instance_of::<PyString>()) {
            ("U", texts(values)?)
        } else {
            let name = name.to_string_lossy();
            return Err(PyTypeError::new_err(format!("column {name}: values of several types")));
        };
        let mut buffers = Vec::new();
        if format != "n" {
            buffers.push(match nulls {
                0 => Vec::new(),
                _ => bits(values.iter().map(|it| !it.is_none()).collect()),
            });
            buffers.extend(data);
        }
        let format = CString::new(format)?;
        Ok(Column { name, format, rows: values.len(), nulls, buffers })
    }

    fn schema(&self) -> Schema {
        // The texts live in the stream's columns; a schema may outlive it, so they are copied.
        let (name, format) = (self.name.clone(), self.format.clone());
        schema(name, format, Vec::new())
    }
}

/// A bit for each value, the first one lowest.
fn bits(values: Vec<bool>) -> Vec<u64> {
    let word = |some: &[bool]| {
        some.iter().enumerate().fold(0, |word, (at, &bit)| word | u64::from(bit) << at)
    };
    values.chunks(64).map(|some| word(some).to_le()).collect()
}

/// The offsets, in 64 bits, and the bytes of texts.
fn texts(values: &[Bound<'_, PyAny>]) -> PyResult<Vec<Vec<u64>>> {
    let (mut offsets, mut bytes) = (vec![0], Vec::new());
    for value in values {
        if !value.is_none() {
            bytes.extend_from_slice(value.cast::<PyString>()?.to_str()?.as_bytes());
        }
        offsets.push(bytes.len() as u64);
    }
    let word = |some: &[u8]| {
        let mut word = [0; 8];
        word[..some.len()].copy_from_slice(some);
        u64::from_ne_bytes(word)
    };
    Ok(vec![offsets, bytes.chunks(8).map(word).collect()])
}

/// The private data of a stream.
struct Given {
    columns: Vec<Column>,
    rows: usize,
    done: bool,
}

/// The private data of a schema, which owns what its pointers point to.
struct OfSchema {
    name: CString,
    format: CString,
    children: Vec<*mut Schema>,
}

fn schema(name: CString, format: CString, children: Vec<Schema>) -> Schema {
    let children = children.into_iter().map(|it| Box::into_raw(Box::new(it))).collect();
    let mut kept = Box::new(OfSchema { name, format, children });
    Schema {
        format: kept.format.as_ptr(),
        name: kept.name.as_ptr(),
        metadata: null(),
        flags: NULLABLE,
        n_children: kept.children.len() as i64,
        children: kept.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// The private data of an array, which owns what its pointers point to.
struct OfArray {
    pointers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    _buffers: Vec<Vec<u64>>,
}

fn array(rows: usize, nulls: usize, buffers: Vec<Vec<u64>>, children: Vec<Array>) -> Array {
    let pointer = |it: &Vec<u64>| if it.is_empty() { null() } else { it.as_ptr().cast() };
    let pointers = buffers.iter().map(pointer).collect();
    let children = children.into_iter().map(|it| Box::into_raw(Box::new(it))).collect();
    let mut kept = Box::new(OfArray { pointers, children, _buffers: buffers });
    Array {
        length: rows as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: kept.pointers.len() as i64,
        n_children: kept.children.len() as i64,
        buffers: kept.pointers.as_mut_ptr(),
        children: kept.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: a stream of ours, not released, has a `Given`; the caller gives a place to write to.
    unsafe {
        let given = &*(*stream).private_data.cast::<Given>();
        let children = given.columns.iter().map(Column::schema).collect();
        out.write(schema(CString::default(), c"+s".to_owned(), children));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above; a stream is used by one thread at a time.
    unsafe {
        let given = &mut *(*stream).private_data.cast::<Given>();
        if std::mem::replace(&mut given.done, true) {
            out.write(Array::released());
            return 0;
        }
        let child =
            |it: &mut Column| array(it.rows, it.nulls, std::mem::take(&mut it.buffers), Vec::new());
        let children = given.columns.iter_mut().map(child).collect();
        out.write(array(given.rows, 0, vec![Vec::new()], children));
    }
    0
}

unsafe extern "C" fn get_last_error(_: *mut Stream) -> *const c_char {
    null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: called once, and the box is of ours.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Given>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: called once; the boxes are of ours, and children are released by their drop unless
    // they have been moved out.
    unsafe {
        let kept = Box::from_raw((*schema).private_data.cast::<OfSchema>());
        kept.children.iter().for_each(|&child| drop(Box::from_raw(child)));
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as above.
    unsafe {
        let kept = Box::from_raw((*array).private_data.cast::<OfArray>());
        kept.children.iter().for_each(|&child| drop(Box::from_raw(child)));
        (*array).release = None;
    }
}
