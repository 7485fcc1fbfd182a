//! TPC-C's tables as B+-trees, by arithmetic: which leaf a row is on, and which inner page leads there.
//!
//! Only leaves and the level above them are told apart; what is above that is a few hundred pages that never leave
//! a buffer pool.

use super::config::{Config, PAGE, Schema};

/// Items, and stock rows of each warehouse (TPC-C 5.11 clause 1.2.1).
pub(super) const ITEMS: u64 = 100_000;
/// Districts of each warehouse.
pub(super) const DISTRICTS: u64 = 10;
/// Customers, and first orders, of each district.
pub(super) const CUSTOMERS: u64 = 3_000;
/// Orders for which a district has room before it begins anew: what is read of them is recent.
pub(super) const ORDERS: u64 = 3_300;
/// Orders of a district that are not delivered when the load ends (clause 4.3.3.1).
pub(super) const UNDELIVERED: u64 = 900;
/// Room for them.
pub(super) const NEW_ORDERS: u64 = 1_800;
/// Lines of an order on average (clause 2.4.1.3).
pub(super) const LINES: u64 = 10;

/// A table or a secondary index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Tree {
    Warehouse,
    District,
    Customer,
    CustomerName,
    History,
    HistoryCustomer,
    HistoryDistrict,
    NewOrders,
    Orders,
    OrdersCustomer,
    OrderLine,
    OrderLineStock,
    Stock,
    Item,
    Undo,
    Sbtest,
    SbtestK,
}

/// Rows for each warehouse, of all warehouses, and bytes of a row as they fill pages: (tree, by warehouse, fixed, tpcc-mysql, live).
///
/// tpcc-mysql: published sizes over rows: customer 569 GiB / 840 M = 727, history 160 GiB / 840 M = 204, order_line 1.2 TiB / 8.4 G =
/// 157, stock 1,011 GiB / 2.8 G = 388; the secondary indexes' part of these is estimated from their columns. The published sizes of district
/// (48 M: 180) and warehouse (14 M: 524) have no secondary index. Orders' is not published.
const TREES: [(Tree, u64, u64, u64, u64); 17] = [
    (Tree::Warehouse, 1, 0, 524, 160),
    (Tree::District, DISTRICTS, 0, 180, 170),
    (Tree::Customer, DISTRICTS * CUSTOMERS, 0, 657, 640),
    (Tree::CustomerName, DISTRICTS * CUSTOMERS, 0, 70, 60),
    (Tree::History, DISTRICTS * ORDERS, 0, 110, 90),
    (Tree::HistoryCustomer, DISTRICTS * ORDERS, 0, 50, 0),
    (Tree::HistoryDistrict, DISTRICTS * ORDERS, 0, 44, 0),
    (Tree::NewOrders, DISTRICTS * NEW_ORDERS, 0, 40, 36),
    (Tree::Orders, DISTRICTS * ORDERS, 0, 70, 60),
    (Tree::OrdersCustomer, DISTRICTS * ORDERS, 0, 40, 30),
    (Tree::OrderLine, DISTRICTS * ORDERS * LINES, 0, 112, 90),
    (Tree::OrderLineStock, DISTRICTS * ORDERS * LINES, 0, 45, 0),
    (Tree::Stock, ITEMS, 0, 370, 345),
    (Tree::Item, 0, ITEMS, 110, 100),
    (Tree::Undo, 0, 1 << 20, 256, 256),
    // Sysbench's: `SYSBENCH`.
    (Tree::Sbtest, 0, 0, 0, 0),
    (Tree::SbtestK, 0, 0, 0, 0),
];

/// Bytes of a row of sysbench's table and of an entry of its index, as they fill pages: 100 million rows are about 26 GB (published).
const SYSBENCH: (u64, u64) = (235, 25);

/// Tablespaces.
pub(super) const TABLESPACES: usize = 10;

/// Leaves to which one inner page leads: 16 KiB, two thirds full, of keys and child numbers of about 16 bytes.
const FANOUT: u64 = 680;

#[derive(Clone, Copy, Default, Debug)]
struct Extent {
    row: u64,
    rows: u64,
    leaves: u64,
    first: u64,
    inner: u64,
}

/// Which page holds what.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    extents: [Extent; TREES.len()],
    pages: u64,
}

/// A leaf and the inner page that leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Path {
    pub(super) inner: u64,
    pub(super) leaf: u64,
}

impl Tables {
    pub(super) fn new(config: &Config) -> Tables {
        let mut extents = [Extent::default(); TREES.len()];
        let mut pages = 0;
        for (extent, (tree, by_warehouse, fixed, published, live)) in extents.iter_mut().zip(TREES) {
            let (row, rows) = match (config.schema, tree) {
                (Schema::Sysbench { rows }, Tree::Sbtest) => (SYSBENCH.0, rows),
                (Schema::Sysbench { rows }, Tree::SbtestK) => (SYSBENCH.1, rows),
                (Schema::Sysbench { .. }, Tree::Undo) => (live, fixed),
                (Schema::Sysbench { .. }, _) => (0, 0),
                (Schema::TpccMysql, _) => (published, by_warehouse * u64::from(config.warehouses) + fixed),
                (Schema::Live, _) => (live, by_warehouse * u64::from(config.warehouses) + fixed),
            };
            let leaves = if row == 0 { 0 } else { rows.max(1) * row / PAGE + 1 };
            let inner = leaves.div_ceil(FANOUT);
            *extent = Extent { row, rows, leaves, first: pages, inner: pages + leaves };
            pages += leaves + inner;
        }
        Tables { extents, pages }
    }

    /// All pages.
    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether this schema has the index.
    pub(super) fn has(&self, tree: Tree) -> bool {
        self.extents[tree as usize].leaves > 0
    }

    /// The way to a row, counted in the order of the tree's key.
    pub(super) fn path(&self, tree: Tree, row: u64) -> Path {
        let extent = &self.extents[tree as usize];
        let leaf = (row % extent.rows.max(1) * extent.row / PAGE).min(extent.leaves.saturating_sub(1));
        Path { inner: extent.inner + leaf / FANOUT, leaf: extent.first + leaf }
    }

    /// The leaves of a tree.
    #[cfg(test)]
    pub(super) fn leaves(&self, tree: Tree) -> u64 {
        self.extents[tree as usize].leaves
    }

    /// The tablespace that a page is in: each table has one with its indexes (`innodb_file_per_table`), and undo records have one.
    pub(super) fn tablespace(&self, page: u64) -> usize {
        match self.owner(page).map_or(Tree::Undo, |owner| owner.0) {
            Tree::Warehouse => 0,
            Tree::District => 1,
            Tree::Customer | Tree::CustomerName => 2,
            Tree::History | Tree::HistoryCustomer | Tree::HistoryDistrict => 3,
            Tree::NewOrders => 4,
            Tree::Orders | Tree::OrdersCustomer => 5,
            Tree::OrderLine | Tree::OrderLineStock => 6,
            Tree::Stock => 7,
            Tree::Item => 8,
            Tree::Undo => TABLESPACES - 1,
            Tree::Sbtest | Tree::SbtestK => 0,
        }
    }

    /// Which tree a page belongs to, and whether it is a leaf.
    pub(super) fn owner(&self, page: u64) -> Option<(Tree, bool)> {
        let at = self.extents.iter().rposition(|e| e.leaves > 0 && e.first <= page)?;
        Some((TREES[at].0, page < self.extents[at].inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::innodb::config::Volume;

    #[test]
    fn tables_are_as_large_as_published() {
        assert!(TREES.iter().enumerate().all(|(at, tree)| tree.0 as usize == at));
        let tables = Tables::new(&Config::published(1, Volume { blocks: 1 << 30, block_bytes: 4096 }, 3));
        let mib = |trees: &[Tree]| trees.iter().map(|&t| tables.leaves(t)).sum::<u64>() / ((1 << 20) / PAGE);
        let gib = |trees: &[Tree]| mib(trees) >> 10;
        // Orders, order lines and history have room to grow by a tenth.
        let published = [
            (mib(&[Tree::Warehouse]), 14),
            (mib(&[Tree::District]), 48),
            (gib(&[Tree::Customer, Tree::CustomerName]), 569),
            (gib(&[Tree::History, Tree::HistoryCustomer, Tree::HistoryDistrict]) * 10 / 11, 160),
            (gib(&[Tree::OrderLine, Tree::OrderLineStock]) * 10 / 11, 1229),
            // An index of stock by item alone, which nothing uses after the load, is not among the trees.
            (gib(&[Tree::Stock]), 1011),
        ];
        for (ours, theirs) in published {
            assert!(ours.abs_diff(theirs) * 20 <= theirs, "{published:?}");
        }
    }
}
