//! Tables as Arrow.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    ffi_stream::FFI_ArrowArrayStream,
};
use arrow_schema::{DataType, Schema, ffi::FFI_ArrowSchema};
use lab_engines::sim::{Column, Figure, FigureKind, Sheet};
use pyo3::{
    exceptions::PyKeyError,
    prelude::*,
    types::{PyCapsule, PyDict, PyList},
};

use crate::error::failed;

/// A table, in memory.
#[pyclass(frozen, module = "tranche")]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    /// The columns of a sheet, with their types in its Parquet file. Each value may be null.
    pub fn new(sheet: &Sheet) -> PyResult<Self> {
        if sheet.columns().is_empty() {
            return Ok(Self { batch: RecordBatch::new_empty(Arc::new(Schema::empty())) });
        }
        let columns = sheet.columns().iter().map(|column| (&column.name, array(column), true));
        Ok(Self { batch: RecordBatch::try_from_iter_with_nullable(columns).map_err(failed)? })
    }
}

/// The values of a column. Each may be null.
pub fn array(column: &Column) -> ArrayRef {
    let values = column.values.iter().map(Option::as_ref);
    match column.kind {
        FigureKind::Whole => Arc::new(values.map(|figure| figure?.whole()).collect::<Int64Array>()),
        FigureKind::Real => Arc::new(
            values
                .map(|figure| match figure? {
                    Figure::Real(value) => Some(*value),
                    Figure::Whole(_) | Figure::Text(_) => None,
                })
                .collect::<Float64Array>(),
        ),
        FigureKind::Text => Arc::new(
            values
                .map(|figure| match figure? {
                    Figure::Text(text) => Some(text.as_str()),
                    Figure::Whole(_) | Figure::Real(_) => None,
                })
                .collect::<StringArray>(),
        ),
    }
}

/// The values of a column as objects of Python.
pub fn objects<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let any = column.as_any();
    if let Some(column) = any.downcast_ref::<Int64Array>() {
        PyList::new(py, column)
    } else if let Some(column) = any.downcast_ref::<Float64Array>() {
        PyList::new(py, column)
    } else if let Some(column) = any.downcast_ref::<StringArray>() {
        PyList::new(py, column)
    } else {
        Err(failed(anyhow::anyhow!("a column of {} has no objects", column.data_type())))
    }
}

#[pymethods]
impl Table {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer do without what it is asked for.
        drop(requested_schema);
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.batch.column_by_name(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        objects(py, column)
    }

    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (field, column) in self.batch.schema().fields().iter().zip(self.batch.columns()) {
            dict.set_item(field.name(), objects(py, column)?)?;
        }
        Ok(dict)
    }

    #[getter]
    fn kinds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for field in self.batch.schema().fields() {
            let kind = match field.data_type() {
                DataType::Int64 => "int",
                DataType::Float64 => "float",
                _ => "str",
            };
            dict.set_item(field.name(), kind)?;
        }
        Ok(dict)
    }

    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tranche._frames")?.call_method1("to_pandas", (slf,))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("tranche._frames")?.call_method1("table_html", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<tranche.Table of {} columns, {} rows>", self.batch.num_columns(), self.batch.num_rows())
    }
}
