//! The screen of `tranche top`, drawn from what happened.

use super::sample::{Namespace, Rates, Traffic};
use lab_report::figure::show;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};

/// Intervals that the lines go back.
const HISTORY: usize = 240;

/// By what namespaces are sorted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Nsid,
    Read,
    Written,
    Latency,
}

impl Order {
    /// The next one.
    pub fn next(self) -> Self {
        match self {
            Order::Nsid => Order::Read,
            Order::Read => Order::Written,
            Order::Written => Order::Latency,
            Order::Latency => Order::Nsid,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Order::Nsid => "NSID",
            Order::Read => "bytes read",
            Order::Written => "bytes written",
            Order::Latency => "p99 of reads",
        }
    }
}

/// What the screen shows.
pub struct Screen {
    /// The drive in words.
    pub drive: String,
    /// By what namespaces are sorted.
    pub order: Order,
    /// Nothing new is shown meanwhile.
    pub paused: bool,
    /// The last interval.
    pub rates: Option<Rates>,
    /// Why there is nothing new.
    pub trouble: Option<String>,
    read: Vec<u64>,
    written: Vec<u64>,
}

/// A rate of bytes.
pub fn bytes(rate: f64) -> String {
    format!("{} MB/s", show(rate / 1e6))
}

/// A latency.
pub fn latency(nanos: Option<u64>) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    nanos.map_or_else(|| "-".to_owned(), |nanos| format!("{} us", show(nanos as f64 / 1e3)))
}

/// A factor.
pub fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

/// The columns of a namespace.
pub const HEAD: [&str; 11] =
    ["NSID", "set", "read", "reads/s", "p50", "p99", "written", "writes/s", "p99", "write amp.", "held back"];

/// A namespace in words.
pub fn row(it: &Namespace) -> [String; 11] {
    [
        it.nsid.to_string(),
        it.nvm_set.to_string(),
        bytes(it.read.bytes_per_second),
        show(it.read.iops),
        latency(it.read.p50_ns),
        latency(it.read.p99_ns),
        bytes(it.write.bytes_per_second),
        show(it.write.iops),
        latency(it.write.p99_ns),
        factor(it.write_amplification),
        format!("{} s/s", show(it.held_back)),
    ]
}

/// The drive in words.
pub fn summary(rates: &Rates) -> String {
    let of = |traffic: &Traffic| format!("{}, {} IOPS", bytes(traffic.bytes_per_second), show(traffic.iops));
    let warning = match rates.critical_warning {
        0 => String::new(),
        bits => format!("   CRITICAL WARNING {bits:#04x}"),
    };
    format!(
        "read {}   written {}   write amplification {}   {} C   spare {} %   used {} %{warning}",
        of(&rates.read),
        of(&rates.write),
        factor(rates.write_amplification),
        i32::from(rates.temperature_k) - 273,
        rates.spare_percent,
        rates.used_percent
    )
}

impl Screen {
    /// Nothing is known yet.
    pub fn new(drive: String) -> Self {
        Self {
            drive,
            order: Order::Nsid,
            paused: false,
            rates: None,
            trouble: None,
            read: Vec::new(),
            written: Vec::new(),
        }
    }

    /// An interval has passed.
    pub fn add(&mut self, rates: Rates) {
        let push = |history: &mut Vec<u64>, traffic: &Traffic| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "for reading")]
            history.push((traffic.bytes_per_second / 1e3) as u64);
            let beyond = history.len().saturating_sub(HISTORY);
            history.drain(..beyond);
        };
        push(&mut self.read, &rates.read);
        push(&mut self.written, &rates.write);
        (self.rates, self.trouble) = (Some(rates), None);
    }

    /// Namespaces in order.
    fn namespaces(&self) -> Option<Vec<&Namespace>> {
        let mut all: Vec<&Namespace> = self.rates.as_ref()?.namespaces.as_ref()?.iter().collect();
        match self.order {
            Order::Nsid => all.sort_by_key(|it| it.nsid),
            Order::Read => all.sort_by(|a, b| b.read.bytes_per_second.total_cmp(&a.read.bytes_per_second)),
            Order::Written => {
                all.sort_by(|a, b| b.write.bytes_per_second.total_cmp(&a.write.bytes_per_second));
            }
            Order::Latency => all.sort_by_key(|it| std::cmp::Reverse(it.read.p99_ns)),
        }
        Some(all)
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let [head, lines, table, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Length(5),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let about = match (&self.trouble, &self.rates) {
            (Some(trouble), _) => trouble.clone(),
            (None, Some(rates)) => summary(rates),
            (None, None) => "waiting for the first interval".to_owned(),
        };
        let title = Line::from(format!("tranche top: {}", self.drive));
        frame.render_widget(Paragraph::new(about).block(Block::bordered().title(title)), head);
        let [read, written] =
            Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]).areas(lines);
        history(frame, read, "read", &self.read);
        history(frame, written, "written", &self.written);
        match self.namespaces() {
            Some(all) => {
                let bold = Style::new().add_modifier(Modifier::BOLD);
                let rows = all.iter().map(|it| Row::new(row(it).map(Cell::from)));
                let widths = [5, 4, 13, 10, 10, 10, 13, 10, 10, 10, 12].map(Constraint::Length);
                let names = Block::bordered().title(format!("namespaces by {}", self.order.words()));
                let table_of =
                    Table::new(rows, widths).header(Row::new(HEAD.map(Cell::from)).style(bold)).block(names);
                frame.render_widget(table_of, table);
            }
            None => {
                let why = "This drive does not count by namespace: it has no log D8h. What its SMART log says is above.";
                frame.render_widget(Paragraph::new(why).block(Block::bordered()), table);
            }
        }
        let paused = if self.paused { "   PAUSED" } else { "" };
        frame
            .render_widget(Paragraph::new(format!("q quit   s sort   p pause   + - interval{paused}")), foot);
    }
}

/// A line of the last intervals, of which the newest is on the right.
fn history(frame: &mut Frame<'_>, area: Rect, title: &str, values: &[u64]) {
    let width = usize::from(area.width.saturating_sub(2));
    let from = values.len().saturating_sub(width);
    let most = values[from..].iter().copied().max().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let title = format!("{title}, up to {}", bytes(most as f64 * 1e3));
    let line =
        Sparkline::default().data(&values[from..]).max(most.max(1)).block(Block::bordered().title(title));
    frame.render_widget(line, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn namespace(nsid: u32, read: f64) -> Namespace {
        let traffic = |rate| Traffic {
            bytes_per_second: rate,
            iops: rate / 4096.0,
            p50_ns: Some(80_000),
            p99_ns: Some(120_000),
        };
        Namespace {
            nsid,
            nvm_set: 1,
            read: traffic(read),
            write: traffic(1e6),
            write_amplification: Some(1.5),
            held_back: 0.0,
            failed: 0.0,
        }
    }

    fn rates(namespaces: Option<Vec<Namespace>>) -> Rates {
        Rates {
            seconds: 1.0,
            read: Traffic { bytes_per_second: 5e8, iops: 122_070.0, ..Traffic::default() },
            write: Traffic { bytes_per_second: 2e6, iops: 488.0, ..Traffic::default() },
            write_amplification: Some(1.5),
            temperature_k: 310,
            spare_percent: 100,
            used_percent: 3,
            critical_warning: 0,
            namespaces,
        }
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let lines = buffer.content.chunks(usize::from(width));
        lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>() + "\n").collect()
    }

    #[test]
    fn it_shows_the_drive_and_its_namespaces_in_order() {
        let mut screen = Screen::new("a drive".into());
        assert!(drawn(&screen, 120, 20).contains("waiting for the first interval"));
        screen.add(rates(Some(vec![namespace(1, 1e8), namespace(2, 4e8)])));
        let text = drawn(&screen, 130, 20);
        for word in
            ["a drive", "500 MB/s", "37 C", "write amplification 1.50", "120 us", "namespaces by NSID"]
        {
            assert!(text.contains(word), "{word}:\n{text}");
        }
        let place = |text: &str, rate: &str| text.find(rate).unwrap();
        assert!(place(&text, "100 MB/s") < place(&text, "400 MB/s"), "{text}");
        screen.order = screen.order.next();
        let text = drawn(&screen, 130, 20);
        let table = &text[text.find("namespaces by bytes read").unwrap()..];
        assert!(place(table, "400 MB/s") < place(table, "100 MB/s"), "{text}");
        screen.trouble = Some("the drive is gone".into());
        assert!(drawn(&screen, 130, 20).contains("the drive is gone"));
    }

    #[test]
    fn any_size_and_any_drive_will_do() {
        let mut screen = Screen::new("another drive".into());
        screen.add(Rates { critical_warning: 1, write_amplification: None, ..rates(None) });
        let text = drawn(&screen, 150, 20);
        assert!(text.contains("no log D8h") && text.contains("CRITICAL WARNING 0x01"), "{text}");
        for size in 1..30 {
            drawn(&screen, size * 4, size);
        }
        for _ in 0..2 * HISTORY {
            screen.add(rates(None));
        }
        assert_eq!(screen.read.len(), HISTORY);
    }
}
