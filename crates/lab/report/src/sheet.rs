//! The results of all runs as a table of typed columns, and its files.

use std::{borrow::Cow, fs::File, path::Path, sync::Arc};

use anyhow::{Context, Result};
use parquet::{
    basic::{ConvertedType, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};
use serde_json::{Value, json};

use crate::results::csv_field;

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// A whole number.
    Whole(u64),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(String),
}

impl Figure {
    /// A whole number; the largest signed one in place of those that are larger, as in files.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(value) => Some(i64::try_from(*value).unwrap_or(i64::MAX)),
            Self::Real(_) | Self::Text(_) => None,
        }
    }

    /// The value in JSON.
    pub fn json(&self) -> Value {
        match self {
            Self::Whole(value) => json!(value),
            Self::Real(value) => json!(value),
            Self::Text(text) => json!(text),
        }
    }
}

/// A place of a row: a figure, if the row has it, and what figures of its column are also where no row has one. So files of any two
/// sweeps can be read as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    kind: FigureKind,
    /// The figure, if the row has it.
    pub figure: Option<Figure>,
}

impl Cell {
    /// A place for a whole number.
    pub fn whole(value: impl Into<Option<u64>>) -> Self {
        Self { kind: FigureKind::Whole, figure: value.into().map(Figure::Whole) }
    }

    /// A place for any other number.
    pub fn real(value: impl Into<Option<f64>>) -> Self {
        Self { kind: FigureKind::Real, figure: value.into().map(Figure::Real) }
    }

    /// A place for a text.
    pub fn text(value: impl Into<Option<String>>) -> Self {
        Self { kind: FigureKind::Text, figure: value.into().map(Figure::Text) }
    }

    /// The same place of a row that has no figure there.
    pub fn empty(self) -> Self {
        Self { figure: None, ..self }
    }

    /// The same place of a row with the figure that a document has.
    pub fn filled(self, value: &Value) -> Self {
        let figure = match self.kind {
            FigureKind::Whole => value.as_u64().map(Figure::Whole),
            FigureKind::Real => value.as_f64().map(Figure::Real),
            FigureKind::Text => value.as_str().map(|text| Figure::Text(text.to_owned())),
        };
        Self { figure, ..self }
    }

    /// The figure in JSON; null if there is none.
    pub fn json(&self) -> Value {
        self.figure.as_ref().map_or(Value::Null, Figure::json)
    }
}

/// A place of a row, with the name of its column.
pub type NamedCell = (&'static str, Cell);

/// What the figures of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// Whole numbers from 0 to 2^63 - 1.
    Whole,
    /// Numbers.
    Real,
    /// Texts.
    Text,
}

/// A column with a place for each run.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its figures are.
    pub kind: FigureKind,
    /// A figure for each row, if the row has it.
    pub values: Vec<Option<Figure>>,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Row<'a, N = &'static str> {
    /// Its keys and their values. Options of jobs that are sizes are numbers of bytes.
    pub parameters: Cow<'a, [(String, String)]>,
    /// Names of columns, and the figures that it has.
    pub figures: Vec<(N, Cell)>,
}

/// A table with a row for each run.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    columns: Vec<Column>,
}

impl Sheet {
    /// From each run. All have the same parameters and columns.
    pub fn new<N: AsRef<str>>(rows: &[Row<'_, N>]) -> Self {
        let Some(first) = rows.first() else { return Self::default() };
        let mut columns: Vec<Column> = Vec::new();
        for (at, (name, _)) in first.parameters.iter().enumerate() {
            // Not what the figures have already.
            if !first.figures.iter().any(|(figure, _)| figure.as_ref() == name) {
                let texts: Vec<&str> = rows.iter().map(|row| row.parameters[at].1.as_str()).collect();
                columns.push(parameter(name, &texts));
            }
        }
        for (at, (name, cell)) in first.figures.iter().enumerate() {
            let values: Vec<_> = rows.iter().map(|row| row.figures.get(at)?.1.figure.clone()).collect();
            columns.push(Column { name: name.as_ref().to_owned(), kind: cell.kind, values });
        }
        Self { columns }
    }

    /// Its columns. All have the same number of rows.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Comma separated values, with a head.
    pub fn csv(&self) -> String {
        let head: Vec<String> = self.columns.iter().map(|column| csv_field(&column.name)).collect();
        let mut out = head.join(",") + "\n";
        let rows = self.columns.first().map_or(0, |column| column.values.len());
        for row in 0..rows {
            let cell = |column: &Column| match &column.values[row] {
                None => String::new(),
                Some(Figure::Whole(value)) => value.to_string(),
                Some(Figure::Real(value)) => value.to_string(),
                Some(Figure::Text(text)) => csv_field(text),
            };
            out.push_str(&self.columns.iter().map(cell).collect::<Vec<_>>().join(","));
            out.push('\n');
        }
        out
    }

    /// Writes a Parquet file: one row group, columns that may be null. `about` says in its metadata what it is.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_parquet(&self, path: &Path, about: Vec<(&str, String)>) -> Result<()> {
        let write = || -> Result<(), ParquetError> {
            let about = about.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
            let properties = WriterProperties::builder()
                .set_created_by(concat!("tranche ", env!("CARGO_PKG_VERSION")).to_owned())
                .set_key_value_metadata(Some(about.collect()))
                .build();
            let fields = self.columns.iter().map(|column| column.schema().map(Arc::new));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            let schema = Type::group_type_builder("runs").with_fields(fields).build()?;
            let file = File::create(path)?;
            let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
            let mut group = writer.next_row_group()?;
            for column in &self.columns {
                column.write(&mut group)?;
            }
            group.close()?;
            writer.close()?;
            Ok(())
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}

/// A parameter's column: numbers if all values are of one kind. Sizes are in bytes, rates in bytes per second, shares in percent, times in
/// microseconds. Values of a job's options have no sizes here: fio reads their units otherwise.
pub fn parameter(name: &str, texts: &[&str]) -> Column {
    let whole = |parse: &dyn Fn(&str) -> Option<u64>| -> Option<(FigureKind, Vec<Figure>)> {
        let one = |text: &&str| parse(text).filter(|number| *number <= MAX_INT64).map(Figure::Whole);
        Some((FigureKind::Whole, texts.iter().map(one).collect::<Option<_>>()?))
    };
    let real = |parse: &dyn Fn(&str) -> Option<f64>| -> Option<(FigureKind, Vec<Figure>)> {
        let one = |text: &&str| parse(text).filter(|number| number.is_finite()).map(Figure::Real);
        Some((FigureKind::Real, texts.iter().map(one).collect::<Option<_>>()?))
    };
    let of_drive = !name.starts_with("job.");
    let (kind, values) = whole(&|text| text.parse().ok())
        .or_else(|| real(&|text| text.parse().ok()))
        .or_else(|| whole(&|text| units::parse_size(text).ok().filter(|_| of_drive)))
        .or_else(|| whole(&|text| units::parse_rate(text).ok().filter(|_| of_drive)))
        .or_else(|| real(&|text| Some(units::parse_percent(text).ok()? as f64 / 1e4)))
        .or_else(|| real(&|text| Some(units::parse_time(text).ok()? as f64 / 1e3)))
        .unwrap_or_else(|| {
            (FigureKind::Text, texts.iter().map(|text| Figure::Text((*text).to_owned())).collect())
        });
    Column { name: name.to_owned(), kind, values: values.into_iter().map(Some).collect() }
}

/// Whole numbers are INT64.
const MAX_INT64: u64 = i64::MAX as u64;

impl Column {
    fn schema(&self) -> Result<Type, ParquetError> {
        let physical = match self.kind {
            FigureKind::Whole => Physical::INT64,
            FigureKind::Real => Physical::DOUBLE,
            FigureKind::Text => Physical::BYTE_ARRAY,
        };
        let builder =
            Type::primitive_type_builder(&self.name, physical).with_repetition(Repetition::OPTIONAL);
        match self.kind {
            FigureKind::Text => builder
                .with_converted_type(ConvertedType::UTF8)
                .with_logical_type(Some(LogicalType::String))
                .build(),
            FigureKind::Whole | FigureKind::Real => builder.build(),
        }
    }

    fn write(&self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        match self.kind {
            FigureKind::Whole => self.write_as::<Int64Type>(group, Figure::whole),
            FigureKind::Real => self.write_as::<DoubleType>(group, |figure| match figure {
                Figure::Real(value) => Some(*value),
                Figure::Whole(_) | Figure::Text(_) => None,
            }),
            FigureKind::Text => self.write_as::<ByteArrayType>(group, |figure| match figure {
                Figure::Text(text) => Some(ByteArray::from(text.as_str())),
                Figure::Whole(_) | Figure::Real(_) => None,
            }),
        }
    }

    fn write_as<T: DataType>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, File>,
        value: impl Fn(&Figure) -> Option<T::T>,
    ) -> Result<(), ParquetError> {
        let all: Vec<Option<T::T>> = self.values.iter().map(|figure| value(figure.as_ref()?)).collect();
        let levels: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
        let there: Vec<T::T> = all.into_iter().flatten().collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<T>().write_batch(&there, Some(&levels), None)?;
            column.close()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::{
        file::reader::{FileReader, SerializedFileReader},
        record::Field,
    };

    fn parameters(spare: &str, depth: &str) -> Vec<(String, String)> {
        [("ftl.spare", spare), ("job.iodepth", depth), ("gc.policy", "greedy"), ("seed", "7")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec()
    }

    fn figures(iops: Option<f64>) -> Vec<NamedCell> {
        vec![
            ("seed", Cell::whole(7)),
            ("read_iops", Cell::real(iops)),
            ("problem", Cell::text("a, \"b\"".to_owned())),
        ]
    }

    #[test]
    fn columns_without_a_value_have_their_type_too() {
        let types = |figures: Vec<NamedCell>| {
            let sheet = Sheet::new(&[Row { parameters: Vec::new().into(), figures }]);
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("results.parquet");
            sheet.write_parquet(&path, Vec::new()).unwrap();
            let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            let schema = reader.metadata().file_metadata().schema_descr_ptr();
            let column = |column: &parquet::schema::types::ColumnDescPtr| {
                (column.name().to_owned(), column.physical_type(), column.logical_type_ref().cloned())
            };
            schema.columns().iter().map(column).collect::<Vec<_>>()
        };
        let full = types(figures(Some(1.5)));
        assert_eq!(
            full.iter().map(|(_, physical, _)| *physical).collect::<Vec<_>>(),
            [Physical::INT64, Physical::DOUBLE, Physical::BYTE_ARRAY]
        );
        let empty = figures(Some(1.5)).into_iter().map(|(name, cell)| (name, cell.empty())).collect();
        assert_eq!(types(empty), full);
    }

    #[test]
    fn parquet_and_csv_hold_the_same() {
        let (a, b, c) = (parameters("7.5%", "1"), parameters("28%", "8"), parameters("28%", "64"));
        let failed = figures(None).into_iter().map(|(name, cell)| (name, cell.empty())).collect();
        let runs = [
            Row { parameters: a.into(), figures: figures(Some(1.5)) },
            Row { parameters: b.into(), figures: figures(None) },
            Row { parameters: c.into(), figures: failed },
        ];
        let sheet = Sheet::new(&runs);
        assert_eq!(
            sheet.csv(),
            "ftl.spare,job.iodepth,gc.policy,seed,read_iops,problem\n7.5,1,greedy,7,1.5,\"a, \"\"b\"\"\"\n28,8,greedy,7,,\"a, \"\"b\"\"\"\n28,64,greedy,,,\n"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.parquet");
        sheet.write_parquet(&path, vec![("drive", "x".into())]).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let about = reader.metadata().file_metadata().key_value_metadata().unwrap();
        assert_eq!((about[0].key.as_str(), about[0].value.as_deref()), ("drive", Some("x")));
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let text = |text: &str| Field::Str(text.to_owned());
        assert_eq!(
            rows,
            [
                vec![
                    Field::Double(7.5),
                    Field::Long(1),
                    text("greedy"),
                    Field::Long(7),
                    Field::Double(1.5),
                    text("a, \"b\"")
                ],
                vec![
                    Field::Double(28.0),
                    Field::Long(8),
                    text("greedy"),
                    Field::Long(7),
                    Field::Null,
                    text("a, \"b\"")
                ],
                vec![
                    Field::Double(28.0),
                    Field::Long(64),
                    text("greedy"),
                    Field::Null,
                    Field::Null,
                    Field::Null
                ],
            ]
        );
    }

    #[test]
    fn values_with_units_are_numbers_of_the_smallest() {
        let column = |name: &str, texts: &[&str]| {
            parameter(name, texts).values.into_iter().flatten().collect::<Vec<_>>()
        };
        let wholes = |numbers: &[u64]| numbers.iter().copied().map(Figure::Whole).collect::<Vec<_>>();
        let reals = |numbers: &[f64]| numbers.iter().copied().map(Figure::Real).collect::<Vec<_>>();
        let texts =
            |texts: &[&str]| texts.iter().map(|text| Figure::Text((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(column("set.1.buffer", &["0", "64KiB", "1MB"]), wholes(&[0, 65_536, 1_000_000]));
        assert_eq!(column("link.bandwidth", &["391MB/s", "1GiB/s"]), wholes(&[391_000_000, 1 << 30]));
        assert_eq!(column("ftl.spare", &["7%", "12.5%"]), reals(&[7.0, 12.5]));
        assert_eq!(column("timing.program", &["60us", "1.5ms"]), reals(&[60.0, 1500.0]));
        assert_eq!(column("gc.share", &["0.5", "1"]), reals(&[0.5, 1.0]));
        // Of two kinds.
        assert_eq!(column("namespace.1.size", &["1GiB", "rest"]), texts(&["1GiB", "rest"]));
        assert_eq!(column("ftl.spare", &["7%", "1GiB"]), texts(&["7%", "1GiB"]));
        // Not 4,096 for fio.
        assert_eq!(column("job.rate", &["4KiB"]), texts(&["4KiB"]));
    }
}
