//! Charts as inline SVG: small, without scripts, sharp in print.

mod frame;
mod labels;

use self::frame::{Frame, Head, Key, Mark};
pub use self::labels::Labels;
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

/// Part of the place of a category that its bars take.
const BAR_SHARE: f64 = 0.8;

/// Grouped bars with whiskers. Without whiskers, and where there is room, their values are written above.
pub fn bars(labels: &Labels, categories: &[String], data: &[Data<Bar>]) -> String {
    if let [only] = categories
        && data.len() > 1
        && frame::fit(data.iter().map(|d| d.name.as_str()), data.len())
    {
        return named_bars(labels, only, data);
    }
    let colours: Vec<Vec<&str>> = data.iter().map(|d| vec![d.colour; d.values.len()]).collect();
    let keys = data.iter().map(|d| Key { name: &d.name, colour: d.colour, mark: Mark::Box });
    let head = Head::new(labels, if data.len() > 1 { keys.collect() } else { Vec::new() });
    let values: Vec<&[Option<Bar>]> = data.iter().map(|d| d.values.as_slice()).collect();
    draw_bars(&head, labels, categories, &values, &colours)
}

/// Bars of one category: named below instead of in a legend.
fn named_bars(labels: &Labels, category: &str, data: &[Data<Bar>]) -> String {
    let values: Vec<Option<Bar>> = data.iter().map(|d| d.values.first().copied().flatten()).collect();
    let colours = data.iter().map(|d| d.colour).collect();
    let names: Vec<String> = data.iter().map(|d| d.name.clone()).collect();
    let x = if category.is_empty() { labels.x.clone() } else { category.to_owned() };
    let labels = Labels { x, ..labels.clone() };
    draw_bars(&Head::new(&labels, Vec::new()), &labels, &names, &[&values], &[colours])
}

fn draw_bars(
    head: &Head<'_>,
    labels: &Labels,
    categories: &[String],
    data: &[&[Option<Bar>]],
    colours: &[Vec<&'static str>],
) -> String {
    let all = || data.iter().flat_map(|values| values.iter().flatten());
    let ends = all().flat_map(|bar| {
        let (low, high) = bar.spread.unwrap_or((bar.value, bar.value));
        [low.min(bar.value), high.max(bar.value)]
    });
    // A whisker would run through the number; the tables have it.
    let written = all().all(|bar| bar.spread.is_none());
    let decimals = decimals(all().map(|bar| bar.value));
    let frame = Frame::new(labels, categories, ends, written);
    let wide = BAR_SHARE / frame::real(data.len().max(1));
    frame.draw(head, |plot| {
        for (series, (values, colours)) in data.iter().zip(colours).enumerate() {
            for (at, bar) in values.iter().enumerate() {
                let (Some(bar), Some(colour)) = (bar, colours.get(at)) else { continue };
                let left = frame::real(at) - BAR_SHARE / 2.0 + wide * frame::real(series);
                plot.bar(left + wide * 0.04, left + wide * 0.96, bar.value, colour);
                let middle = left + wide / 2.0;
                if let Some((low, high)) = bar.spread {
                    plot.whisker(middle, wide, low, high);
                } else if written {
                    plot.number(middle, wide, bar.value, &format!("{:.decimals$}", bar.value));
                }
            }
        }
    })
}

/// Decimals of the numbers above bars: as many as the smallest needs for three digits.
fn decimals(values: impl Iterator<Item = f64>) -> usize {
    match values.map(f64::abs).filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min) {
        small if small >= 100.0 => 0,
        small if small >= 10.0 => 1,
        _ => 2,
    }
}

/// Lines over evenly spaced categories. A line of one point would show nothing: it is a bar.
pub fn lines(labels: &Labels, categories: &[String], data: &[Data<f64>], markers: bool) -> String {
    let single = |d: &Data<f64>| d.values.iter().flatten().count() == 1;
    let alone: Vec<&Data<f64>> = data.iter().filter(|d| single(d)).collect();
    let mark = |d: &Data<f64>| match (single(d), d.dashed) {
        (true, _) => Mark::Box,
        (false, true) => Mark::Dashes,
        (false, false) => Mark::Line,
    };
    let keys = data.iter().map(|d| Key { name: &d.name, colour: d.colour, mark: mark(d) });
    let head = Head::new(labels, if data.len() > 1 { keys.collect() } else { Vec::new() });
    let frame =
        Frame::new(labels, categories, data.iter().flat_map(|d| d.values.iter().flatten()).copied(), false);
    // Beside each other, in half of a category's place.
    let wide = 0.5 / frame::real(alone.len().max(1));
    frame.draw(&head, |plot| {
        for (series, d) in alone.iter().enumerate() {
            let point = d.values.iter().enumerate().find_map(|(at, value)| Some((at, (*value)?)));
            let Some((at, value)) = point else { continue };
            let left = frame::real(at) - 0.25 + wide * frame::real(series);
            plot.bar(left, left + wide, value, d.colour);
        }
        for d in data.iter().filter(|d| !single(d)) {
            plot.line(&d.values, d.colour, d.dashed, markers);
        }
    })
}

#[cfg(test)]
mod tests;
