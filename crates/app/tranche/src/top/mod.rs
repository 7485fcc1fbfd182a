//! `tranche top`: what a drive does, interval by interval, as far as its logs tell.

pub mod sample;
mod screen;

use crate::args::Top;
use crate::connect::{Connected, connect};
use crate::options::Output;
use crate::signals::asked_by;
use crate::{print_json_line, print_text};
use anyhow::Result;
use lab_report::terminal::{self, Look};
use nvme::identify::ascii_text;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use sample::{Logs, Rates, Sample};
use screen::Screen;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Intervals that `+` and `-` choose among.
const INTERVALS: [Duration; 6] = [
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Runs it.
pub fn top(options: &Top, output: Output) -> Result<()> {
    let mut host = connect(&options.target)?;
    let logs = Logs::of(&mut host);
    let interval = Duration::from_nanos(options.interval).max(Duration::from_millis(10));
    let is_screen = output == Output::Text && options.count.is_none() && stdout().is_terminal();
    let model = ascii_text(&host.controller().mn).trim().to_owned();
    let serial = ascii_text(&host.controller().sn).trim().to_owned();
    let mut watched = Watched { host, logs, before: None };
    match is_screen {
        true => on_screen(&mut watched, format!("{model} ({serial})"), interval),
        false => in_lines(&mut watched, options.count, interval, output),
    }
}

/// A drive that is watched.
struct Watched {
    host: Connected,
    logs: Logs,
    before: Option<Sample>,
}

impl Watched {
    /// What happened since the last time, if there was one.
    fn next(&mut self) -> Result<Option<Rates>> {
        let after = Sample::take(&mut self.host, &self.logs)?;
        let rates = self.before.as_ref().map(|before| Rates::between(before, &after));
        self.before = Some(after);
        Ok(rates)
    }
}

/// Waits, unless the user ends it. Whether to go on.
fn wait(time: Duration, ended: &AtomicBool) -> bool {
    let until = Instant::now() + time;
    while !ended.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

/// A table or a line of JSON for each interval.
fn in_lines(watched: &mut Watched, count: Option<u64>, interval: Duration, output: Output) -> Result<()> {
    let ended = asked_by(&[SIGINT, SIGTERM])?;
    let mut left = count.unwrap_or(u64::MAX);
    watched.next()?;
    while left > 0 && wait(interval, &ended) {
        let Some(rates) = watched.next()? else { continue };
        match output {
            Output::Json => print_json_line(&rates)?,
            Output::Text => print_text(&text(&rates))?,
        }
        left -= 1;
    }
    Ok(())
}

fn text(rates: &Rates) -> String {
    let all = rates.namespaces.iter().flatten().map(|it| screen::row(it).to_vec());
    let rows: Vec<Vec<String>> = all.collect();
    let head = screen::HEAD.map(str::to_owned);
    let table = match rows.is_empty() {
        true => String::new(),
        false => {
            format!("\n{}", terminal::table(Look { text: 0, ..Look::default() }, &head, &rows).trim_end())
        }
    };
    format!("{}{table}\n", screen::summary(rates))
}

/// What a key asks for.
enum Wish {
    Quit,
    Sort,
    Pause,
    Slower,
    Faster,
    Nothing,
}

fn wish(key: &KeyEvent) -> Wish {
    if key.kind != KeyEventKind::Press {
        return Wish::Nothing;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Wish::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Wish::Quit,
        KeyCode::Char('s') => Wish::Sort,
        KeyCode::Char('p' | ' ') => Wish::Pause,
        KeyCode::Char('+') => Wish::Slower,
        KeyCode::Char('-') => Wish::Faster,
        _ => Wish::Nothing,
    }
}

/// The whole terminal, until the user quits.
fn on_screen(watched: &mut Watched, drive: String, interval: Duration) -> Result<()> {
    let ended = asked_by(&[SIGINT, SIGTERM])?;
    let mut terminal = ratatui::try_init()?;
    let result = show(&mut terminal, watched, drive, interval, &ended);
    ratatui::restore();
    result
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    watched: &mut Watched,
    drive: String,
    mut interval: Duration,
    ended: &Arc<AtomicBool>,
) -> Result<()> {
    let mut screen = Screen::new(drive);
    let mut due = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if Instant::now() >= due {
            due = Instant::now() + interval;
            match watched.next() {
                Ok(Some(rates)) if !screen.paused => screen.add(rates),
                Ok(_) => {}
                Err(error) => screen.trouble = Some(format!("{error:#}")),
            }
        }
        terminal.draw(|frame| screen.draw(frame))?;
        let left = due.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
        if !event::poll(left)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        match wish(&key) {
            Wish::Quit => break,
            Wish::Sort => screen.order = screen.order.next(),
            Wish::Pause => screen.paused = !screen.paused,
            Wish::Slower => interval = INTERVALS.into_iter().find(|it| *it > interval).unwrap_or(interval),
            Wish::Faster => interval = INTERVALS.into_iter().rfind(|it| *it < interval).unwrap_or(interval),
            Wish::Nothing => {}
        }
    }
    Ok(())
}
