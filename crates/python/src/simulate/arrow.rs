//! Arrow's C stream interface, as far as columns of numbers and of names need it.
//!
//! The layout of the structures is that of the specification ("The Arrow C data interface", "The
//! Arrow C stream interface"). A structure has been moved out or released if its `release` is null.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use frazil_simulator::trace;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::column::{Column, Kind, Run};

#[repr(C)]
pub(super) struct Schema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut Schema,
    pub(super) dictionary: *mut Schema,
    pub(super) release: Option<unsafe extern "C" fn(*mut Schema)>,
    pub(super) private_data: *mut c_void,
}

#[repr(C)]
pub(super) struct Array {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut Array,
    pub(super) dictionary: *mut Array,
    pub(super) release: Option<unsafe extern "C" fn(*mut Array)>,
    pub(super) private_data: *mut c_void,
}

#[repr(C)]
pub(super) struct Stream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    pub(super) release: Option<unsafe extern "C" fn(*mut Stream)>,
    pub(super) private_data: *mut c_void,
}

pub(super) const STREAM: &CStr = c"arrow_array_stream";

macro_rules! released {
    ($name:ident { $($pointer:ident),* ; $($number:ident),* }) => {
        impl $name {
            pub(super) fn released() -> Self {
                $name { $($pointer: null_mut(),)* $($number: 0,)* release: None }
            }
        }
    };
}
impl Schema {
    pub(super) fn released() -> Self {
        Schema {
            format: null_mut(),
            name: null_mut(),
            metadata: null_mut(),
            flags: 0,
            n_children: 0,
            children: null_mut(),
            dictionary: null_mut(),
            release: None,
            private_data: null_mut(),
        }
    }
}
released!(Array {
    buffers, children, dictionary, private_data;
    length, null_count, offset, n_buffers, n_children
});

macro_rules! dropped {
    ($($name:ident),*) => {$(
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: the structure is valid until this, its one call of its own function.
                    unsafe { release(self) }
                }
            }
        }
    )*};
}
dropped!(Schema, Array, Stream);

// SAFETY: whoever fills these structures lets any thread read them and release them, as the
// specification has it; nothing is written through them.
unsafe impl Send for Array {}
// SAFETY: as above.
unsafe impl Sync for Array {}
// SAFETY: as above; it is used by one thread at a time.
unsafe impl Send for Stream {}

impl Schema {
    /// The type, in the specification's letters.
    fn format(&self) -> &str {
        // SAFETY: a schema that is not released has a text there.
        unsafe { CStr::from_ptr(self.format) }.to_str().unwrap_or("?")
    }

    fn name(&self) -> String {
        if self.name.is_null() {
            return String::new();
        }
        // SAFETY: as for the type.
        unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned()
    }

    fn child(&self, index: usize) -> &Schema {
        // SAFETY: callers stay below `n_children`.
        unsafe { &**self.children.add(index) }
    }
}

impl Array {
    fn buffer(&self, index: usize) -> *const u8 {
        if index as i64 >= self.n_buffers {
            return null_mut();
        }
        // SAFETY: within the list of buffers.
        unsafe { (*self.buffers.add(index)).cast() }
    }

    /// Whether there are values that are missing, from `start` on.
    fn has_nulls(&self, start: usize, length: usize) -> bool {
        let bits = self.buffer(0);
        if self.null_count == 0 || bits.is_null() {
            return false;
        }
        // SAFETY: the bitmap has a bit for each value.
        let bit = |at: usize| unsafe { *bits.add(at / 8) } >> (at % 8) & 1;
        (start..start + length).any(|at| bit(at) == 0)
    }
}

/// All chunks of a stream, and their type.
pub(super) struct Chunks {
    schema: Schema,
    arrays: Vec<Arc<Array>>,
}

impl Chunks {
    /// Reads the stream of an object, or its one array; `None` if it has neither.
    pub(super) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(method) = object.getattr_opt("__arrow_c_stream__")? else {
            return Self::of_array(object);
        };
        let capsule = method.call0()?.cast_into::<PyCapsule>()?;
        let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<Stream>();
        // SAFETY: a capsule of this name holds a stream, and this thread alone has the capsule.
        let mut stream = unsafe { pointer.read() };
        // SAFETY: so that the capsule does not release what has been moved out.
        unsafe { (*pointer.as_ptr()).release = None };
        if stream.release.is_none() {
            return Err(PyValueError::new_err("the Arrow stream has been read before"));
        }
        let mut schema = Schema::released();
        let get_schema = stream.get_schema;
        // SAFETY: the functions of a stream take the stream itself and a place to write to.
        call(&mut stream, |it| get_schema.map_or(0, |get| unsafe { get(it, &mut schema) }))?;
        let mut arrays = Vec::new();
        loop {
            let mut array = Array::released();
            let get_next = stream.get_next;
            // SAFETY: as above.
            call(&mut stream, |it| get_next.map_or(0, |get| unsafe { get(it, &mut array) }))?;
            if array.release.is_none() {
                break;
            }
            if array.length > 0 {
                arrays.push(Arc::new(array));
            }
        }
        Ok(Some(Chunks { schema, arrays }))
    }

    /// As `of`, of an array that is in one piece.
    fn of_array(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Some(method) = object.getattr_opt("__arrow_c_array__")? else { return Ok(None) };
        let (schema, array): (Bound<'_, PyAny>, Bound<'_, PyAny>) = method.call0()?.extract()?;
        let schema = schema.cast_into::<PyCapsule>()?;
        let from = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<Schema>();
        let array = array.cast_into::<PyCapsule>()?;
        let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<Array>();
        // SAFETY: capsules of these names hold these structures, and this thread alone has them.
        // They no longer release what has been moved out.
        let (schema, array) =
            unsafe { (from.replace(Schema::released()), array.replace(Array::released())) };
        if schema.release.is_none() || array.release.is_none() {
            return Err(PyValueError::new_err("the Arrow array has been read before"));
        }
        let arrays = if array.length > 0 { vec![Arc::new(array)] } else { Vec::new() };
        Ok(Some(Chunks { schema, arrays }))
    }

    /// The names of the columns; `None` if it is one column without a name.
    pub(super) fn names(&self) -> Option<Vec<String>> {
        let children = 0..self.schema.n_children as usize;
        let is_table = self.schema.format() == "+s";
        is_table.then(|| children.map(|index| self.schema.child(index).name()).collect())
    }

    /// A column of a table by its number; the stream itself if it is no table.
    pub(super) fn column(&self, index: usize, name: &str) -> PyResult<Column> {
        let is_table = self.schema.format() == "+s";
        if is_table && index as i64 >= self.schema.n_children {
            let problem = format!("column {name}: a table without columns, expected numbers");
            return Err(PyValueError::new_err(problem));
        }
        let schema = if is_table { self.schema.child(index) } else { &self.schema };
        if !schema.dictionary.is_null() {
            let problem = format!("column {name}: is dictionary-encoded; cast it to plain values");
            return Err(PyValueError::new_err(problem));
        }
        let mut runs = Vec::new();
        for chunk in &self.arrays {
            let (array, start) = match is_table {
                // SAFETY: each array of a table has as many children as its schema.
                true => (unsafe { &**chunk.children.add(index) }, chunk.offset),
                false => (&**chunk, 0),
            };
            let (start, length) = ((start + array.offset) as usize, chunk.length as usize);
            // Rows of a table may be missing too.
            if array.has_nulls(start, length) || chunk.has_nulls(chunk.offset as usize, length) {
                let problem = format!("column {name}: has missing values, expected none");
                return Err(PyValueError::new_err(problem));
            }
            runs.push(run(schema.format(), array, start, length, chunk).ok_or_else(|| {
                let format = schema.format();
                PyValueError::new_err(format!(
                    "column {name}: Arrow's type `{format}` is no type of integers or text"
                ))
            })?);
        }
        Ok(Column::new(runs, unit_ns(schema.format())))
    }
}

/// Calls a function of a stream; fails with its message.
fn call(stream: &mut Stream, function: impl FnOnce(*mut Stream) -> c_int) -> PyResult<()> {
    let code = function(stream);
    if code == 0 {
        return Ok(());
    }
    // SAFETY: after an error the stream may have a text, valid until the next call.
    let text = stream.get_last_error.map(|get| unsafe { get(stream) }).filter(|it| !it.is_null());
    // SAFETY: as above.
    let text = text.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    let text = text.unwrap_or_else(|| format!("error {code}"));
    Err(PyValueError::new_err(format!("the Arrow stream: {text}")))
}

/// Nanoseconds in a unit of a timestamp or a duration.
fn unit_ns(format: &str) -> Option<u64> {
    let unit = format.strip_prefix("ts").or_else(|| format.strip_prefix("tD"))?;
    match unit.as_bytes().first()? {
        b's' => Some(1_000_000_000),
        b'm' => Some(1_000_000),
        b'u' => Some(1_000),
        b'n' => Some(1),
        _ => None,
    }
}

/// The values of one chunk; `None` if they are neither numbers nor text.
fn run(
    format: &str,
    array: &Array,
    start: usize,
    length: usize,
    chunk: &Arc<Array>,
) -> Option<Run> {
    let (kind, bytes) = match format {
        "C" => (Kind::U8, 1),
        "c" => (Kind::I8, 1),
        "S" => (Kind::U16, 2),
        "s" => (Kind::I16, 2),
        "I" => (Kind::U32, 4),
        "i" => (Kind::I32, 4),
        "L" => (Kind::U64, 8),
        "l" => (Kind::I64, 8),
        "f" => (Kind::F32, 4),
        "g" => (Kind::F64, 8),
        _ if unit_ns(format).is_some() => (Kind::I64, 8),
        _ => return names(format, array, start..start + length).map(Run::owned),
    };
    let values = array.buffer(1);
    // SAFETY: the second buffer of an array of numbers holds them, until the chunk is released.
    Some(unsafe { Run::new(values.add(start * bytes), length, kind, Arc::clone(chunk)) })
}

/// The ids of names, for each layout that text has.
fn names(format: &str, array: &Array, range: std::ops::Range<usize>) -> Option<Vec<u64>> {
    let id = |start: *const u8, length: usize| {
        if length == 0 {
            return trace::id_of_name(b"");
        }
        // SAFETY: the arrays below say that a text of this length is there.
        trace::id_of_name(unsafe { std::slice::from_raw_parts(start, length) })
    };
    let (second, data) = (array.buffer(1), array.buffer(2));
    Some(match format {
        "u" | "z" => {
            // SAFETY: the format has an offset before each value of the range, and one after the last.
            let offset = |at: usize| unsafe { second.cast::<i32>().add(at).read_unaligned() };
            let of = |at| {
                let (from, to) = (offset(at) as usize, offset(at + 1) as usize);
                id(data.wrapping_add(from), to - from)
            };
            range.map(of).collect()
        }
        "U" | "Z" => {
            // SAFETY: the format has an offset before each value of the range, and one after the last.
            let offset = |at: usize| unsafe { second.cast::<i64>().add(at).read_unaligned() };
            let of = |at| {
                let (from, to) = (offset(at) as usize, offset(at + 1) as usize);
                id(data.wrapping_add(from), to - from)
            };
            range.map(of).collect()
        }
        "vu" | "vz" => {
            // Up to twelve bytes lie in the view; else it has a buffer's number and an offset.
            // SAFETY: the format has a view for each value of the range, and its text where the view says.
            let of = |at: usize| unsafe {
                let view = second.add(at * 16);
                let field = |at: usize| view.cast::<u32>().add(at).read_unaligned() as usize;
                match field(0) {
                    length @ ..=12 => id(view.add(4), length),
                    length => id(array.buffer(2 + field(2)).add(field(3)), length),
                }
            };
            range.map(of).collect()
        }
        _ => return None,
    })
}
