//! Tables of metrics: a row for each variant at a point, a column for each metric.

use super::Table;
use crate::{
    figure::show_some,
    results::{Point, Results},
};

/// A row of such a table.
#[derive(Clone, Debug, Default)]
pub struct MetricRow {
    /// Cells before those of metrics.
    pub labels: Vec<String>,
    /// The variant that columns of metrics show.
    pub variant: String,
    /// The start of the names of metrics; in columns of variants, the metric.
    pub metric: String,
    /// Where in the parameter space.
    pub at: Point,
}

impl MetricRow {
    /// A variant with its name as the label, where nothing is varied.
    pub fn of(variant: impl Into<String>) -> Self {
        let variant = variant.into();
        Self { labels: vec![variant.clone()], variant, ..Self::default() }
    }
}

/// The value of a column in a row.
type Cell<'a, T> = Box<dyn Fn(&MetricRow) -> T + 'a>;

enum Column<'a> {
    Figure(Cell<'a, Option<f64>>),
    Text(Cell<'a, String>),
}

/// The columns of a table of metrics, each with its title.
pub struct MetricTable<'a> {
    results: &'a Results,
    titles: Vec<String>,
    columns: Vec<Column<'a>>,
}

impl<'a> MetricTable<'a> {
    /// A table of these results, with columns for the labels of rows.
    pub fn new<const N: usize>(results: &'a Results, labels: [&str; N]) -> Self {
        Self { results, titles: labels.map(str::to_owned).to_vec(), columns: Vec::new() }
    }

    /// Columns with the medians of metrics, each by its title.
    #[must_use]
    pub fn metrics(mut self, columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let results = self.results;
        for (title, metric) in columns {
            let name = move |row: &MetricRow| format!("{}{metric}", row.metric);
            let of = move |row: &MetricRow| results.median(&row.variant, &name(row), &row.at);
            self = self.with(title, Column::Figure(Box::new(of)));
        }
        self
    }

    /// Columns with the medians of the row's metric, each of one variant.
    #[must_use]
    pub fn variants(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let results = self.results;
        for name in names {
            let of = move |row: &MetricRow| results.median(name, &row.metric, &row.at);
            self = self.with(name, Column::Figure(Box::new(of)));
        }
        self
    }

    /// A column of other cells.
    #[must_use]
    pub fn column(self, title: &str, cell: impl Fn(&MetricRow) -> String + 'a) -> Self {
        self.with(title, Column::Text(Box::new(cell)))
    }

    fn with(mut self, title: &str, column: Column<'a>) -> Self {
        self.titles.push(title.to_owned());
        self.columns.push(column);
        self
    }

    /// The table with these rows, without those that have no figure.
    pub fn rows(self, rows: impl IntoIterator<Item = MetricRow>) -> Table {
        let mut table = Table { columns: self.titles, rows: Vec::new() };
        for row in rows {
            let (mut cells, mut has_figure) = (row.labels.clone(), false);
            for column in &self.columns {
                cells.push(match column {
                    Column::Text(cell) => cell(&row),
                    Column::Figure(of) => {
                        let figure = of(&row);
                        has_figure |= figure.is_some();
                        show_some(figure)
                    }
                });
            }
            table.rows.extend(has_figure.then_some(cells));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Run, Variant};
    use std::collections::BTreeMap;

    fn results() -> Results {
        let run = |threads: u64, tps: f64| Run {
            at: Point::from([("threads".into(), threads)]),
            metrics: BTreeMap::from([("read_tps".into(), tps)]),
            ..Run::default()
        };
        let variant = |name: &str, runs| Variant { name: name.into(), description: String::new(), runs };
        let variants = vec![variant("a", vec![run(4, 10.0), run(8, 20.0)]), variant("b", vec![run(8, 5.0)])];
        Results { variants, ..Results::empty("x", "sim", 1, Vec::new()) }
    }

    fn at(threads: u64) -> Point {
        Point::from([("threads".into(), threads)])
    }

    #[test]
    fn rows_without_a_figure_are_left_out() {
        let results = results();
        let rows = [("a", 4), ("b", 4), ("b", 8)].map(|(variant, threads)| MetricRow {
            metric: "read_".into(),
            at: at(threads),
            ..MetricRow::of(variant)
        });
        let table = MetricTable::new(&results, ["on"])
            .metrics([("tps", "tps"), ("p50 ms", "p50_ms")])
            .column("threads", |row| row.at["threads"].to_string())
            .rows(rows);
        assert_eq!(table.columns, ["on", "tps", "p50 ms", "threads"]);
        assert_eq!(table.rows, [["a", "10.0", "-", "4"], ["b", "5.00", "-", "8"]]);
    }

    #[test]
    fn columns_are_variants_where_rows_are_metrics() {
        let results = results();
        let row = MetricRow {
            labels: vec!["reads".into()],
            metric: "read_tps".into(),
            at: at(8),
            ..Default::default()
        };
        let table = MetricTable::new(&results, [""])
            .variants(["a", "b"])
            .column("published", |_| "9".into())
            .rows([row]);
        assert_eq!(table.columns, ["", "a", "b", "published"]);
        assert_eq!(table.rows, [["reads", "20.0", "5.00", "9"]]);
    }
}
