//! What stands around the data: title, legend, axes with round ticks. Each has a place of its own, so nothing covers another.

use std::ops::Range;

use anyhow::{Context as _, Result, anyhow};
use plotters::{
    coord::{
        Shift,
        ranged1d::{DefaultFormatting, KeyPointHint},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::Labels;
use crate::figure::thousands;

const WIDTH: u32 = 620;
const HEIGHT: u32 = 340;
/// Left of the plot: the y axis with its title.
const LEFT: u32 = 70;
/// Left of the y axis' title, which would be cut off otherwise.
const MARGIN: u32 = 10;
const RIGHT: u32 = 14;
/// A line of text in the head and below the x axis.
const LINE: i32 = 18;
/// Width of a character of the small font; wide ones are wider, most are not.
const CHARACTER: f64 = 6.6;
/// Width of a legend's mark with the blank behind it.
const MARK: i32 = 26;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
const FAINT: RGBColor = RGBColor(0xe5, 0xe7, 0xeb);
const AXIS: RGBColor = RGBColor(0x9c, 0xa3, 0xaf);

/// A small count, for drawing.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
pub fn real(count: usize) -> f64 {
    count as f64
}

#[expect(clippy::cast_possible_truncation, reason = "for drawing")]
fn pixels(text: &str) -> i32 {
    (real(text.chars().count()) * CHARACTER).ceil() as i32
}

/// Of `#rrggbb`; ink if it is not that.
pub fn colour(text: &str) -> RGBColor {
    let part = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    match (part(1), part(3), part(5)) {
        (Some(red), Some(green), Some(blue)) => RGBColor(red, green, blue),
        _ => INK,
    }
}

/// Whether names fit below so many places on the x axis.
pub fn fit<'a>(mut names: impl Iterator<Item = &'a str>, places: usize) -> bool {
    names.all(|name| lines_of(name, place(places)).is_some())
}

/// Pixels for each of so many categories.
fn place(categories: usize) -> f64 {
    f64::from(WIDTH - LEFT - RIGHT) / real(categories.max(1))
}

/// A label in one line or, split at a blank, in two of so many pixels; `None` if it is too long for that.
fn lines_of(label: &str, width: f64) -> Option<Vec<&str>> {
    let fits = |text: &str| f64::from(pixels(text)) <= width - 4.0;
    if fits(label) {
        return Some(vec![label]);
    }
    let mut splits = label.match_indices(' ').map(|(at, _)| vec![&label[..at], &label[at + 1..]]);
    splits.find(|lines| lines.iter().all(|line| fits(line)))
}

/// How a legend shows a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Box,
    Line,
    Dashes,
}

/// A series in the legend.
pub struct Key<'a> {
    pub name: &'a str,
    pub colour: RGBColor,
    pub mark: Mark,
}

/// Title and legend, above the plot.
pub struct Head<'a> {
    title: &'a str,
    /// With their places in the head.
    keys: Vec<(Key<'a>, (i32, i32))>,
    height: i32,
}

impl<'a> Head<'a> {
    pub fn new(labels: &'a Labels, keys: Vec<Key<'a>>) -> Self {
        let (mut x, mut y) = (6, 32);
        let mut placed = Vec::new();
        for key in keys {
            let wide = MARK + pixels(key.name) + 14;
            if x > 6 && x + wide > i32::try_from(WIDTH).unwrap_or(i32::MAX) {
                (x, y) = (6, y + LINE);
            }
            placed.push((key, (x, y)));
            x += wide;
        }
        let height = if placed.is_empty() { y } else { y + LINE };
        Self { title: &labels.title, keys: placed, height: height + 6 }
    }

    fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<()> {
        let font = ("Arial, sans-serif", 15).into_font().style(FontStyle::Bold).color(&INK);
        area.draw(&Text::new(self.title.to_owned(), (6, 8), font)).map_err(refused)?;
        for (Key { name, colour, mark }, (x, y)) in &self.keys {
            let middle = y + LINE / 2 - 1;
            match mark {
                Mark::Box => {
                    let corners = [(x + 4, middle - 5), (x + 14, middle + 5)];
                    area.draw(&Rectangle::new(corners, colour.filled())).map_err(refused)?;
                }
                Mark::Line | Mark::Dashes => {
                    let pieces: &[(i32, i32)] =
                        if *mark == Mark::Line { &[(0, 20)] } else { &[(0, 8), (12, 20)] };
                    for (from, to) in pieces {
                        let ends = [(x + from, middle), (x + to, middle)];
                        area.draw(&PathElement::new(ends, colour.stroke_width(2))).map_err(refused)?;
                    }
                }
            }
            let style = small().pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new((*name).to_owned(), (x + MARK, middle), style)).map_err(refused)?;
        }
        Ok(())
    }
}

fn small() -> TextStyle<'static> {
    ("Arial, sans-serif", 12).into_font().color(&INK)
}

/// plotters' errors may borrow what was drawn.
fn refused(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}

/// Steps of 1, 2 or 5 times a power of ten.
fn step(span: f64, parts: f64) -> f64 {
    let raw = span / parts;
    let power = 10f64.powf(raw.log10().floor());
    // A little less, for what is a multiple but for rounding.
    [1.0, 2.0, 5.0].iter().map(|n| n * power).find(|step| *step >= raw * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Multiples of a step from the last below the smallest value (at most 0) to the first above the largest.
fn linear(low: f64, high: f64) -> Vec<f64> {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let high = if high > low { high } else { low + 1.0 };
    let step = step(high - low, 5.0);
    let first = (low / step + 1e-9).floor();
    let mut ticks = vec![first * step];
    let mut n = first;
    while n * step < high * (1.0 - 1e-9) {
        n += 1.0;
        ticks.push(n * step);
    }
    ticks
}

/// 1, 2 and 5 times powers of ten around the values; powers alone where they span more than two.
fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let factors: &[f64] = if last - first > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let mut ticks = Vec::new();
    let mut power = first;
    while power <= last {
        ticks.extend(factors.iter().map(|factor| factor * 10f64.powf(power)));
        power += 1.0;
    }
    let from = ticks.iter().rposition(|tick| *tick <= low * (1.0 + 1e-9)).unwrap_or(0);
    let to = ticks.iter().position(|tick| *tick >= high * (1.0 - 1e-9)).unwrap_or(ticks.len() - 1);
    ticks[from..=to.max(from + 1).min(ticks.len() - 1)].to_vec()
}

/// A tick: thousands apart, millions and more with their prefix.
fn shown(tick: f64, decimals: usize) -> String {
    let size = tick.abs();
    let prefixes = [(1e12, " T"), (1e9, " G"), (1e6, " M")];
    if let Some((unit, name)) = prefixes.iter().find(|(unit, _)| size >= *unit) {
        let text = format!("{:.3}", tick / unit);
        return text.trim_end_matches('0').trim_end_matches('.').to_owned() + name;
    }
    let text = format!("{size:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let grouped = thousands(whole);
    let sign = if tick < 0.0 && text.chars().any(|c| c.is_ascii_digit() && c != '0') { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

/// Digits behind the point that tell ticks of this step apart.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0 to 9")]
fn digits(step: f64) -> usize {
    (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize
}

/// A y axis with these ticks, from the first to the last.
struct Axis(Vec<f64>);

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.0.clone()
    }

    fn range(&self) -> Range<f64> {
        self.0[0]..self.0[self.0.len() - 1]
    }
}

type Plane = Cartesian2d<RangedCoordf64, Axis>;

/// The axes.
pub struct Frame<'a> {
    labels: &'a Labels,
    categories: &'a [String],
    /// What is written at the y axis, in order; the first and the last are its ends.
    ticks: Vec<f64>,
}

impl<'a> Frame<'a> {
    /// For all values that are drawn; with `headroom` there is place for a number above the highest.
    pub fn new(
        labels: &'a Labels,
        categories: &'a [String],
        values: impl Iterator<Item = f64>,
        headroom: bool,
    ) -> Self {
        let drawn = values.filter(|value| value.is_finite() && (!labels.log || *value > 0.0));
        let ends = drawn.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let room = if headroom { 1.08 } else { 1.0 };
        let ticks = match ends {
            Some((low, high)) if labels.log => logarithmic(low, high * room),
            Some((low, high)) => linear(low, high * room),
            None if labels.log => logarithmic(1.0, 10.0),
            None => linear(0.0, 1.0),
        };
        Self { labels, categories, ticks }
    }

    /// A value's place on the y axis.
    fn scaled(&self, value: f64) -> f64 {
        if self.labels.log { value.max(f64::MIN_POSITIVE).log10() } else { value }
    }

    /// The image; `data` draws into the plot.
    pub fn draw(
        &self,
        head: &Head<'_>,
        data: impl FnOnce(&Plot<'_, '_, '_>) -> Result<()>,
    ) -> Result<String> {
        let mut svg = String::new();
        self.draw_into(&mut svg, head, data)
            .with_context(|| format!("drawing the chart {:?}", self.labels.title))?;
        Ok(svg)
    }

    fn draw_into(
        &self,
        svg: &mut String,
        head: &Head<'_>,
        data: impl FnOnce(&Plot<'_, '_, '_>) -> Result<()>,
    ) -> Result<()> {
        let root = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let (above, body) = root.split_vertically(head.height);
        head.draw(&above)?;
        let (names, two) = self.names();
        let below =
            u32::try_from(LINE).unwrap_or(0) * (1 + u32::from(two) + u32::from(!self.labels.x.is_empty()));
        let scaled: Vec<f64> = self.ticks.iter().map(|tick| self.scaled(*tick)).collect();
        let low = scaled[0];
        let mut chart = ChartBuilder::on(&body)
            .margin_left(MARGIN)
            .margin_right(RIGHT)
            .margin_top(8)
            .margin_bottom(4)
            .set_label_area_size(LabelAreaPosition::Left, LEFT - MARGIN)
            .set_label_area_size(LabelAreaPosition::Bottom, below)
            .build_cartesian_2d(-0.5..real(self.categories.len().max(1)) - 0.5, Axis(scaled))
            .map_err(refused)?;
        let log = self.labels.log;
        let decimals = digits(self.ticks[1] - self.ticks[0]);
        let tick = |place: &f64| match log {
            true => {
                let value = 10f64.powf(*place);
                shown(value, digits(10f64.powf((value * (1.0 + 1e-9)).log10().floor())))
            }
            false => shown(*place, decimals),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(AXIS)
            .label_style(small())
            .axis_desc_style(small())
            .x_labels(0)
            .y_label_formatter(&tick)
            .y_desc(self.labels.y.clone())
            .draw()
            .map_err(refused)?;
        data(&Plot { area: chart.plotting_area(), frame: self, floor: low })?;
        // Below the x axis.
        let (_, bottom) = chart.backend_coord(&(0.0, low));
        let centred = small().pos(Pos::new(HPos::Center, VPos::Top));
        for (at, lines) in names {
            let (x, _) = chart.backend_coord(&(real(at), low));
            for (line, y) in lines.iter().zip((bottom + 5..).step_by(14)) {
                root.draw(&Text::new((*line).to_owned(), (x, y), centred.clone())).map_err(refused)?;
            }
        }
        if !self.labels.x.is_empty() {
            let middle = i32::try_from(LEFT + (WIDTH - LEFT - RIGHT) / 2).unwrap_or(0);
            let y = i32::try_from(HEIGHT).unwrap_or(0) - LINE;
            root.draw(&Text::new(self.labels.x.clone(), (middle, y), centred)).map_err(refused)?;
        }
        root.present().map_err(refused)
    }

    /// Names of categories in lines, with their numbers: so many of them that none touches the next. Whether one has two lines.
    fn names(&self) -> (Vec<(usize, Vec<&str>)>, bool) {
        let count = self.categories.len();
        let thinned = |every: usize| -> Option<Vec<(usize, Vec<&str>)>> {
            let named =
                self.categories.iter().enumerate().step_by(every).filter(|(_, name)| !name.is_empty());
            named.map(|(at, name)| Some((at, lines_of(name, place(count) * real(every))?))).collect()
        };
        // Where names are blank on purpose, those that are there have more room.
        let blank = self.categories.iter().any(String::is_empty);
        let names: Vec<(usize, Vec<&str>)> = if blank {
            let there = self.categories.iter().enumerate().filter(|(_, name)| !name.is_empty());
            there.map(|(at, name)| (at, vec![name.as_str()])).collect()
        } else {
            (1..=count).find_map(thinned).unwrap_or_default()
        };
        let two = names.iter().any(|(_, lines)| lines.len() > 1);
        (names, two)
    }
}

/// Where data are drawn: x is a category's number, y a value.
pub struct Plot<'a, 'b, 's> {
    area: &'a DrawingArea<SVGBackend<'s>, Plane>,
    frame: &'b Frame<'b>,
    floor: f64,
}

impl Plot<'_, '_, '_> {
    fn y(&self, value: f64) -> f64 {
        self.frame.scaled(value).max(self.floor)
    }

    /// From the axis to the value.
    pub fn bar(&self, left: f64, right: f64, value: f64, colour: RGBColor) -> Result<()> {
        let base = if self.frame.labels.log { self.floor } else { 0.0 };
        let corners = [(left, base), (right, self.y(value))];
        self.area.draw(&Rectangle::new(corners, colour.filled())).map_err(refused)
    }

    /// From the smallest to the largest value, in the middle of a bar of this width.
    pub fn whisker(&self, x: f64, wide: f64, low: f64, high: f64) -> Result<()> {
        let (low, high, cap) = (self.y(low), self.y(high), wide * 0.12);
        for ends in
            [[(x, low), (x, high)], [(x - cap, low), (x + cap, low)], [(x - cap, high), (x + cap, high)]]
        {
            self.area.draw(&PathElement::new(ends, INK.stroke_width(1))).map_err(refused)?;
        }
        Ok(())
    }

    /// A number above a bar of this width, if it is no wider.
    pub fn number(&self, x: f64, wide: f64, value: f64, text: &str) -> Result<()> {
        if f64::from(pixels(text)) * 0.9 > place(self.frame.categories.len()) * wide {
            return Ok(());
        }
        let style =
            ("Arial, sans-serif", 11).into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Bottom));
        let above =
            EmptyElement::at((x, self.y(value.max(0.0)))) + Text::new(text.to_owned(), (0, -3), style);
        self.area.draw(&above).map_err(refused)
    }

    /// Points joined where they stand side by side. One between gaps is a dot.
    pub fn line(&self, values: &[Option<f64>], colour: RGBColor, dashed: bool, markers: bool) -> Result<()> {
        let points: Vec<Option<(f64, f64)>> = values
            .iter()
            .enumerate()
            .map(|(at, value)| value.filter(|value| value.is_finite()).map(|value| (real(at), self.y(value))))
            .collect();
        let style = colour.stroke_width(2);
        for run in points.split(Option::is_none).filter(|run| !run.is_empty()) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            if dashed {
                let pieces = DashedLineSeries::new(run.iter().copied(), 6, 4, style);
                for piece in pieces {
                    self.area.draw(&piece).map_err(refused)?;
                }
            } else {
                self.area.draw(&PathElement::new(run.clone(), style)).map_err(refused)?;
            }
            if markers || run.len() == 1 {
                for point in run {
                    self.area.draw(&Circle::new(point, 3, colour.filled())).map_err(refused)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_around_the_values() {
        for (low, high, ticks) in [
            (3.0, 5017.0, &["0", "2,000", "4,000", "6,000"][..]),
            (0.0, 1.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (-7.0, 31.0, &["-10", "0", "10", "20", "30", "40"]),
            (-3.0, -1.0, &["-3", "-2", "-1", "0"]),
            (0.0, 0.0, &["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
            (0.0, 2.6e6, &["0", "1 M", "2 M", "3 M"]),
            (0.0, 0.0031, &["0.000", "0.001", "0.002", "0.003", "0.004"]),
        ] {
            let found = linear(low, high);
            let decimals = digits(found[1] - found[0]);
            let text: Vec<String> = found.iter().map(|tick| shown(*tick, decimals)).collect();
            assert_eq!(text, ticks, "{low} to {high}");
        }
        assert_eq!(logarithmic(0.3, 7.0).len(), 6, "0.2, 0.5, 1, 2, 5, 10");
        assert_eq!(logarithmic(0.02, 700.0).len(), 6, "0.01 to 1000");
        assert_eq!(logarithmic(10.0, 10.0), [10.0, 20.0]);
    }

    #[test]
    fn labels_are_split_or_left_out() {
        assert_eq!(lines_of("order status", 100.0), Some(vec!["order status"]));
        assert_eq!(lines_of("order status", 60.0), Some(vec!["order", "status"]));
        assert_eq!(lines_of("transactions", 60.0), None);
    }
}
