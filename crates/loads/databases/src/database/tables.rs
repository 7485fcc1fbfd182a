//! TPC-C's tables as pages, by arithmetic: which leaf a row is on, and which inner page leads there.
//!
//! Only leaves and the level above them are told apart; what is above that is a few hundred pages that never leave
//! a buffer pool. [`Storage`] says what leaves are: those of a B+-tree that holds the rows, or pages of a heap beside an index.

/// Which tables and indexes there are, and how large their rows are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Schema {
    /// tpcc-mysql's tables with the indexes that its `add_fkey_idx.sql` makes; bytes of a row are the published sizes of the
    /// tables' files over the rows of 28,000 warehouses.
    TpccMysql,
    /// The tables of the live study, without those indexes; bytes of a row as its schema makes them.
    Live,
    /// The table of sysbench 0.4 with so many rows, and its index, in one shared tablespace. Connections run its OLTP test.
    Sysbench {
        /// Rows.
        rows: u64,
    },
}

/// How rows lie on pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Storage {
    /// In the leaves of a B+-tree by the primary key, with pages of 16 KiB, as InnoDB has them. Inner pages lead to them.
    Clustered,
    /// In a heap with pages of 8 KiB beside the index of the primary key, as PostgreSQL has them (PostgreSQL's documentation, "Database Page
    /// Layout"). The leaf is the page of the heap, and the inner page is the leaf of the index. Tables that grow have their rows in the order of time,
    /// because new rows are put where there is room: at the end. The history has no index. There are no undo records.
    Heap,
}

impl Storage {
    /// Bytes of a page.
    pub(crate) fn page(self) -> u64 {
        match self {
            Storage::Clustered => 16 << 10,
            Storage::Heap => 8 << 10,
        }
    }
}

/// Items, and stock rows of each warehouse (TPC-C 5.11 clause 1.2.1).
pub(crate) const ITEMS: u64 = 100_000;
/// Districts of each warehouse.
pub(crate) const DISTRICTS: u64 = 10;
/// Customers, and first orders, of each district.
pub(crate) const CUSTOMERS: u64 = 3_000;
/// Orders for which a district has room before it begins anew: what is read of them is recent.
pub(crate) const ORDERS: u64 = 3_300;
/// Orders of a district that are not delivered when the load ends (clause 4.3.3.1).
pub(crate) const UNDELIVERED: u64 = 900;
/// Room for them.
pub(crate) const NEW_ORDERS: u64 = 1_800;
/// Lines of an order on average (clause 2.4.1.3).
pub(crate) const LINES: u64 = 10;

/// A table or a secondary index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Tree {
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
/// Those of tpcc-mysql are published sizes over rows. Customer has 569 GiB / 840 M = 727. History has 160 GiB / 840 M = 204. Order_line
/// has 1.2 TiB / 8.4 G = 157. Stock has 1,011 GiB / 2.8 G = 388. The part of secondary indexes in these is estimated from their columns. The
/// published sizes of district (48 M: 180) and warehouse (14 M: 524) have no secondary index. Orders' is not published.
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
pub(crate) const TABLESPACES: usize = 10;

/// Leaves to which one inner page leads: 16 KiB, two thirds full, of keys and child numbers of about 16 bytes.
const FANOUT: u64 = 680;

/// Entries of a leaf of an index of [`Storage::Heap`]: 8 KiB, nine tenths full (the fill factor of a B-tree, PostgreSQL's documentation, "CREATE INDEX"), of
/// index tuples with two or three numbers and their line pointers: 28 bytes.
const ENTRIES: u64 = 8192 * 9 / 10 / 28;

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
pub(crate) struct Tables {
    extents: [Extent; TREES.len()],
    pages: u64,
    storage: Storage,
}

/// A leaf and the inner page that leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Path {
    pub(crate) inner: u64,
    pub(crate) leaf: u64,
}

impl Tables {
    pub(crate) fn new(schema: Schema, warehouses: u32, storage: Storage) -> Tables {
        let mut extents = [Extent::default(); TREES.len()];
        let mut pages = 0;
        for (extent, (tree, by_warehouse, fixed, published, live)) in extents.iter_mut().zip(TREES) {
            let (row, rows) = match (schema, tree) {
                (_, Tree::Undo) if storage == Storage::Heap => (0, 0),
                (Schema::Sysbench { rows }, Tree::Sbtest) => (SYSBENCH.0, rows),
                (Schema::Sysbench { rows }, Tree::SbtestK) => (SYSBENCH.1, rows),
                (Schema::Sysbench { .. }, Tree::Undo) => (live, fixed),
                (Schema::Sysbench { .. }, _) => (0, 0),
                (Schema::TpccMysql, _) => (published, by_warehouse * u64::from(warehouses) + fixed),
                (Schema::Live, _) => (live, by_warehouse * u64::from(warehouses) + fixed),
            };
            let leaves = if row == 0 { 0 } else { rows.max(1) * row / storage.page() + 1 };
            let inner = match storage {
                Storage::Clustered => leaves.div_ceil(FANOUT),
                Storage::Heap if leaves == 0 || tree == Tree::History => 0,
                Storage::Heap if is_index(tree) => leaves.div_ceil(ENTRIES),
                Storage::Heap => rows.max(1).div_ceil(ENTRIES),
            };
            *extent = Extent { row, rows, leaves, first: pages, inner: pages + leaves };
            pages += leaves + inner;
        }
        Tables { extents, pages, storage }
    }

    /// All pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Whether this schema has the index.
    pub(crate) fn has(&self, tree: Tree) -> bool {
        self.extents[tree as usize].leaves > 0
    }

    /// Whether the inner page is of an index beside the heap that the leaf is of.
    pub(crate) fn has_index(&self, path: Path) -> bool {
        self.storage == Storage::Heap && path.inner != path.leaf
    }

    /// The way to a row, counted in the order of the tree's key.
    pub(crate) fn path(&self, tree: Tree, row: u64) -> Path {
        let extent = &self.extents[tree as usize];
        let row = row % extent.rows.max(1);
        let on = |row: u64| (row * extent.row / self.storage.page()).min(extent.leaves.saturating_sub(1));
        match self.storage {
            Storage::Clustered => {
                let leaf = on(row);
                Path { inner: extent.inner + leaf / FANOUT, leaf: extent.first + leaf }
            }
            Storage::Heap if tree == Tree::History => {
                let leaf = extent.first + on(row);
                Path { inner: leaf, leaf }
            }
            Storage::Heap if is_index(tree) => {
                let leaf = on(row);
                Path { inner: extent.inner + leaf / ENTRIES, leaf: extent.first + leaf }
            }
            Storage::Heap => Path {
                inner: extent.inner + row / ENTRIES,
                leaf: extent.first + on(in_time(tree, row, extent.rows)),
            },
        }
    }

    /// The leaves of a tree.
    #[cfg(test)]
    pub(crate) fn leaves(&self, tree: Tree) -> u64 {
        self.extents[tree as usize].leaves
    }

    /// The tablespace that a page is in: each table has one with its indexes (`innodb_file_per_table`), and undo records have one.
    pub(crate) fn tablespace(&self, page: u64) -> usize {
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
    pub(crate) fn owner(&self, page: u64) -> Option<(Tree, bool)> {
        let at = self.extents.iter().rposition(|e| e.leaves > 0 && e.first <= page)?;
        Some((TREES[at].0, page < self.extents[at].inner))
    }
}

/// Whether it is an index beside that of the primary key.
fn is_index(tree: Tree) -> bool {
    matches!(
        tree,
        Tree::CustomerName
            | Tree::HistoryCustomer
            | Tree::HistoryDistrict
            | Tree::OrdersCustomer
            | Tree::OrderLineStock
            | Tree::SbtestK
    )
}

/// The place of a row in the order of time: districts have new orders in turn.
fn in_time(tree: Tree, row: u64, rows: u64) -> u64 {
    let (orders, lines) = match tree {
        Tree::Orders => (ORDERS, 1),
        Tree::OrderLine => (ORDERS, LINES),
        Tree::NewOrders => (NEW_ORDERS, 1),
        _ => return row,
    };
    let districts = (rows / (orders * lines)).max(1);
    let (order, line) = (row / lines, row % lines);
    (order % orders * districts + order / orders) * lines + line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_has_new_rows_at_its_end() {
        let tables = Tables::new(Schema::Live, 20, Storage::Heap);
        let order = |district: u64, order: u64| tables.path(Tree::Orders, district * ORDERS + order);
        // Orders of all districts at the same time are side by side; the index has each district's together.
        assert!(order(7, 3000).leaf.abs_diff(order(199, 3000).leaf) <= 2);
        assert_ne!(order(7, 3000).leaf, order(7, 3020).leaf);
        assert_ne!(order(7, 3000).inner, order(199, 3000).inner);
        assert!(order(7, 3000).inner.abs_diff(order(7, 3020).inner) <= 1);
        let history = tables.path(Tree::History, 5);
        assert!(history.inner == history.leaf && !tables.has(Tree::Undo));
        // Each row has a place of its own, and each page has an owner.
        for (tree, rows) in [(Tree::OrderLine, 200 * ORDERS * LINES), (Tree::NewOrders, 200 * NEW_ORDERS)] {
            let places: std::collections::BTreeSet<u64> =
                (0..rows).step_by(7).map(|row| in_time(tree, row, rows)).collect();
            assert!(places.len() as u64 == rows.div_ceil(7) && places.iter().all(|place| *place < rows));
        }
        let stock = tables.path(Tree::Stock, 12_345);
        assert_eq!(tables.owner(stock.leaf), Some((Tree::Stock, true)));
        assert_eq!(tables.owner(stock.inner), Some((Tree::Stock, false)));
    }

    #[test]
    fn tables_are_as_large_as_published() {
        assert!(TREES.iter().enumerate().all(|(at, tree)| tree.0 as usize == at));
        let tables = Tables::new(Schema::TpccMysql, 28_000, Storage::Clustered);
        let mib = |trees: &[Tree]| {
            trees.iter().map(|&t| tables.leaves(t)).sum::<u64>() / ((1 << 20) / Storage::Clustered.page())
        };
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
