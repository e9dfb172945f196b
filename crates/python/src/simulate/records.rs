//! Traces from columns.

use std::sync::Arc;

use frazil_simulator::trace::{self, Operation, Record, TimeUnit};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyString};

use xxhash_rust::xxh3::Xxh3;

use super::arrow::Chunks;
use super::column::{Column, Run, of_buffer};

/// Names that a column may have, the one of the role first, and the role's name in messages.
const ROLES: [(&str, &[&str]); 6] = [
    ("id", &["id", "key", "object", "obj_id"]),
    ("time", &["time", "timestamp"]),
    ("size", &["size"]),
    ("operation", &["operation", "op"]),
    ("latency", &["latency"]),
    ("ttl", &["ttl"]),
];

/// Operations by their numbers.
const OPERATIONS: [&[u8]; 3] = [b"get", b"set", b"delete"];
/// Records of a batch.
const BATCH: usize = 512;

/// A trace in memory, made of columns that stay where they are.
#[pyclass(frozen)]
pub(crate) struct Records {
    pub(super) records: Arc<trace::Records>,
    length: usize,
}

#[pymethods]
impl Records {
    /// From a table with Arrow's C stream, a dict of columns, or one column of ids. `places` has
    /// columns of a table by their roles.
    #[new]
    #[pyo3(signature = (source, places=None, time_unit=None))]
    fn new(
        source: &Bound<'_, PyAny>,
        places: Option<&Bound<'_, PyDict>>,
        time_unit: Option<&str>,
    ) -> PyResult<Self> {
        let unit = time_unit.map(str::parse::<TimeUnit>).transpose();
        let unit = unit.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let columns = columns(source, places)?;
        let length = columns.iter().flatten().next().map_or(0, Column::len);
        for ((role, _), column) in ROLES.iter().zip(&columns) {
            let Some(column) = column else { continue };
            if column.len() != length {
                return Err(PyValueError::new_err(format!(
                    "columns of unequal lengths: id has {length} rows, {role} has {}",
                    column.len()
                )));
            }
            if column.is_float() && !matches!(*role, "time" | "ttl" | "latency") {
                return Err(PyValueError::new_err(format!(
                    "column {role}: floating-point numbers, expected integers"
                )));
            }
        }
        if length == 0 {
            return Err(PyValueError::new_err("a trace without a record"));
        }
        source.py().detach(|| {
            let mut named = ROLES.iter().zip(&columns);
            named.try_for_each(|((role, _), column)| match column {
                Some(column) if *role == "operation" => check_operations(column),
                Some(column) => column.check(role),
                None => Ok(()),
            })
        })?;
        Ok(Records { records: Arc::new(assemble(columns, length, unit)?), length })
    }

    fn __len__(&self) -> usize {
        self.length
    }

    /// A hash of all records, in hexadecimal: equal for equal traces, in whatever memory.
    fn digest(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let mut hash = Xxh3::new();
            let mut batch = Vec::with_capacity(BATCH);
            for start in (0..self.length).step_by(BATCH) {
                batch.clear();
                self.records.fill(start..self.length.min(start + BATCH), &mut batch);
                for record in &batch {
                    let operation = record.operation as u64;
                    let fields = [record.id, record.time_ns, record.size, operation];
                    let fields = fields.into_iter().chain([record.latency, record.lifetime_ns]);
                    fields.for_each(|it| hash.update(&it.to_le_bytes()));
                }
            }
            format!("{:032x}", hash.digest128())
        })
    }
}

/// The columns by role, in the order of [`ROLES`].
fn columns(
    source: &Bound<'_, PyAny>,
    places: Option<&Bound<'_, PyDict>>,
) -> PyResult<[Option<Column>; 6]> {
    let mut columns = [const { None }; 6];
    if let Ok(dict) = source.cast::<PyDict>() {
        for (name, values) in dict {
            let name: String = name.extract()?;
            let role = ROLES.iter().position(|(_, names)| names.contains(&name.as_str()));
            let role = role.ok_or_else(|| {
                let roles = ROLES.map(|(role, _)| role).join(", ");
                PyValueError::new_err(format!("column {name:?}: expected one of {roles}"))
            })?;
            columns[role] = Some(column(&values, &name, role == 3)?);
        }
        if columns[0].is_none() {
            return Err(PyValueError::new_err("a trace without a column id"));
        }
        return Ok(columns);
    }
    if let Some(chunks) = Chunks::of(source)? {
        let Some(names) = chunks.names() else {
            columns[0] = Some(chunks.column(0, "id")?);
            return Ok(columns);
        };
        for ((role, usual), column) in ROLES.iter().zip(&mut columns) {
            let place = place(role, usual, &names, places)?;
            *column = place.map(|place| chunks.column(place, &names[place])).transpose()?;
        }
        if columns[0].is_none() {
            return Err(PyValueError::new_err(format!(
                "no column of ids among {}; columns={{\"id\": NAME}} names it",
                names.join(", ")
            )));
        }
        return Ok(columns);
    }
    columns[0] = Some(column(source, "id", false)?);
    Ok(columns)
}

/// The number of a table's column for a role.
fn place(
    role: &str,
    usual: &[&str],
    names: &[String],
    places: Option<&Bound<'_, PyDict>>,
) -> PyResult<Option<usize>> {
    let given = match places {
        Some(places) => places.get_item(role)?,
        None => None,
    };
    let Some(given) = given else {
        return Ok(names.iter().position(|name| usual.contains(&name.as_str())));
    };
    let place = match given.extract::<usize>() {
        // Counted from 1, as on the command line.
        Ok(number) => number.checked_sub(1).filter(|&place| place < names.len()),
        Err(_) => {
            let wanted: String = given.extract()?;
            names.iter().position(|name| *name == wanted)
        }
    };
    let missing = || {
        PyValueError::new_err(format!("no column {given} for {role} among {}", names.join(", ")))
    };
    place.map(Some).ok_or_else(missing)
}

/// One column, of whatever has numbers or names.
fn column(values: &Bound<'_, PyAny>, name: &str, operations: bool) -> PyResult<Column> {
    check_mask(values, name)?;
    if let Some(column) = of_buffer(values, name)? {
        return Ok(column);
    }
    if let Some(chunks) = Chunks::of(values)? {
        return chunks.column(0, name);
    }
    if values.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("column {name}: a text, expected numbers")));
    }
    let mut numbers = Vec::new();
    let Ok(values) = values.try_iter() else {
        let kind = values.get_type().name()?.to_string();
        return Err(PyTypeError::new_err(format!("column {name}: {kind}, expected numbers")));
    };
    let values: Vec<_> = values.collect::<PyResult<_>>()?;
    if values.iter().any(|value| value.is_instance_of::<PyFloat>()) {
        let floats = values.iter().map(|value| value.extract::<f64>()).collect::<PyResult<_>>()?;
        return Ok(Column::new(vec![Run::owned_floats(floats)], None));
    }
    for value in values {
        numbers.push(match value.cast::<PyString>() {
            Ok(text) if operations => operation_number(text.to_str()?)?,
            Ok(text) => trace::id_of_name(text.to_str()?.as_bytes()),
            Err(_) => value.extract::<u64>().map_err(|_| {
                PyValueError::new_err(format!(
                    "column {name}: {value}, expected whole numbers from 0 to 2^64 - 1"
                ))
            })?,
        });
    }
    Ok(Column::new(vec![Run::owned(numbers)], None))
}

/// Fails on a masked array of NumPy with a value that is masked: its buffer has no mask.
fn check_mask(values: &Bound<'_, PyAny>, name: &str) -> PyResult<()> {
    if !values.hasattr("filled")? || !values.hasattr("mask")? {
        return Ok(());
    }
    if values.getattr("mask")?.call_method0("any")?.is_truthy()? {
        return Err(PyValueError::new_err(format!("column {name}: has masked values")));
    }
    Ok(())
}

fn operation_number(text: &str) -> PyResult<u64> {
    let number = OPERATIONS.iter().position(|name| *name == text.as_bytes());
    let number = number.map(|number| number as u64);
    number.ok_or_else(|| {
        PyValueError::new_err(format!("operation {text:?}, expected get, set or delete"))
    })
}

fn check_operations(column: &Column) -> PyResult<()> {
    let names = OPERATIONS.map(trace::id_of_name);
    match column.find(|number| number > 2 && !names.contains(&number)) {
        Some(_) => Err(PyValueError::new_err(
            "column operation: expected get, set or delete, or their numbers 0, 1 and 2",
        )),
        None => Ok(()),
    }
}

/// The id of a name, which is how names come out of columns of text.
fn operation_of(number: u64, names: &[u64; 3]) -> Operation {
    let by_name = names.iter().position(|&name| name == number);
    match by_name.map_or(number, |number| number as u64) {
        1 => Operation::Set,
        2 => Operation::Delete,
        _ => Operation::Get,
    }
}

fn assemble(
    columns: [Option<Column>; 6],
    length: usize,
    unit: Option<TimeUnit>,
) -> PyResult<trace::Records> {
    let [ids, times, sizes, operations, latencies, ttls] = columns;
    let Some(ids) = ids else {
        return Err(PyValueError::new_err("a trace without a column id"));
    };
    let first = times.as_ref().map_or(0, Column::first);
    let unit = unit.unwrap_or_else(|| TimeUnit::since_1970(first));
    let unit_of = |column: &Option<Column>| {
        column.as_ref().and_then(|it| it.unit_ns).unwrap_or(unit.nanoseconds())
    };
    let (time_ns, ttl_ns) = (unit_of(&times), unit_of(&ttls));
    let names = OPERATIONS.map(trace::id_of_name);
    let (has_times, has_sizes, has_latencies) =
        (times.is_some(), sizes.is_some(), latencies.is_some());
    let fill = move |range: std::ops::Range<usize>, batch: &mut Vec<Record>| {
        let mut numbers = [0; BATCH];
        let first = batch.len();
        for start in range.clone().step_by(BATCH) {
            let part = start..range.end.min(start + BATCH);
            let numbers = &mut numbers[..part.len()];
            let at = batch.len();
            ids.copy(part.clone(), numbers, 1);
            batch.extend(numbers.iter().map(|&id| Record { id, size: 1, ..Record::default() }));
            let mut put = |column: &Option<Column>, each, set: &dyn Fn(&mut Record, u64)| {
                let Some(column) = column else { return };
                column.copy(part.clone(), numbers, each);
                batch[at..].iter_mut().zip(&*numbers).for_each(|(record, &it)| set(record, it));
            };
            put(&times, time_ns, &|record, it| record.time_ns = it);
            put(&sizes, 1, &|record, it| record.size = it);
            put(&operations, 1, &|record, it| record.operation = operation_of(it, &names));
            put(&latencies, 1, &|record, it| record.latency = it);
            put(&ttls, ttl_ns, &|record, it| record.lifetime_ns = it);
        }
        debug_assert_eq!(batch.len() - first, range.len());
    };
    let mut records = trace::Records::new(length, fill);
    records.times = has_times;
    records.sizes = has_sizes;
    records.latencies = has_latencies.then_some(unit);
    Ok(records)
}

/// The id of an object with this name, as in the columns of text.
#[pyfunction]
pub(crate) fn id_of_name(name: &str) -> u64 {
    trace::id_of_name(name.as_bytes())
}
