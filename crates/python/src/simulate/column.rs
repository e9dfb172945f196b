//! Columns of numbers in memory that belongs to others: NumPy's, Arrow's, or ours.
//!
//! A column is one run of numbers, or several, as Arrow has them in chunks. Numbers are read in
//! place, a batch at a time, and never copied as a whole; only what is not contiguous is copied
//! once when it is taken.
//!
//! Another thread of the program may write to an array while it is replayed without the lock of the
//! interpreter. What is read then is unspecified, but each number is read by one relaxed atomic
//! load, so that nothing worse happens.

use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Type of the numbers of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Kind {
    fn of(element: ElementType) -> Option<Self> {
        Some(match element {
            ElementType::UnsignedInteger { bytes: 1 } => Kind::U8,
            ElementType::UnsignedInteger { bytes: 2 } => Kind::U16,
            ElementType::UnsignedInteger { bytes: 4 } => Kind::U32,
            ElementType::UnsignedInteger { bytes: 8 } => Kind::U64,
            ElementType::SignedInteger { bytes: 1 } => Kind::I8,
            ElementType::SignedInteger { bytes: 2 } => Kind::I16,
            ElementType::SignedInteger { bytes: 4 } => Kind::I32,
            ElementType::SignedInteger { bytes: 8 } => Kind::I64,
            ElementType::Float { bytes: 4 } => Kind::F32,
            ElementType::Float { bytes: 8 } => Kind::F64,
            _ => return None,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Kind::U8 | Kind::I8 => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Kind::F32 | Kind::F64)
    }
}

/// Numbers one behind the other, in memory that `owner` keeps.
pub(super) struct Run {
    start: NonNull<u8>,
    length: usize,
    kind: Kind,
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory is only read, by atomic loads, and its owner may be sent and shared.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl Run {
    /// `length` numbers from `start` on; unaligned ones are copied.
    ///
    /// # Safety
    /// The memory can be read as long as `owner` lives.
    pub(super) unsafe fn new(
        start: *const u8,
        length: usize,
        kind: Kind,
        owner: impl Any + Send + Sync,
    ) -> Self {
        let bytes = kind.bytes();
        if let Some(start) = NonNull::new(start.cast_mut())
            && start.as_ptr().addr().is_multiple_of(bytes)
        {
            return Run { start, length, kind, _owner: Box::new(owner) };
        }
        let mut copy = vec![0_u64; (length * bytes).div_ceil(8)];
        if length > 0 {
            // SAFETY: the caller says that so many bytes can be read; as many fit into the copy.
            unsafe { start.copy_to_nonoverlapping(copy.as_mut_ptr().cast(), length * bytes) };
        }
        Run { kind, length, ..Run::owned(copy) }
    }

    /// Numbers of ours.
    pub(super) fn owned(numbers: Vec<u64>) -> Self {
        let start = NonNull::from(numbers.as_slice()).cast();
        Run { start, length: numbers.len(), kind: Kind::U64, _owner: Box::new(numbers) }
    }

    /// Floating-point numbers of ours.
    pub(super) fn owned_floats(numbers: Vec<f64>) -> Self {
        let start = NonNull::from(numbers.as_slice()).cast();
        Run { start, length: numbers.len(), kind: Kind::F64, _owner: Box::new(numbers) }
    }

    fn cell<T>(&self, index: usize) -> *mut T {
        debug_assert!(size_of::<T>() == self.kind.bytes() && index < self.length);
        // SAFETY: callers stay within the run and take a type of its kind's size.
        unsafe { self.start.cast::<T>().add(index).as_ptr() }
    }

    /// The bits of a number, extended by its sign; of a float, its value in 64 bits.
    fn bits(&self, index: usize) -> u64 {
        // SAFETY: each cell is within the run, aligned, and read by nothing but atomic loads of ours.
        unsafe {
            match self.kind {
                Kind::U8 => AtomicU8::from_ptr(self.cell(index)).load(Relaxed).into(),
                Kind::U16 => AtomicU16::from_ptr(self.cell(index)).load(Relaxed).into(),
                Kind::U32 => AtomicU32::from_ptr(self.cell(index)).load(Relaxed).into(),
                Kind::I8 => AtomicU8::from_ptr(self.cell(index)).load(Relaxed) as i8 as u64,
                Kind::I16 => AtomicU16::from_ptr(self.cell(index)).load(Relaxed) as i16 as u64,
                Kind::I32 => AtomicU32::from_ptr(self.cell(index)).load(Relaxed) as i32 as u64,
                Kind::F32 => {
                    let bits = AtomicU32::from_ptr(self.cell(index)).load(Relaxed);
                    f64::from(f32::from_bits(bits)).to_bits()
                }
                Kind::U64 | Kind::I64 | Kind::F64 => {
                    AtomicU64::from_ptr(self.cell(index)).load(Relaxed)
                }
            }
        }
    }

    /// The first number that is negative, or no number, as text.
    fn first_bad(&self) -> Option<String> {
        let signed = matches!(self.kind, Kind::I8 | Kind::I16 | Kind::I32 | Kind::I64);
        if !signed && !self.kind.is_float() {
            return None;
        }
        let bad = |bits: u64| match self.kind.is_float() {
            true => {
                let value = f64::from_bits(bits);
                (!value.is_finite() || value < 0.0).then(|| value.to_string())
            }
            false => ((bits as i64) < 0).then(|| (bits as i64).to_string()),
        };
        (0..self.length).find_map(|index| bad(self.bits(index)))
    }
}

/// A column of a trace.
pub(super) struct Column {
    runs: Vec<Run>,
    /// The number of rows before each run.
    starts: Vec<usize>,
    length: usize,
    /// Nanoseconds in a unit, where the type of the column says so.
    pub(super) unit_ns: Option<u64>,
}

impl Column {
    /// Runs one behind the other.
    pub(super) fn new(runs: Vec<Run>, unit_ns: Option<u64>) -> Self {
        let (mut starts, mut length) = (Vec::with_capacity(runs.len()), 0);
        for run in &runs {
            starts.push(length);
            length += run.length;
        }
        Column { runs, starts, length, unit_ns }
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn is_float(&self) -> bool {
        self.runs.iter().any(|run| run.kind.is_float())
    }

    /// Fails on negative numbers and on such as are none. `name` is for the message.
    pub(super) fn check(&self, name: &str) -> PyResult<()> {
        match self.runs.iter().find_map(Run::first_bad) {
            Some(bad) => Err(PyValueError::new_err(format!(
                "column {name}: {bad}, expected numbers that are not negative"
            ))),
            None => Ok(()),
        }
    }

    /// The first number of integers that does not fit.
    pub(super) fn find(&self, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let numbers = |run: &Run| {
            let mut bits = (0..run.length).map(|index| run.bits(index));
            bits.find(|&number| wanted(number))
        };
        self.runs.iter().find_map(numbers)
    }

    /// The first number, cut to a whole one.
    pub(super) fn first(&self) -> u64 {
        let mut first = [0];
        if self.length > 0 {
            self.copy(0..1, &mut first, 1);
        }
        first[0]
    }

    /// Writes the numbers of a range to `out`, each times `each`.
    pub(super) fn copy(&self, range: Range<usize>, out: &mut [u64], each: u64) {
        let mut number = self.starts.partition_point(|&start| start <= range.start) - 1;
        let (mut at, mut written) = (range.start, 0);
        while at < range.end {
            let (run, start) = (&self.runs[number], self.starts[number]);
            let end = range.end.min(start + run.length);
            let out = &mut out[written..written + (end - at)];
            if run.kind.is_float() {
                for (out, index) in out.iter_mut().zip(at - start..) {
                    *out = (f64::from_bits(run.bits(index)) * each as f64) as u64;
                }
            } else {
                for (out, index) in out.iter_mut().zip(at - start..) {
                    *out = run.bits(index).saturating_mul(each);
                }
            }
            (written, at, number) = (written + (end - at), end, number + 1);
        }
    }
}

/// A column from an object with the buffer protocol; `None` if it has none, or none of numbers.
pub(super) fn of_buffer(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<Column>> {
    // SAFETY: asks for a flag of the object's type.
    if unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Ok(None);
    }
    let wrong_type = |_| {
        let dtype = object.getattr("dtype").or_else(|_| object.getattr("format"));
        let dtype = dtype.map_or_else(|_| "it".to_owned(), |it| it.to_string());
        PyValueError::new_err(format!(
            "column {name}: {dtype} is no type of numbers in this machine's order of bytes; \
             expected integers of 8 to 64 bits"
        ))
    };
    let buffer = PyUntypedBuffer::get(object).map_err(wrong_type)?;
    // Texts of NumPy, and objects of any kind: looked at one by one.
    if buffer.dimensions() == 1 && matches!(buffer.format().to_bytes().last(), Some(b'w' | b'O')) {
        return Ok(None);
    }
    let foreign = if cfg!(target_endian = "little") { &b">!"[..] } else { b"<" };
    let is_foreign = buffer.format().to_bytes().first().is_some_and(|it| foreign.contains(it));
    let kind = Kind::of(ElementType::from_format(buffer.format()))
        .filter(|kind| kind.bytes() == buffer.item_size() && !is_foreign)
        .ok_or_else(|| wrong_type(PyValueError::new_err("")))?;
    if buffer.dimensions() != 1 {
        let dimensions = buffer.dimensions();
        let problem = format!("column {name}: {dimensions} dimensions, expected one");
        return Err(PyValueError::new_err(problem));
    }
    let (length, bytes) = (buffer.item_count(), kind.bytes());
    let run = if buffer.is_c_contiguous() {
        let start = buffer.buf_ptr().cast_const().cast();
        // SAFETY: a contiguous buffer has its items there, until it is released.
        unsafe { Run::new(start, length, kind, buffer) }
    } else {
        let mut copy = Vec::with_capacity(length * bytes);
        for index in 0..length {
            let item = buffer.get_ptr(&[index]).cast_const().cast::<u8>();
            // SAFETY: the buffer has an item there, of so many bytes.
            copy.extend_from_slice(unsafe { std::slice::from_raw_parts(item, bytes) });
        }
        // SAFETY: the copy has its items there.
        unsafe { Run::new(copy.as_ptr(), length, kind, copy) }
    };
    Ok(Some(Column::new(vec![run], None)))
}
