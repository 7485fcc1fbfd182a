//! The five transactions (clause 2), each as prepared statements on one connection.
//!
//! The load should wait for the drive, and not for row locks or for the driver's share of the processor. So statements that touch
//! several rows of one kind are sent as one where SQL allows it. The rows that every terminal wants (district, warehouse)
//! are locked last.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use database_models::innodb::TransactionKind;

use super::{
    connection::{Connection, Error, Result, Value},
    random::{Constants, Rng, last_name},
    schema::{CUSTOMERS, DISTRICTS, ITEMS},
};

/// Percent of all transactions (clause 5.2.3, with the freedom above the minima given to new orders).
fn share(kind: TransactionKind) -> usize {
    match kind {
        TransactionKind::NewOrder => 45,
        TransactionKind::Payment => 43,
        TransactionKind::OrderStatus | TransactionKind::Delivery | TransactionKind::StockLevel => 4,
    }
}

/// A shuffled deck of 100 cards (clause 5.2.4.2), dealt again when it is used up.
#[derive(Debug)]
pub struct Deck {
    cards: Vec<TransactionKind>,
    next: usize,
}

impl Deck {
    /// A deck that will be shuffled before its first card.
    pub fn new() -> Self {
        let cards: Vec<TransactionKind> = TransactionKind::ALL
            .into_iter()
            .flat_map(|kind| std::iter::repeat_n(kind, share(kind)))
            .collect();
        Self { next: cards.len(), cards }
    }

    /// The next transaction to run.
    pub fn draw(&mut self, rng: &mut Rng) -> TransactionKind {
        if self.next == self.cards.len() {
            let order = rng.permutation(u32::try_from(self.cards.len()).unwrap_or(0));
            self.cards = order.iter().map(|&i| self.cards[usize::try_from(i - 1).unwrap_or(0)]).collect();
            self.next = 0;
        }
        self.next += 1;
        self.cards[self.next - 1]
    }
}

impl Default for Deck {
    fn default() -> Self {
        Self::new()
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug)]
pub struct TransactionEnd {
    /// False for the 1% of new orders that end in a rollback by specification (clause 2.4.1.4); they count all the same.
    pub committed: bool,
    /// Time from sending COMMIT (or ROLLBACK) to its answer.
    pub commit: Duration,
}

/// One connection with its prepared statements, random numbers and data.
pub struct Terminal {
    connection: Box<dyn Connection>,
    rng: Rng,
    constants: Constants,
    warehouses: u32,
    sql: Fixed,
    /// Statements whose text depends on the number of rows.
    varying: BTreeMap<(Varying, usize), usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Varying {
    Items,
    Stock(u32),
    OrderLines,
}

macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        struct Fixed { $($name: usize,)* }
        impl Fixed {
            fn prepare(connection: &mut dyn Connection) -> Result<Self> {
                Ok(Self { $($name: connection.prepare($sql)?,)* })
            }
        }
    };
}

statements! {
    customer_and_tax: "SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse \
        WHERE w_id=? AND c_w_id=w_id AND c_d_id=? AND c_id=?";
    district_next: "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id=? AND d_id=? FOR UPDATE";
    district_advance: "UPDATE district SET d_next_o_id=d_next_o_id+1 WHERE d_w_id=? AND d_id=?";
    insert_order: "INSERT INTO orders (o_w_id,o_d_id,o_id,o_c_id,o_entry_d,o_ol_cnt,o_all_local) VALUES (?,?,?,?,NOW(),?,?)";
    insert_new_order: "INSERT INTO new_orders (no_w_id,no_d_id,no_o_id) VALUES (?,?,?)";
    update_stock: "UPDATE stock SET s_quantity=?, s_ytd=s_ytd+?, s_order_cnt=s_order_cnt+1, s_remote_cnt=s_remote_cnt+? \
        WHERE s_w_id=? AND s_i_id=?";
    customers_by_name: "SELECT c_id FROM customer WHERE c_w_id=? AND c_d_id=? AND c_last=? ORDER BY c_first";
    customer_for_payment: "SELECT c_first,c_middle,c_last,c_street_1,c_street_2,c_city,c_state,c_zip,c_phone,c_credit,\
        c_credit_lim,c_discount,c_balance,c_since FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=? FOR UPDATE";
    customer_data: "SELECT c_data FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    pay_customer: "UPDATE customer SET c_balance=c_balance-?/100.0, c_ytd_payment=c_ytd_payment+?/100.0, \
        c_payment_cnt=c_payment_cnt+1 WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    pay_customer_data: "UPDATE customer SET c_balance=c_balance-?/100.0, c_ytd_payment=c_ytd_payment+?/100.0, \
        c_payment_cnt=c_payment_cnt+1, c_data=? WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    pay_district: "UPDATE district SET d_ytd=d_ytd+?/100.0 WHERE d_w_id=? AND d_id=?";
    pay_warehouse: "UPDATE warehouse SET w_ytd=w_ytd+?/100.0 WHERE w_id=?";
    district_address: "SELECT d_name,d_street_1,d_street_2,d_city,d_state,d_zip FROM district WHERE d_w_id=? AND d_id=?";
    warehouse_address: "SELECT w_name,w_street_1,w_street_2,w_city,w_state,w_zip FROM warehouse WHERE w_id=?";
    insert_history: "INSERT INTO history (h_c_id,h_c_d_id,h_c_w_id,h_d_id,h_w_id,h_date,h_amount,h_data) \
        VALUES (?,?,?,?,?,NOW(),?/100.0,?)";
    customer_status: "SELECT c_balance,c_first,c_middle,c_last FROM customer WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    last_order: "SELECT o_id,o_entry_d,o_carrier_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_c_id=? \
        ORDER BY o_id DESC LIMIT 1";
    lines_of_order: "SELECT ol_i_id,ol_supply_w_id,ol_quantity,ol_amount,ol_delivery_d FROM order_line \
        WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
    oldest_new_order: "SELECT no_o_id FROM new_orders WHERE no_w_id=? AND no_d_id=? ORDER BY no_o_id LIMIT 1 FOR UPDATE";
    delete_new_order: "DELETE FROM new_orders WHERE no_w_id=? AND no_d_id=? AND no_o_id=?";
    customer_of_order: "SELECT o_c_id FROM orders WHERE o_w_id=? AND o_d_id=? AND o_id=?";
    set_carrier: "UPDATE orders SET o_carrier_id=? WHERE o_w_id=? AND o_d_id=? AND o_id=?";
    deliver_lines: "UPDATE order_line SET ol_delivery_d=NOW() WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
    sum_of_lines: "SELECT CAST(SUM(ol_amount) AS CHAR(20)) FROM order_line WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id=?";
    deliver_customer: "UPDATE customer SET c_balance=c_balance+CAST(? AS DECIMAL(12,2)), c_delivery_cnt=c_delivery_cnt+1 \
        WHERE c_w_id=? AND c_d_id=? AND c_id=?";
    next_order: "SELECT d_next_o_id FROM district WHERE d_w_id=? AND d_id=?";
    low_stock: "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id=? AND ol_d_id=? AND ol_o_id>=? \
        AND ol_o_id<? AND s_w_id=? AND s_i_id=ol_i_id AND s_quantity<?";
}

/// The column of `customer_for_payment` that says how good a customer's credit is.
const CREDIT: usize = 9;

/// Values for a statement.
macro_rules! values {
    ($($value:expr),*) => { [$(Value::from($value)),*] };
}

struct Line {
    item: u32,
    supply: u32,
    quantity: u32,
    price: f64,
    dist_info: Value,
}

/// A customer as the input screens name one (clauses 2.5.1.2 and 2.6.1.2).
enum Customer {
    Number(u32),
    Name(String),
}

impl Terminal {
    /// Prepares a connection to database `tpcc` for the load.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn new(
        mut connection: Box<dyn Connection>,
        rng: Rng,
        constants: Constants,
        warehouses: u32,
    ) -> Result<Self> {
        let sql = Fixed::prepare(&mut *connection)?;
        Ok(Self { connection, rng, constants, warehouses, sql, varying: BTreeMap::new() })
    }

    /// The random numbers of this terminal.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Runs one transaction to its end.
    ///
    /// # Errors
    /// Those of the server. After an error of the server (a deadlock, say) the transaction must be rolled back with
    /// [`Terminal::rollback`] before the next.
    pub fn run(&mut self, kind: TransactionKind) -> Result<TransactionEnd> {
        let warehouse = self.rng.uniform(1, self.warehouses);
        self.connection.begin()?;
        match kind {
            TransactionKind::NewOrder => self.new_order(warehouse),
            TransactionKind::Payment => self.payment(warehouse),
            TransactionKind::OrderStatus => self.order_status(warehouse),
            TransactionKind::Delivery => self.delivery(warehouse),
            TransactionKind::StockLevel => self.stock_level(warehouse),
        }
    }

    /// Ends the open transaction without effect.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn rollback(&mut self) -> Result<()> {
        self.connection.end(false)
    }

    fn end(&mut self, committed: bool) -> Result<TransactionEnd> {
        let start = Instant::now();
        self.connection.end(committed)?;
        Ok(TransactionEnd { committed, commit: start.elapsed() })
    }

    fn customer_number(&mut self) -> u32 {
        self.rng.nurand(1_023, self.constants.customer, 1, CUSTOMERS)
    }

    fn customer(&mut self) -> Customer {
        if self.rng.percent(60) {
            Customer::Name(last_name(self.rng.nurand(255, self.constants.last_name, 0, 999)))
        } else {
            Customer::Number(self.customer_number())
        }
    }

    /// The customer's number; of several with the same name the middle one by first name.
    fn find(&mut self, warehouse: u32, district: u32, customer: Customer) -> Result<u32> {
        match customer {
            Customer::Number(number) => Ok(number),
            Customer::Name(name) => {
                let found =
                    self.connection.run(self.sql.customers_by_name, &values![warehouse, district, name])?;
                let middle = found.get(found.len().saturating_sub(1) / 2);
                Ok(middle.and_then(|row| row.first()?.number()).unwrap_or(1))
            }
        }
    }

    fn other_warehouse(&mut self, home: u32) -> u32 {
        if self.warehouses == 1 {
            return home;
        }
        let other = self.rng.uniform(1, self.warehouses - 1);
        if other >= home { other + 1 } else { other }
    }

    fn varying(&mut self, what: Varying, rows: usize) -> Result<usize> {
        if let Some(statement) = self.varying.get(&(what, rows)) {
            return Ok(*statement);
        }
        let marks = vec!["?"; rows].join(",");
        let sql = match what {
            Varying::Items => format!(
                "SELECT i_id,CAST(i_price AS CHAR(10)),i_name,i_data FROM item WHERE i_id IN ({marks})"
            ),
            Varying::Stock(district) => format!(
                "SELECT s_i_id,s_quantity,s_dist_{district:02},s_data FROM stock WHERE s_w_id=? AND s_i_id IN ({marks}) \
                 FOR UPDATE"
            ),
            Varying::OrderLines => format!(
                "INSERT INTO order_line (ol_w_id,ol_d_id,ol_o_id,ol_number,ol_i_id,ol_supply_w_id,ol_quantity,ol_amount,\
                 ol_dist_info) VALUES {}",
                vec!["(?,?,?,?,?,?,?,?,?)"; rows].join(",")
            ),
        };
        let statement = self.connection.prepare(&sql)?;
        self.varying.insert((what, rows), statement);
        Ok(statement)
    }

    fn new_order(&mut self, w: u32) -> Result<TransactionEnd> {
        let d = self.rng.uniform(1, DISTRICTS);
        let c = self.customer_number();
        let mut lines: Vec<Line> = (0..self.rng.uniform(5, 15))
            .map(|_| {
                let item = self.rng.nurand(8_191, self.constants.item, 1, ITEMS);
                let supply = if self.rng.percent(1) { self.other_warehouse(w) } else { w };
                let quantity = self.rng.uniform(1, 10);
                Line { item, supply, quantity, price: 0.0, dist_info: Value::Null }
            })
            .collect();
        let count = lines.len();
        let all_local = lines.iter().all(|line| line.supply == w);
        // One order in a hundred names an item that does not exist, in its last line.
        let unused_item = self.rng.percent(1);
        if unused_item {
            lines.pop();
        }
        // The same order of stock rows in every transaction avoids deadlocks.
        lines.sort_by_key(|line| (line.supply, line.item));

        self.run_fixed(|sql| sql.customer_and_tax, &values![w, d, c])?;
        self.read_items(&mut lines, unused_item)?;
        self.take_stock(&mut lines, w, d)?;
        let order =
            self.number(|sql| sql.district_next, &values![w, d])?.ok_or_else(|| missing("district"))?;
        self.run_fixed(|sql| sql.district_advance, &values![w, d])?;
        let lines_of_order = u32::try_from(count).unwrap_or(0);
        self.run_fixed(|sql| sql.insert_order, &values![w, d, order, c, lines_of_order, all_local])?;
        self.run_fixed(|sql| sql.insert_new_order, &values![w, d, order])?;
        let mut values = Vec::with_capacity(lines.len() * 9);
        for (number, line) in (1u32..).zip(lines) {
            let amount = line.price * f64::from(line.quantity);
            values.extend(values![w, d, order, number, line.item, line.supply, line.quantity]);
            values.extend([amount.into(), line.dist_info]);
        }
        let insert = self.varying(Varying::OrderLines, values.len() / 9)?;
        self.connection.run(insert, &values)?;
        self.end(!unused_item)
    }

    fn read_items(&mut self, lines: &mut [Line], unused_item: bool) -> Result<()> {
        let mut wanted: Vec<Value> = lines.iter().map(|line| line.item.into()).collect();
        if unused_item {
            wanted.push((ITEMS + 1).into());
        }
        let select = self.varying(Varying::Items, wanted.len())?;
        for row in self.connection.run(select, &wanted)? {
            let (Some(item), Some(price)) = (row[0].number(), row[1].real()) else { continue };
            lines.iter_mut().filter(|line| line.item == item).for_each(|line| line.price = price);
        }
        Ok(())
    }

    /// Reads and updates the stock of each line (clause 2.4.2.2); lines are sorted by warehouse.
    fn take_stock(&mut self, lines: &mut [Line], home: u32, district: u32) -> Result<()> {
        for group in lines.chunk_by_mut(|a, b| a.supply == b.supply) {
            let supply = group[0].supply;
            let mut values: Vec<Value> = vec![supply.into()];
            values.extend(group.iter().map(|line| Value::from(line.item)));
            let select = self.varying(Varying::Stock(district), group.len())?;
            let rows = self.connection.run(select, &values)?;
            let mut quantities: BTreeMap<u32, u32> =
                rows.iter().filter_map(|row| Some((row[0].number()?, row[1].number()?))).collect();
            for line in group {
                if let Some(row) = rows.iter().find(|row| row[0].number() == Some(line.item)) {
                    line.dist_info = row[2].clone();
                }
                let quantity = quantities.get_mut(&line.item).ok_or_else(|| missing("stock"))?;
                *quantity = if *quantity >= line.quantity + 10 {
                    *quantity - line.quantity
                } else {
                    *quantity + 91 - line.quantity
                };
                self.connection.run(
                    self.sql.update_stock,
                    &values![*quantity, line.quantity, supply != home, supply, line.item],
                )?;
            }
        }
        Ok(())
    }

    fn payment(&mut self, w: u32) -> Result<TransactionEnd> {
        let d = self.rng.uniform(1, DISTRICTS);
        let (c_w, c_d) = if self.rng.percent(15) {
            (self.other_warehouse(w), self.rng.uniform(1, DISTRICTS))
        } else {
            (w, d)
        };
        let customer = self.customer();
        let cents = self.rng.uniform(100, 500_000);

        let c = self.find(c_w, c_d, customer)?;
        let rows = self.run_fixed(|sql| sql.customer_for_payment, &values![c_w, c_d, c])?;
        let customer = rows.first().ok_or_else(|| missing("customer"))?;
        let bad_credit = customer[CREDIT].text() == Some("BC");
        if bad_credit {
            let old = self.run_fixed(|sql| sql.customer_data, &values![c_w, c_d, c])?;
            let mut data = format!(
                "{c} {c_d} {c_w} {d} {w} {}.{:02}|{}",
                cents / 100,
                cents % 100,
                old.first().and_then(|row| row[0].text()).unwrap_or_default()
            );
            data.truncate(500);
            self.run_fixed(|sql| sql.pay_customer_data, &values![cents, cents, data, c_w, c_d, c])?;
        } else {
            self.run_fixed(|sql| sql.pay_customer, &values![cents, cents, c_w, c_d, c])?;
        }
        let district = self.run_fixed(|sql| sql.district_address, &values![w, d])?;
        let warehouse = self.run_fixed(|sql| sql.warehouse_address, &values![w])?;
        let name =
            |rows: &[Vec<Value>]| rows.first().and_then(|row| row[0].text()).unwrap_or_default().to_owned();
        let note = format!("{}    {}", name(&warehouse), name(&district));
        self.run_fixed(|sql| sql.insert_history, &values![c, c_d, c_w, d, w, cents, note])?;
        self.run_fixed(|sql| sql.pay_district, &values![cents, w, d])?;
        self.run_fixed(|sql| sql.pay_warehouse, &values![cents, w])?;
        self.end(true)
    }

    fn order_status(&mut self, w: u32) -> Result<TransactionEnd> {
        let d = self.rng.uniform(1, DISTRICTS);
        let customer = self.customer();
        let c = self.find(w, d, customer)?;
        self.run_fixed(|sql| sql.customer_status, &values![w, d, c])?;
        if let Some(order) = self.number(|sql| sql.last_order, &values![w, d, c])? {
            self.run_fixed(|sql| sql.lines_of_order, &values![w, d, order])?;
        }
        self.end(true)
    }

    fn delivery(&mut self, w: u32) -> Result<TransactionEnd> {
        let carrier = self.rng.uniform(1, 10);
        for d in 1..=DISTRICTS {
            let Some(order) = self.number(|sql| sql.oldest_new_order, &values![w, d])? else {
                continue; // all delivered in this district (clause 2.7.4.2)
            };
            let of_order = values![w, d, order];
            self.run_fixed(|sql| sql.delete_new_order, &of_order)?;
            let c = self.number(|sql| sql.customer_of_order, &of_order)?.ok_or_else(|| missing("order"))?;
            self.run_fixed(|sql| sql.set_carrier, &values![carrier, w, d, order])?;
            self.run_fixed(|sql| sql.deliver_lines, &of_order)?;
            let sum = self.run_fixed(|sql| sql.sum_of_lines, &of_order)?;
            let sum = sum.into_iter().flatten().find(|sum| *sum != Value::Null).unwrap_or(Value::Int(0));
            self.run_fixed(|sql| sql.deliver_customer, &[&[sum], &values![w, d, c][..]].concat())?;
        }
        self.end(true)
    }

    fn stock_level(&mut self, w: u32) -> Result<TransactionEnd> {
        let d = self.rng.uniform(1, DISTRICTS);
        let threshold = self.rng.uniform(10, 20);
        let next = self.number(|sql| sql.next_order, &values![w, d])?.ok_or_else(|| missing("district"))?;
        let first = next.saturating_sub(20);
        self.run_fixed(|sql| sql.low_stock, &values![w, d, first, next, w, threshold])?;
        self.end(true)
    }

    fn run_fixed(&mut self, which: fn(&Fixed) -> usize, values: &[Value]) -> Result<Vec<Vec<Value>>> {
        self.connection.run(which(&self.sql), values)
    }

    /// The number in the first column of the first row.
    fn number(&mut self, which: fn(&Fixed) -> usize, values: &[Value]) -> Result<Option<u32>> {
        Ok(self.run_fixed(which, values)?.first().and_then(|row| row.first()?.number()))
    }
}

/// The error when a row that the population must hold is not there.
fn missing(what: &str) -> Error {
    Error::Other(anyhow::anyhow!("the TPC-C database lacks a {what} row that must exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_holds_the_specified_mix() {
        let mut rng = Rng::new(1, 1);
        let mut deck = Deck::new();
        for _ in 0..3 {
            let mut counts = [0; 5];
            for _ in 0..100 {
                let kind = deck.draw(&mut rng);
                counts[TransactionKind::ALL.iter().position(|&k| k == kind).unwrap()] += 1;
            }
            assert_eq!(counts, [45, 43, 4, 4, 4]);
        }
    }
}
