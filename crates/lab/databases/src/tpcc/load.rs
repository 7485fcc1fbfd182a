//! The initial population (clause 4.3.3), streamed by `LOAD DATA LOCAL` or `COPY`.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context, Result, anyhow};

use super::{
    connection::Connection,
    database::Database,
    random::{LOAD_LAST_NAME, Rng, last_name},
    schema::{CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ITEMS, TABLES, Table},
};
use lab_report::control::Cancel;

/// All rows are dated alike, so that the same seed loads the same bytes.
const LOAD_DATE: &str = "2026-01-01 00:00:00";

/// Rows that [`load`] inserts for this many warehouses, about: the lines per order are random.
pub fn rows(warehouses: u32) -> u64 {
    let per_district =
        u64::from(CUSTOMERS) * 3 + u64::from(CUSTOMERS - FIRST_NEW_ORDER + 1) + u64::from(CUSTOMERS) * 10;
    u64::from(ITEMS)
        + u64::from(warehouses) * (1 + u64::from(DISTRICTS) * (1 + per_district) + u64::from(ITEMS))
}

/// Creates database `tpcc` anew and fills it. `progress` counts the rows sent.
///
/// # Errors
/// When the server refuses a statement or goes away, or when it is cancelled.
pub fn load(
    database: &Database,
    warehouses: u32,
    seed: u64,
    progress: &Arc<AtomicU64>,
    cancel: &Cancel,
) -> Result<()> {
    database.create()?;
    // Two streams keep generator and server busy; each table is one statement, hence one transaction on an empty table,
    // which the server fills in bulk.
    let queue = Mutex::new(TABLES.iter().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    let mut connection = database.connect()?;
                    loop {
                        cancel.check()?;
                        // The largest table is last in the list and goes first.
                        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                        let Some(table) = next else { return Ok(()) };
                        load_table(&mut *connection, table, warehouses, seed, progress, cancel)
                            .with_context(|| format!("loading the TPC-C table {}", table.name))?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| anyhow!("a loader thread panicked"))?)
    })?;
    database.settle()
}

fn load_table(
    connection: &mut dyn Connection,
    table: &'static Table,
    warehouses: u32,
    seed: u64,
    progress: &Arc<AtomicU64>,
    cancel: &Cancel,
) -> Result<()> {
    let (progress, cancel) = (Arc::clone(progress), cancel.clone());
    let rows = Box::new(move |out: &mut dyn Write| {
        let mut sink =
            Sink { out, buffer: Vec::with_capacity(1 << 17), rows: 0, progress: &progress, cancel: &cancel };
        generate(table.name, warehouses, seed, &mut sink)?;
        sink.flush()
    });
    Ok(connection.fill(table.name, &columns(table), rows)?)
}

/// The columns that rows carry: all but the key of the history table.
fn columns(table: &Table) -> String {
    // What follows the columns are keys; a comma within a type leaves no name behind.
    let columns = table.columns.split("PRIMARY KEY").next().unwrap_or_default();
    let names = columns.split(',').filter_map(|column| column.split_whitespace().next());
    let own = |name: &&str| {
        name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    names.filter(own).filter(|name| *name != "h_id").collect::<Vec<_>>().join(",")
}

/// Collects rows and sends them in large pieces.
struct Sink<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    rows: u64,
    progress: &'a AtomicU64,
    cancel: &'a Cancel,
}

impl Sink<'_> {
    fn row(&mut self, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
        write(&mut self.buffer)?;
        self.buffer.push(b'\n');
        self.rows += 1;
        if self.buffer.len() > 1 << 16 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.cancel.check().map_err(io::Error::other)?;
        self.out.write_all(&self.buffer)?;
        self.progress.fetch_add(std::mem::take(&mut self.rows), Ordering::Relaxed);
        self.buffer.clear();
        Ok(())
    }
}

/// A stream of its own for each table and district, so that tables that must agree (orders and their lines) can be
/// generated apart.
fn stream(seed: u64, table: u64, warehouse: u32, district: u32) -> Rng {
    Rng::new(seed, (table << 48) | (u64::from(warehouse) << 8) | u64::from(district))
}

/// Number of the stream of orders and their lines.
const ORDERS: u64 = 1;

fn generate(table: &str, warehouses: u32, seed: u64, sink: &mut Sink<'_>) -> io::Result<()> {
    let each_warehouse = |sink: &mut Sink<'_>, f: &dyn Fn(u32, &mut Sink<'_>) -> io::Result<()>| {
        (1..=warehouses).try_for_each(|w| f(w, sink))
    };
    let each_district = |sink: &mut Sink<'_>, f: &dyn Fn(u32, u32, &mut Sink<'_>) -> io::Result<()>| {
        (1..=warehouses).try_for_each(|w| (1..=DISTRICTS).try_for_each(|d| f(w, d, sink)))
    };
    match table {
        "item" => items(&mut stream(seed, 2, 0, 0), sink),
        "warehouse" => each_warehouse(sink, &|w, sink| warehouse(&mut stream(seed, 3, w, 0), w, sink)),
        "district" => each_district(sink, &|w, d, sink| district(&mut stream(seed, 4, w, d), w, d, sink)),
        "customer" => each_district(sink, &|w, d, sink| customers(&mut stream(seed, 5, w, d), w, d, sink)),
        "history" => each_district(sink, &|w, d, sink| history(&mut stream(seed, 6, w, d), w, d, sink)),
        "stock" => each_warehouse(sink, &|w, sink| stock(&mut stream(seed, 7, w, 0), w, sink)),
        "orders" => each_district(sink, &|w, d, sink| orders(&mut stream(seed, ORDERS, w, d), w, d, sink)),
        "order_line" => each_district(sink, &|w, d, sink| order_lines(seed, w, d, sink)),
        "new_orders" => each_district(sink, &|w, d, sink| {
            (FIRST_NEW_ORDER..=CUSTOMERS).try_for_each(|o| sink.row(|row| write!(row, "{w}\t{d}\t{o}")))
        }),
        other => Err(io::Error::other(format!("no generator for table {other}"))),
    }
}

fn tab(row: &mut Vec<u8>) {
    row.push(b'\t');
}

/// Hundredths as a decimal number.
fn cents(row: &mut Vec<u8>, cents: u32) -> io::Result<()> {
    write!(row, "\t{}.{:02}", cents / 100, cents % 100)
}

/// Street, street, city, state and zip code, each after a tab.
fn address(rng: &mut Rng, row: &mut Vec<u8>) {
    for (low, high) in [(10, 20), (10, 20), (10, 20), (2, 2)] {
        tab(row);
        rng.text(row, low, high);
    }
    tab(row);
    rng.digits(row, 4, 4);
    row.extend_from_slice(b"11111");
}

fn items(rng: &mut Rng, sink: &mut Sink<'_>) -> io::Result<()> {
    (1..=ITEMS).try_for_each(|i| {
        sink.row(|row| {
            write!(row, "{i}\t{}\t", rng.uniform(1, 10_000))?;
            rng.text(row, 14, 24);
            cents(row, rng.uniform(100, 10_000))?;
            tab(row);
            rng.data(row);
            Ok(())
        })
    })
}

fn warehouse(rng: &mut Rng, w: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    sink.row(|row| {
        write!(row, "{w}\t")?;
        rng.text(row, 6, 10);
        address(rng, row);
        write!(row, "\t0.{:04}\t300000.00", rng.uniform(0, 2_000))
    })
}

fn district(rng: &mut Rng, w: u32, d: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    sink.row(|row| {
        write!(row, "{w}\t{d}\t")?;
        rng.text(row, 6, 10);
        address(rng, row);
        write!(row, "\t0.{:04}\t30000.00\t{}", rng.uniform(0, 2_000), CUSTOMERS + 1)
    })
}

fn customers(rng: &mut Rng, w: u32, d: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    (1..=CUSTOMERS).try_for_each(|c| {
        sink.row(|row| {
            write!(row, "{w}\t{d}\t{c}\t")?;
            rng.text(row, 8, 16);
            let name = if c <= 1_000 { c - 1 } else { rng.nurand(255, LOAD_LAST_NAME, 0, 999) };
            write!(row, "\tOE\t{}", last_name(name))?;
            address(rng, row);
            tab(row);
            rng.digits(row, 16, 16);
            let credit = if rng.percent(10) { "BC" } else { "GC" };
            write!(row, "\t{LOAD_DATE}\t{credit}\t50000.00\t0.{:04}", rng.uniform(0, 5_000))?;
            row.extend_from_slice(b"\t-10.00\t10.00\t1\t0\t");
            rng.text(row, 300, 500);
            Ok(())
        })
    })
}

fn history(rng: &mut Rng, w: u32, d: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    (1..=CUSTOMERS).try_for_each(|c| {
        sink.row(|row| {
            write!(row, "{c}\t{d}\t{w}\t{d}\t{w}\t{LOAD_DATE}\t10.00\t")?;
            rng.text(row, 12, 24);
            Ok(())
        })
    })
}

fn stock(rng: &mut Rng, w: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    (1..=ITEMS).try_for_each(|i| {
        sink.row(|row| {
            write!(row, "{w}\t{i}\t{}", rng.uniform(10, 100))?;
            for _ in 0..DISTRICTS {
                tab(row);
                rng.text(row, 24, 24);
            }
            row.extend_from_slice(b"\t0\t0\t0\t");
            rng.data(row);
            Ok(())
        })
    })
}

/// Lines of an order; drawn first in the stream of orders, so that [`order_lines`] can draw the same.
fn lines_of_order(rng: &mut Rng) -> u32 {
    rng.uniform(5, 15)
}

fn orders(rng: &mut Rng, w: u32, d: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    let lines: Vec<u32> = (0..CUSTOMERS).map(|_| lines_of_order(rng)).collect();
    let customers = rng.permutation(CUSTOMERS);
    (1..=CUSTOMERS).zip(lines).zip(customers).try_for_each(|((o, lines), c)| {
        sink.row(|row| {
            write!(row, "{w}\t{d}\t{o}\t{c}\t{LOAD_DATE}\t")?;
            if o < FIRST_NEW_ORDER {
                write!(row, "{}", rng.uniform(1, 10))?;
            } else {
                row.extend_from_slice(b"\\N");
            }
            write!(row, "\t{lines}\t1")
        })
    })
}

fn order_lines(seed: u64, w: u32, d: u32, sink: &mut Sink<'_>) -> io::Result<()> {
    let mut counts = stream(seed, ORDERS, w, d);
    let mut rng = stream(seed, 8, w, d);
    for o in 1..=CUSTOMERS {
        for line in 1..=lines_of_order(&mut counts) {
            let delivered = o < FIRST_NEW_ORDER;
            sink.row(|row| {
                write!(row, "{w}\t{d}\t{o}\t{line}\t{}\t{w}\t", rng.uniform(1, ITEMS))?;
                row.extend_from_slice(if delivered { LOAD_DATE.as_bytes() } else { b"\\N" });
                row.extend_from_slice(b"\t5");
                cents(row, if delivered { 0 } else { rng.uniform(1, 999_999) })?;
                tab(row);
                rng.text(row, 24, 24);
                Ok(())
            })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> Vec<String> {
        let (progress, cancel) = (AtomicU64::new(0), Cancel::default());
        let mut out = Vec::new();
        let mut sink =
            Sink { out: &mut out, buffer: Vec::new(), rows: 0, progress: &progress, cancel: &cancel };
        generate(name, 1, 42, &mut sink).unwrap();
        sink.flush().unwrap();
        let lines: Vec<String> = String::from_utf8(out).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(progress.load(Ordering::Relaxed), lines.len() as u64);
        lines
    }

    #[test]
    fn every_definitionhas_a_row_for_each_column() {
        let expected = [1, 10, 30_000, 30_000, 30_000, 9_000, 100_000];
        for (name, rows) in ["warehouse", "district", "customer", "history", "orders", "new_orders", "stock"]
            .into_iter()
            .zip(expected)
        {
            let definition = TABLES.iter().find(|table| table.name == name).unwrap();
            let mut fields =
                definition.columns.matches("NULL").count() + definition.columns.matches("TINYINT,").count();
            if name == "history" {
                fields -= 1;
            }
            assert_eq!(columns(definition).split(',').count(), fields, "{}", columns(definition));
            let lines = table(name);
            assert_eq!(lines.len(), rows, "{name}");
            assert!(lines.iter().all(|l| l.split('\t').count() == fields), "{name}: {}", lines[0]);
        }
    }

    #[test]
    fn orders_and_their_lines_agree() {
        let orders = table("orders");
        let lines = table("order_line");
        let sum: usize = orders.iter().map(|o| o.split('\t').nth(6).unwrap().parse::<usize>().unwrap()).sum();
        assert_eq!(sum, lines.len());
        let estimate = rows(1) as usize - 100_000;
        let exact = 1 + 10 + 3 * 30_000 + 9_000 + 100_000 + lines.len();
        assert!(estimate.abs_diff(exact) < exact / 100, "{estimate} {exact}");
    }
}
