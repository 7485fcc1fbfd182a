//! The five transactions of TPC-C (revision 5.11, clauses 2.4 to 2.8) as the pages that they use, in order.

use super::tables::{
    CUSTOMERS, DISTRICTS, ITEMS, LINES, NEW_ORDERS, ORDERS, Path, Tables, Tree, UNDELIVERED,
};
use workload::Rng;

/// A transaction of TPC-C.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransactionKind {
    /// Clause 2.4; the one that tpmC counts.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6, read only.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8, read only.
    StockLevel,
}

impl TransactionKind {
    /// All, in the order of `mix` in a model's configuration.
    pub const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// The name in results, snake case.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }
}

/// A use of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeafUse {
    pub(crate) path: Path,
    /// Whether a row on it is changed, inserted or deleted.
    pub(crate) change: bool,
    /// Whether it is a new row of a heap, so that its index, the inner page, changes, too.
    pub(crate) insert: bool,
    /// Rows that are changed there at once.
    pub(crate) rows: u32,
    /// Statements that begin with it.
    pub(crate) statements: u32,
}

impl LeafUse {
    /// A use of one row that is there.
    pub(crate) fn new(path: Path, change: bool, statements: u32) -> LeafUse {
        LeafUse { path, change, insert: false, rows: 1, statements }
    }
}

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mixture {
    /// Warehouses.
    pub(crate) warehouses: u32,
    /// Shares of the transactions, in the order of [`TransactionKind::ALL`].
    pub(crate) mix: [u32; 5],
    /// Statements of a stock-level transaction for each item that it counts.
    pub(crate) stock_statements: u32,
    /// In so many of 1,000 statements a further page of the same table is read.
    pub(crate) stray: u32,
    /// Seed of every choice.
    pub(crate) seed: u64,
}

/// A transaction.
#[derive(Clone, Default, Debug)]
pub(crate) struct TransactionPlan {
    pub(crate) uses: Vec<LeafUse>,
    /// Whether it ends with a rollback, as one new order in 100 does (clause 2.4.1.4).
    pub(crate) rollback: bool,
    /// Rows that the binary log has.
    pub(crate) logged: u32,
}

/// The constants C of the non-uniform numbers (clause 2.1.6.1) are drawn once.
struct Constants {
    customer: u64,
    item: u64,
    name: u64,
}

/// Draws transactions and keeps count of what districts have.
pub(crate) struct Terminals {
    rng: Rng,
    constants: Constants,
    warehouses: u64,
    mix: [u32; 5],
    stock_statements: u32,
    stray: u64,
    tables: Tables,
    /// The next order of each district, and the oldest that is not delivered.
    orders: Vec<(u32, u32)>,
    /// Rows of history so far.
    history: u64,
    /// Changes so far; each leaves an undo record.
    undo: u64,
}

impl Terminals {
    pub(crate) fn new(config: &Mixture, tables: Tables) -> Terminals {
        let mut rng = Rng::new(config.seed ^ 0x7063_632D_6D79);
        let constants = Constants { customer: rng.below(1024), item: rng.below(8192), name: rng.below(256) };
        let warehouses = u64::from(config.warehouses.max(1));
        let first = (CUSTOMERS as u32, (CUSTOMERS - UNDELIVERED) as u32);
        Terminals {
            rng,
            constants,
            warehouses,
            mix: config.mix,
            stock_statements: config.stock_statements,
            stray: config.stray.into(),
            tables,
            orders: vec![first; (warehouses * DISTRICTS) as usize],
            history: warehouses * DISTRICTS * CUSTOMERS,
            undo: 0,
        }
    }

    /// The tablespace that a page is in.
    pub(crate) fn tablespace(&self, page: u64) -> usize {
        self.tables.tablespace(page)
    }

    /// NURand(a, 0, range - 1) of clause 2.1.6.
    fn nurand(rng: &mut Rng, a: u64, constant: u64, range: u64) -> u64 {
        ((rng.below(a + 1) | rng.below(range)) + constant) % range
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    /// The next transaction, in `work`.
    pub(crate) fn draw(&mut self, work: &mut TransactionPlan) -> TransactionKind {
        work.uses.clear();
        (work.rollback, work.logged) = (false, 0);
        let total: u64 = self.mix.iter().map(|&share| u64::from(share)).sum();
        let mut ticket = self.rng.below(total.max(1));
        let mut kind = TransactionKind::NewOrder;
        for (of, share) in TransactionKind::ALL.into_iter().zip(self.mix) {
            kind = of;
            match ticket.checked_sub(share.into()) {
                Some(rest) => ticket = rest,
                None => break,
            }
        }
        match kind {
            TransactionKind::NewOrder => self.new_order(work),
            TransactionKind::Payment => self.payment(work),
            TransactionKind::OrderStatus => self.order_status(work),
            TransactionKind::Delivery => self.delivery(work),
            TransactionKind::StockLevel => self.stock_level(work),
        }
        kind
    }

    fn read(&mut self, work: &mut TransactionPlan, tree: Tree, row: u64, statements: u32) {
        self.stray(work, tree, statements);
        work.uses.push(LeafUse::new(self.tables.path(tree, row), false, statements));
    }

    /// A page beside that of the row.
    fn stray(&mut self, work: &mut TransactionPlan, tree: Tree, statements: u32) {
        if self.stray > 0 && statements > 0 && self.rng.below(1000) < self.stray {
            let path = self.tables.path(tree, self.rng.next_u64() >> 8);
            work.uses.push(LeafUse::new(path, false, 0));
        }
    }

    /// A change and its undo record.
    fn change(&mut self, work: &mut TransactionPlan, tree: Tree, row: u64, statements: u32) {
        self.modify(work, tree, row, statements, false);
    }

    /// A new row and its undo record.
    fn insert(&mut self, work: &mut TransactionPlan, tree: Tree, row: u64, statements: u32) {
        self.modify(work, tree, row, statements, true);
    }

    fn modify(&mut self, work: &mut TransactionPlan, tree: Tree, row: u64, statements: u32, insert: bool) {
        if !self.tables.has(tree) {
            return;
        }
        let path = self.tables.path(tree, row);
        let insert = insert && self.tables.has_index(path);
        work.uses.push(LeafUse { insert, ..LeafUse::new(path, true, statements) });
        // Changes of secondary indexes have no undo record of their own.
        if !matches!(
            tree,
            Tree::HistoryCustomer | Tree::HistoryDistrict | Tree::OrdersCustomer | Tree::OrderLineStock
        ) {
            work.logged += 1;
            self.undo += 1;
            if self.tables.has(Tree::Undo) {
                work.uses.push(LeafUse::new(self.tables.path(Tree::Undo, self.undo), true, 0));
            }
        }
    }

    fn other_warehouse(&mut self, warehouse: u64, percent: u64) -> u64 {
        if self.warehouses > 1 && self.percent(percent) {
            (warehouse + 1 + self.rng.below(self.warehouses - 1)) % self.warehouses
        } else {
            warehouse
        }
    }

    /// A customer by number (40 %) or by last name (60 %), whose index entry and rows (three on average) are read.
    fn customer(&mut self, work: &mut TransactionPlan, district: u64) -> u64 {
        if self.percent(60) {
            let name = Self::nurand(&mut self.rng, 255, self.constants.name, 1000);
            self.read(work, Tree::CustomerName, district * CUSTOMERS + name * 3, 1);
            // One of each name is among the first thousand (clause 4.3.3.1); the others are anywhere among the rest, always the
            // same ones.
            let others = [1u64, 2].map(|n| {
                1000 + (district * 1000 + name)
                    .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                    .wrapping_mul(2 * n + 1)
                    .rotate_right(29)
                    % 2000
            });
            self.read(work, Tree::Customer, district * CUSTOMERS + name, 1);
            for other in others {
                self.read(work, Tree::Customer, district * CUSTOMERS + other, 0);
            }
            others[0]
        } else {
            let customer = Self::nurand(&mut self.rng, 1023, self.constants.customer, CUSTOMERS);
            self.read(work, Tree::Customer, district * CUSTOMERS + customer, 1);
            customer
        }
    }

    fn new_order(&mut self, work: &mut TransactionPlan) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        let customer = Self::nurand(&mut self.rng, 1023, self.constants.customer, CUSTOMERS);
        work.rollback = self.percent(1);
        self.read(work, Tree::Customer, district * CUSTOMERS + customer, 1);
        self.read(work, Tree::Warehouse, warehouse, 0);
        self.read(work, Tree::District, district, 1);
        self.change(work, Tree::District, district, 1);
        let next = &mut self.orders[district as usize].0;
        let order = u64::from(*next);
        if !work.rollback {
            *next += 1;
        }
        self.insert(work, Tree::Orders, district * ORDERS + order % ORDERS, 1);
        self.change(work, Tree::OrdersCustomer, (district * CUSTOMERS + customer) * ORDERS / CUSTOMERS, 0);
        self.insert(work, Tree::NewOrders, district * NEW_ORDERS + order % NEW_ORDERS, 1);
        let lines = 5 + self.rng.below(11);
        for line in 0..lines {
            let item = Self::nurand(&mut self.rng, 8191, self.constants.item, ITEMS);
            let supplier = self.other_warehouse(warehouse, 1);
            self.read(work, Tree::Item, item, 1);
            if work.rollback && line + 1 == lines {
                break;
            }
            let stock = supplier * ITEMS + item;
            self.read(work, Tree::Stock, stock, 1);
            self.change(work, Tree::Stock, stock, 1);
            let slot = (district * ORDERS + order % ORDERS) * LINES + line % LINES;
            self.insert(work, Tree::OrderLine, slot, 1);
            let entries = DISTRICTS * ORDERS * LINES / ITEMS;
            self.change(work, Tree::OrderLineStock, stock * entries, 0);
        }
    }

    fn payment(&mut self, work: &mut TransactionPlan) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        let home = self.other_warehouse(warehouse, 15);
        let of = if home == warehouse { district } else { home * DISTRICTS + self.rng.below(DISTRICTS) };
        self.change(work, Tree::Warehouse, warehouse, 1);
        self.read(work, Tree::Warehouse, warehouse, 1);
        self.change(work, Tree::District, district, 1);
        self.read(work, Tree::District, district, 1);
        let customer = self.customer(work, of);
        self.change(work, Tree::Customer, of * CUSTOMERS + customer, 1);
        self.history += 1;
        self.insert(work, Tree::History, self.history, 1);
        self.change(work, Tree::HistoryCustomer, (of * CUSTOMERS + customer) * ORDERS / CUSTOMERS, 0);
        self.change(work, Tree::HistoryDistrict, district * ORDERS + CUSTOMERS, 0);
    }

    fn order_status(&mut self, work: &mut TransactionPlan) {
        let district = self.rng.below(self.warehouses * DISTRICTS);
        let customer = self.customer(work, district);
        self.read(work, Tree::OrdersCustomer, (district * CUSTOMERS + customer) * ORDERS / CUSTOMERS, 1);
        // Customers' orders were loaded in a random order (clause 4.3.3.1).
        let order = district * ORDERS + self.rng.below(CUSTOMERS);
        self.read(work, Tree::Orders, order, 0);
        self.read(work, Tree::OrderLine, order * LINES, 1);
    }

    fn delivery(&mut self, work: &mut TransactionPlan) {
        let warehouse = self.rng.below(self.warehouses);
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let (next, oldest) = self.orders[district as usize];
            let order = u64::from(oldest);
            self.read(work, Tree::NewOrders, district * NEW_ORDERS + order % NEW_ORDERS, 1);
            if oldest >= next {
                continue;
            }
            self.orders[district as usize].1 += 1;
            self.change(work, Tree::NewOrders, district * NEW_ORDERS + order % NEW_ORDERS, 1);
            let slot = district * ORDERS + order % ORDERS;
            self.read(work, Tree::Orders, slot, 1);
            self.change(work, Tree::Orders, slot, 1);
            let at = work.uses.len();
            self.change(work, Tree::OrderLine, slot * LINES, 1);
            // Each line of the order is changed.
            work.uses[at].rows = LINES as u32;
            work.logged += LINES as u32 - 1;
            self.read(work, Tree::OrderLine, slot * LINES, 1);
            let customer = self.rng.below(CUSTOMERS);
            self.change(work, Tree::Customer, district * CUSTOMERS + customer, 1);
        }
    }

    fn stock_level(&mut self, work: &mut TransactionPlan) {
        let warehouse = self.rng.below(self.warehouses);
        let district = warehouse * DISTRICTS + self.rng.below(DISTRICTS);
        self.read(work, Tree::District, district, 1);
        let next = u64::from(self.orders[district as usize].0);
        let mut last = None;
        for order in next - 20..next {
            let slot = (district * ORDERS + order % ORDERS) * LINES;
            for row in [slot, slot + LINES - 1] {
                let path = self.tables.path(Tree::OrderLine, row);
                if last.replace(path) != Some(path) {
                    work.uses.push(LeafUse::new(path, false, u32::from(order + 20 == next)));
                }
            }
        }
        for line in 0..20 * LINES {
            // Of orders that were loaded, items are uniform (clause 4.3.3.1).
            let item = self.rng.below(ITEMS);
            let statements = if line == 0 { self.stock_statements.max(1) } else { self.stock_statements };
            self.read(work, Tree::Stock, warehouse * ITEMS + item, statements);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Schema, Storage};
    use std::collections::BTreeMap;

    fn terminals() -> Terminals {
        let mixture =
            Mixture { warehouses: 28_000, mix: [10, 10, 1, 1, 1], stock_statements: 1, stray: 0, seed: 3 };
        Terminals::new(&mixture, Tables::new(Schema::TpccMysql, 28_000, Storage::Clustered))
    }

    #[test]
    fn accesses_are_distributed_as_specified() {
        let mut terminals = terminals();
        let mut work = TransactionPlan::default();
        let mut kinds = BTreeMap::new();
        let mut uses: BTreeMap<(Tree, bool), u64> = BTreeMap::new();
        let mut items = BTreeMap::new();
        let mut orders = 0;
        for _ in 0..46_000 {
            let kind = terminals.draw(&mut work);
            *kinds.entry(format!("{kind:?}")).or_insert(0u32) += 1;
            orders += u64::from(kind == TransactionKind::NewOrder);
            for one in &work.uses {
                let (tree, leaf) = terminals.tables.owner(one.path.leaf).unwrap();
                assert!(leaf && terminals.tables.owner(one.path.inner) == Some((tree, false)));
                *uses.entry((tree, one.change)).or_default() += 1;
                if tree == Tree::Item {
                    *items.entry(one.path.leaf).or_insert(0u64) += 1;
                }
            }
        }
        for (kind, share) in [("NewOrder", 20_000), ("Payment", 20_000), ("Delivery", 2_000)] {
            assert!(kinds[kind].abs_diff(share) < share / 10, "{kinds:?}");
        }
        let each = |tree, change| uses.get(&(tree, change)).copied().unwrap_or(0) * 100 / orders;
        // Ten lines of an order; 200 items of each stock-level.
        assert!((980..1020).contains(&each(Tree::Stock, true)), "{}", each(Tree::Stock, true));
        assert!((2850..3150).contains(&each(Tree::Stock, false)), "{}", each(Tree::Stock, false));
        // 60 % of payments and order-status by name, with three rows each; others one.
        assert!((55..70).contains(&each(Tree::CustomerName, false)));
        assert!((100..190).contains(&(each(Tree::OrderLineStock, true) / 6)));
        // Deliveries: ten orders each.
        assert!((190..210).contains(&each(Tree::Orders, true)), "{}", each(Tree::Orders, true));
        // NURand: the hottest half of the items' pages is used more than the other.
        let mut counts: Vec<_> = items.into_values().collect();
        counts.sort_unstable();
        let (cold, hot) = counts.split_at(counts.len() / 2);
        assert!(hot.iter().sum::<u64>() > cold.iter().sum::<u64>() * 5 / 4, "{cold:?} {hot:?}");
    }

    #[test]
    fn equal_seeds_give_equal_transactions() {
        let draw = |mut t: Terminals| {
            let mut work = TransactionPlan::default();
            (0..500).flat_map(|_| (t.draw(&mut work), work.uses.clone()).1).collect::<Vec<_>>()
        };
        assert_eq!(draw(terminals()), draw(terminals()));
    }
}
