//! Charts as inline SVG (charts-rs): small, without scripts, sharp in print.

use anyhow::{Context, Result};
use charts_rs::{
    Align, AxisScale, BarChart, ChartBase, Color, LegendCategory, LineChart, Series, SeriesBand, Symbol,
    YAxisConfig,
};

use crate::results::Spread;

/// A value with its spread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bar {
    /// Height of the bar.
    pub value: f64,
    /// Smallest and largest that was measured, drawn as a whisker.
    pub spread: Option<(f64, f64)>,
}

impl Bar {
    /// Their median, with a whisker if there are several; none of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let Spread { median: value, low, high } = Spread::of(values)?;
        Some(Self { value, spread: (values.len() > 1).then_some((low, high)) })
    }
}

/// Bars or a line of one colour.
#[derive(Clone, Debug)]
pub struct Data<T> {
    /// For the legend.
    pub name: String,
    /// `#rrggbb`.
    pub colour: &'static str,
    /// Dashed line.
    pub dashed: bool,
    /// One for each category; none leaves a gap.
    pub values: Vec<Option<T>>,
}

/// What a chart says around its data.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Above the chart.
    pub title: String,
    /// Along the y axis.
    pub y: String,
    /// Below the x axis.
    pub x: String,
    /// Logarithmic y axis.
    pub log: bool,
}

const INK: &str = "#1f2937";
const FAINT: &str = "#e5e7eb";
const AXIS: &str = "#9ca3af";

#[expect(clippy::cast_possible_truncation, reason = "for drawing")]
fn pixel(value: f64) -> f32 {
    value as f32
}

fn base(chart: &mut ChartBase, axis: &mut YAxisConfig, labels: &Labels, colours: Vec<Color>) {
    let ink: Color = INK.into();
    chart.width = 620.0;
    chart.height = 340.0;
    chart.font_family = "Arial".into();
    chart.background_color = Color::transparent();
    chart.compact = true;
    chart.margin = (10.0, 14.0, 10.0, 10.0).into();
    chart.title.text.clone_from(&labels.title);
    chart.title.font.size = 15.0;
    chart.title.font.color = ink;
    chart.title.font.weight = Some("bold".into());
    chart.title.align = Align::Left;
    chart.title.margin = Some((0.0, 0.0, 10.0, 0.0).into());
    chart.legend.align = Align::Right;
    chart.legend.font.color = ink;
    chart.legend.font.size = 12.0;
    chart.legend.margin = Some((26.0, 0.0, 6.0, 0.0).into());
    chart.legend.show = Some(chart.series_list.len() > 1);
    chart.x_axis.font.color = ink;
    chart.x_axis.font.size = 12.0;
    chart.x_axis.stroke_color = AXIS.into();
    chart.x_axis.title.clone_from(&labels.x);
    chart.grid.stroke_color = FAINT.into();
    chart.grid.stroke_width = 1.0;
    chart.series.colors = colours;
    axis.font.color = ink;
    axis.font.size = 12.0;
    axis.title = Some(labels.y.clone());
    axis.formatter = Some("{t}".into());
    if labels.log {
        axis.scale = AxisScale::Log(10.0);
    }
}

/// Grouped bars with whiskers and their values written above.
///
/// # Errors
/// When the library refuses the data.
pub fn bars(labels: &Labels, categories: &[String], data: &[Data<Bar>]) -> Result<String> {
    if let [only] = categories
        && data.len() > 1
    {
        return single_bars(labels, only, data);
    }
    let series = data.iter().map(|d| series(d, None)).collect();
    let mut chart = BarChart::new(series, categories.to_vec());
    finish(&mut chart, labels, data)
}

/// Bars of one category: named below instead of in a legend.
fn single_bars(labels: &Labels, category: &str, data: &[Data<Bar>]) -> Result<String> {
    let values = data.iter().map(|d| d.values.first().copied().flatten()).collect();
    let all = Data { name: String::new(), colour: data[0].colour, dashed: false, values };
    let colours = data.iter().map(|d| Some(d.colour.into())).collect();
    let names = data.iter().map(|d| d.name.clone()).collect();
    let mut chart = BarChart::new(vec![series(&all, Some(colours))], names);
    let labels = Labels { x: category.to_owned(), ..labels.clone() };
    finish(&mut chart, &labels, &[all])
}

fn series(d: &Data<Bar>, colours: Option<Vec<Option<Color>>>) -> Series {
    let values = d.values.iter().map(|bar| bar.map(|bar| pixel(bar.value))).collect();
    let mut series = Series::new_nullable(d.name.clone(), values);
    series.colors = colours;
    let ends = |pick: fn((f64, f64)) -> f64| -> Vec<Option<f32>> {
        d.values.iter().map(|bar| bar.and_then(|bar| bar.spread).map(|spread| pixel(pick(spread)))).collect()
    };
    let band = SeriesBand { lower: ends(|s| s.0), upper: ends(|s| s.1), stroke_width: Some(1.5) };
    // A whisker would run through the number; the tables have it.
    series.label_show = band.lower.iter().all(Option::is_none);
    if !series.label_show {
        series.error_bar = Some(band);
    }
    series
}

fn finish(chart: &mut BarChart, labels: &Labels, data: &[Data<Bar>]) -> Result<String> {
    let mut axis = chart.y_axis_configs.pop().unwrap_or_default();
    base(&mut chart.base, &mut axis, labels, data.iter().map(|d| d.colour.into()).collect());
    chart.legend.category = LegendCategory::RoundRect;
    if !labels.log {
        axis.min = Some(0.0);
    }
    chart.series.label.formatter = label_format(data);
    chart.series.label.font.size = 11.0;
    chart.series.label.font.color = INK.into();
    chart.radius = Some(2.0);
    chart.y_axis_configs = vec![axis];
    chart.svg().with_context(|| format!("drawing the chart {:?}", labels.title))
}

/// Decimals of the numbers above bars: as many as the smallest needs for three digits.
fn label_format(data: &[Data<Bar>]) -> String {
    let values = data.iter().flat_map(|d| d.values.iter().flatten()).map(|bar| bar.value.abs());
    match values.filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min) {
        small if small >= 100.0 => "{:.0}",
        small if small >= 10.0 => "{:.1}",
        _ => "{:.2}",
    }
    .into()
}

/// Lines over evenly spaced categories.
///
/// # Errors
/// When the library refuses the data.
pub fn lines(labels: &Labels, categories: &[String], data: &[Data<f64>], markers: bool) -> Result<String> {
    let series = data.iter().map(|d| {
        let mut series =
            Series::new_nullable(d.name.clone(), d.values.iter().map(|v| v.map(pixel)).collect());
        if d.dashed {
            series.stroke_dash_array = Some("6,4".into());
        }
        series
    });
    let mut chart = LineChart::new(series.collect(), categories.to_vec());
    let mut axis = chart.y_axis_configs.pop().unwrap_or_default();
    base(&mut chart.base, &mut axis, labels, data.iter().map(|d| d.colour.into()).collect());
    chart.series.stroke_width = 2.0;
    chart.series.smooth = false;
    chart.series.symbol = Some(if markers { Symbol::Circle(3.0, None) } else { Symbol::None });
    chart.x_axis.boundary_gap = Some(false);
    if !labels.log {
        axis.min = Some(0.0);
    }
    chart.y_axis_configs = vec![axis];
    chart.svg().with_context(|| format!("drawing the chart {:?}", labels.title))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_svg_with_every_series() {
        let labels =
            Labels { title: "Throughput".into(), y: "tpmC".into(), x: "connections".into(), log: false };
        let bar = |value: f64| Some(Bar { value, spread: Some((value * 0.9, value * 1.1)) });
        let data = [
            Data { name: "nand".into(), colour: "#c2410c", dashed: false, values: vec![bar(3000.0), None] },
            Data {
                name: "dram".into(),
                colour: "#2563eb",
                dashed: false,
                values: vec![bar(4000.0), bar(5000.0)],
            },
        ];
        let svg = bars(&labels, &["8".into(), "16".into()], &data).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("nand") && svg.contains("dram"), "{svg}");
        let data = [Data {
            name: "published".into(),
            colour: "#6b7280",
            dashed: true,
            values: vec![Some(1.3), Some(1.4)],
        }];
        let svg = lines(&labels, &["8".into(), "16".into()], &data, true).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("stroke-dasharray"), "{svg}");
    }
}
