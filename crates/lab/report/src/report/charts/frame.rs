//! What stands around the data: title, legend, axes with round ticks. Each has a place of its own, so nothing covers another.

use svg::Document;
use svg::node::element::{Circle, Line, Polyline, Rectangle, Text};

use super::labels::Labels;
use crate::figure::thousands;

/// Pixels of a chart.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 340.0;
/// Left of the plot: the y axis with its title.
const LEFT_MARGIN: f64 = 70.0;
const RIGHT_MARGIN: f64 = 14.0;
/// Between head and plot, so that the number of the highest tick has room.
const TOP_MARGIN: f64 = 8.0;
/// A line of text in the head and below the x axis.
const LINE: f64 = 18.0;
/// Width of a character of the small font; wide ones are wider, most are not.
const CHARACTER: f64 = 6.6;
/// Width of a legend's mark with the blank behind it.
const MARK: f64 = 26.0;
/// Sizes of the font: of numbers above bars, of most texts, of the title.
const TINY_FONT: u32 = 9;
const SMALL_FONT: u32 = 10;
const LARGE_FONT: u32 = 12;

const INK: &str = "#1f2937";
const GRID_COLOUR: &str = "#e5e7eb";
const AXIS: &str = "#9ca3af";

/// Pixels from the left and from the top.
type Pixels = (f64, f64);

/// A small count, for drawing.
#[expect(clippy::cast_precision_loss, reason = "for drawing")]
pub fn real(count: usize) -> f64 {
    count as f64
}

fn pixels(text: &str) -> f64 {
    (real(text.chars().count()) * CHARACTER).ceil()
}

/// Whether names fit below so many places on the x axis.
pub fn fit<'a>(mut names: impl Iterator<Item = &'a str>, places: usize) -> bool {
    names.all(|name| lines_of(name, place(places)).is_some())
}

/// Pixels for each of so many categories.
fn place(categories: usize) -> f64 {
    (WIDTH - LEFT_MARGIN - RIGHT_MARGIN) / real(categories.max(1))
}

/// A label in one line or, split at a blank, in two of so many pixels; `None` if it is too long for that.
fn lines_of(label: &str, width: f64) -> Option<Vec<&str>> {
    let fits = |text: &str| pixels(text) <= width - 4.0;
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
    pub colour: &'static str,
    pub mark: Mark,
}

/// Title and legend, above the plot.
pub struct Head<'a> {
    title: &'a str,
    /// With their places in the head.
    keys: Vec<(Key<'a>, Pixels)>,
    height: f64,
}

impl<'a> Head<'a> {
    pub fn new(labels: &'a Labels, keys: Vec<Key<'a>>) -> Self {
        let (mut x, mut y) = (6.0, 32.0);
        let mut placed = Vec::new();
        for key in keys {
            let wide = MARK + pixels(key.name) + 14.0;
            if x > 6.0 && x + wide > WIDTH {
                (x, y) = (6.0, y + LINE);
            }
            placed.push((key, (x, y)));
            x += wide;
        }
        let height = if placed.is_empty() { y } else { y + LINE };
        Self { title: &labels.title, keys: placed, height: height + 6.0 }
    }

    fn draw(&self, canvas: &mut Canvas) {
        canvas.add(text(self.title, (6.0, 20.0), LARGE_FONT, "start").set("font-weight", "bold"));
        for (Key { name, colour, mark }, (x, y)) in &self.keys {
            let middle = y + LINE / 2.0 - 1.0;
            match mark {
                Mark::Box => canvas.add(rectangle((x + 4.0, middle - 5.0), (x + 14.0, middle + 5.0), colour)),
                Mark::Line => canvas.add(line((*x, middle), (x + 20.0, middle), colour, 2)),
                Mark::Dashes => {
                    canvas.add(
                        line((*x, middle), (x + 20.0, middle), colour, 2).set("stroke-dasharray", "8 4"),
                    );
                }
            }
            canvas.add(text(name, (x + MARK, middle + 3.5), SMALL_FONT, "start"));
        }
    }
}

/// An image that grows. The browser has the fonts.
struct Canvas(Document);

impl Canvas {
    fn new() -> Self {
        let document = Document::new().set("viewBox", (0, 0, WIDTH, HEIGHT));
        Self(document.set("width", WIDTH).set("height", HEIGHT).set("font-family", "Arial, sans-serif"))
    }

    fn add(&mut self, element: impl svg::Node + 'static) {
        svg::Node::append(&mut self.0, element);
    }
}

/// Tenths of a pixel.
fn round(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

/// `y` is the line that letters stand on; `anchor` is the part of the text that is at `x`: start, middle or end.
fn text(content: &str, (x, y): Pixels, size: u32, anchor: &'static str) -> Text {
    let element = Text::new(content).set("x", round(x)).set("y", round(y));
    element.set("font-size", size).set("text-anchor", anchor).set("fill", INK)
}

fn line((x1, y1): Pixels, (x2, y2): Pixels, colour: &'static str, width: u32) -> Line {
    let element =
        Line::new().set("x1", round(x1)).set("y1", round(y1)).set("x2", round(x2)).set("y2", round(y2));
    element.set("stroke", colour).set("stroke-width", width)
}

/// Between two opposite corners.
fn rectangle(a: Pixels, b: Pixels, colour: &'static str) -> Rectangle {
    let element = Rectangle::new().set("x", round(a.0.min(b.0))).set("y", round(a.1.min(b.1)));
    element.set("width", round((a.0 - b.0).abs())).set("height", round((a.1 - b.1).abs())).set("fill", colour)
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
    pub fn draw(&self, head: &Head<'_>, data: impl FnOnce(&mut Plot<'_>)) -> String {
        let mut canvas = Canvas::new();
        head.draw(&mut canvas);
        let (names, two) = self.names();
        let lines = 1.0 + f64::from(u8::from(two)) + f64::from(u8::from(!self.labels.x.is_empty()));
        let ends = (self.scaled(self.ticks[0]), self.scaled(self.ticks[self.ticks.len() - 1]));
        let (top, bottom) = (head.height + TOP_MARGIN, HEIGHT - 4.0 - LINE * lines);
        let mut plot = Plot { canvas, frame: self, ends, top, bottom };
        self.draw_axes(&mut plot);
        data(&mut plot);
        for (at, lines) in names {
            for (number, line) in lines.iter().enumerate() {
                let place = (plot.x(real(at)), bottom + 15.0 + 14.0 * real(number));
                plot.canvas.add(text(line, place, SMALL_FONT, "middle"));
            }
        }
        plot.canvas.0.to_string()
    }

    /// The grid with its ticks, both axes, and their titles.
    fn draw_axes(&self, plot: &mut Plot<'_>) {
        let (left, right, top, bottom) = (LEFT_MARGIN, WIDTH - RIGHT_MARGIN, plot.top, plot.bottom);
        let digits_of = |tick: f64| match self.labels.log {
            true => digits(10f64.powf((tick * (1.0 + 1e-9)).log10().floor())),
            false => digits(self.ticks[1] - self.ticks[0]),
        };
        for &tick in &self.ticks {
            let y = plot.height_of(self.scaled(tick));
            plot.canvas.add(line((left, y), (right, y), GRID_COLOUR, 1));
            plot.canvas.add(text(&shown(tick, digits_of(tick)), (left - 8.0, y + 3.5), SMALL_FONT, "end"));
        }
        plot.canvas.add(line((left, top), (left, bottom), AXIS, 1));
        plot.canvas.add(line((left, bottom), (right, bottom), AXIS, 1));
        if !self.labels.y.is_empty() {
            let middle = f64::midpoint(top, bottom);
            let upwards = format!("rotate(-90 12 {})", round(middle));
            plot.canvas
                .add(text(&self.labels.y, (12.0, middle), SMALL_FONT, "middle").set("transform", upwards));
        }
        if !self.labels.x.is_empty() {
            let place = (f64::midpoint(left, right), HEIGHT - 6.0);
            plot.canvas.add(text(&self.labels.x, place, SMALL_FONT, "middle"));
        }
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
pub struct Plot<'a> {
    canvas: Canvas,
    frame: &'a Frame<'a>,
    /// Places of the lowest and the highest tick on the y axis.
    ends: (f64, f64),
    top: f64,
    bottom: f64,
}

impl Plot<'_> {
    fn x(&self, category: f64) -> f64 {
        LEFT_MARGIN + (category + 0.5) * place(self.frame.categories.len())
    }

    /// Where a place on the y axis is.
    fn height_of(&self, scaled: f64) -> f64 {
        let (low, high) = self.ends;
        let share = ((scaled - low) / (high - low)).clamp(0.0, 1.0);
        self.bottom - share * (self.bottom - self.top)
    }

    fn y(&self, value: f64) -> f64 {
        self.height_of(self.frame.scaled(value))
    }

    /// From the axis to the value.
    pub fn bar(&mut self, left: f64, right: f64, value: f64, colour: &'static str) {
        let base = if self.frame.labels.log { self.bottom } else { self.y(0.0) };
        let bar = rectangle((self.x(left), base), (self.x(right), self.y(value)), colour);
        self.canvas.add(bar);
    }

    /// From the smallest to the largest value, in the middle of a bar of this width.
    pub fn whisker(&mut self, x: f64, wide: f64, low: f64, high: f64) {
        let (low, high) = (self.y(low), self.y(high));
        let [middle, left, right] = [x, x - wide * 0.12, x + wide * 0.12].map(|x| self.x(x));
        for (from, to) in
            [((middle, low), (middle, high)), ((left, low), (right, low)), ((left, high), (right, high))]
        {
            self.canvas.add(line(from, to, INK, 1));
        }
    }

    /// A number above a bar of this width, if it is no wider.
    pub fn number(&mut self, x: f64, wide: f64, value: f64, number: &str) {
        if pixels(number) * 0.9 <= place(self.frame.categories.len()) * wide {
            let above = (self.x(x), self.y(value.max(0.0)) - 4.0);
            self.canvas.add(text(number, above, TINY_FONT, "middle"));
        }
    }

    /// Points joined where they stand side by side. One between gaps is a dot.
    pub fn line(&mut self, values: &[Option<f64>], colour: &'static str, dashed: bool, markers: bool) {
        let points: Vec<Option<Pixels>> = values
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let value = value.filter(|value| value.is_finite())?;
                Some((self.x(real(at)), self.y(value)))
            })
            .collect();
        for run in points.split(Option::is_none).filter(|run| !run.is_empty()) {
            let run: Vec<Pixels> = run.iter().flatten().copied().collect();
            let corners: Vec<String> =
                run.iter().map(|(x, y)| format!("{},{}", round(*x), round(*y))).collect();
            let drawn = Polyline::new().set("points", corners.join(" ")).set("fill", "none");
            let drawn = drawn.set("stroke", colour).set("stroke-width", 2);
            self.canvas.add(if dashed { drawn.set("stroke-dasharray", "6 4") } else { drawn });
            if markers || run.len() == 1 {
                for (x, y) in run {
                    let dot = Circle::new().set("cx", round(x)).set("cy", round(y)).set("r", 3);
                    self.canvas.add(dot.set("fill", colour));
                }
            }
        }
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
