//! The OLTP test of sysbench 0.4 (`oltp`, mode `complex`), as the pages that it uses, in order.

use super::tables::{Tables, Tree};
use super::tpcc::{LeafUse, TransactionPlan};
use workload::Rng;

/// Statements of a transaction that read one row (`oltp-point-selects`).
const POINT_SELECTS: u64 = 10;
/// Statements that read rows side by side: simple, sum, ordered and distinct ranges.
const RANGES: u64 = 4;
/// Rows of each (`oltp-range-size`).
const RANGE: u64 = 100;
/// Percent of the requests that go to a few rows (`oltp-dist-res`), and percent of the rows that these are (`oltp-dist-pct`).
const HOT_REQUESTS: u64 = 75;
const HOT_ROWS: u64 = 1;
/// Numbers whose mean the other requests go to (`oltp-dist-iter`).
const NUMBERS: u64 = 12;

/// Draws transactions.
pub(crate) struct Sysbench {
    rng: Rng,
    rows: u64,
    tables: Tables,
    /// Changes so far; each leaves an undo record.
    undo: u64,
}

impl Sysbench {
    pub(crate) fn new(seed: u64, rows: u64, tables: Tables) -> Sysbench {
        Sysbench { rng: Rng::new(seed ^ 0x7362_7465_7374), rows: rows.max(1), tables, undo: 0 }
    }

    /// A row by the distribution `special`: three quarters of the requests go to the middle hundredth of the rows, evenly. The others go to
    /// the mean of twelve rows, which is near the middle, too.
    fn row(&mut self) -> u64 {
        if self.rng.below(100) >= HOT_REQUESTS {
            let sum: u64 = (0..NUMBERS).map(|_| self.rng.below(self.rows)).sum();
            return sum / NUMBERS;
        }
        let hot = (self.rows * HOT_ROWS / 100).max(1);
        self.rows / 2 - hot / 2 + self.rng.below(hot)
    }

    fn use_leaf(&self, work: &mut TransactionPlan, tree: Tree, row: u64, change: bool, statements: u32) {
        work.uses.push(LeafUse::new(self.tables.path(tree, row), change, statements));
    }

    /// A change of a row and its undo record.
    fn change(&mut self, work: &mut TransactionPlan, row: u64, statements: u32) {
        self.use_leaf(work, Tree::Sbtest, row, true, statements);
        work.logged += 1;
        self.undo += 1;
        self.use_leaf(work, Tree::Undo, self.undo, true, 0);
    }

    /// The next transaction, in `work`.
    pub(crate) fn draw(&mut self, work: &mut TransactionPlan) {
        work.uses.clear();
        (work.rollback, work.logged) = (false, 0);
        for _ in 0..POINT_SELECTS {
            let row = self.row();
            self.use_leaf(work, Tree::Sbtest, row, false, 1);
        }
        for _ in 0..RANGES {
            let first = self.row();
            let mut last = None;
            for row in (0..RANGE).step_by(20).chain([RANGE - 1]) {
                let path = self.tables.path(Tree::Sbtest, (first + row).min(self.rows - 1));
                if last.replace(path) != Some(path) {
                    work.uses.push(LeafUse::new(path, false, u32::from(row == 0)));
                }
            }
        }
        // An update of the indexed column: all rows begin with the same value, so that the index has the order of the rows.
        let row = self.row();
        self.change(work, row, 1);
        self.use_leaf(work, Tree::SbtestK, row, true, 0);
        // An update of another column; a row is deleted and comes again.
        for changes in [1, 2] {
            let row = self.row();
            for _ in 0..changes {
                self.change(work, row, 1);
            }
            if changes == 2 {
                self.use_leaf(work, Tree::SbtestK, row, true, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Schema, Storage};

    fn with_rows(rows: u64) -> Sysbench {
        let tables = Tables::new(Schema::Sysbench { rows }, 1, Storage::Clustered);
        Sysbench::new(3, rows, tables)
    }

    #[test]
    fn the_table_is_as_large_as_published() {
        let bytes = with_rows(100_000_000).tables.pages() * Storage::Clustered.page();
        assert!(bytes.abs_diff(26_000_000_000) < 1_000_000_000, "{bytes}");
    }

    #[test]
    fn rows_are_distributed_as_specified() {
        let mut sysbench = with_rows(1_000_000);
        let drawn: Vec<u64> = (0..100_000).map(|_| sysbench.row()).collect();
        let within = |low, high| drawn.iter().filter(|row| (low..high).contains(*row)).count();
        // Of the others, whose spread is a twelfth of the rows, one in twenty is in the middle hundredth, too.
        assert!((75_000..77_500).contains(&within(495_000, 505_000)), "{}", within(495_000, 505_000));
        assert!(within(495_000, 500_000).abs_diff(within(500_000, 505_000)) < 1_500);
        assert!(
            (24_000..25_500)
                .contains(&(100_000 - within(495_000, 505_000) + within(495_000, 505_000) - 75_000))
        );
        assert!(within(333_333, 666_667) > 98_500 && drawn.iter().all(|row| *row < 1_000_000));
        let one = with_rows(1);
        assert_eq!(one.rows, 1);
    }

    #[test]
    fn a_transaction_has_eighteen_statements_and_four_changes() {
        let mut sysbench = with_rows(1_000_000);
        let mut work = TransactionPlan::default();
        for _ in 0..1000 {
            sysbench.draw(&mut work);
            let statements: u32 = work.uses.iter().map(|one| one.statements).sum();
            let changes = work.uses.iter().filter(|one| one.change).count();
            assert_eq!((statements, changes, work.logged, work.rollback), (18, 10, 4, false));
            for one in &work.uses {
                let owner = sysbench.tables.owner(one.path.leaf).unwrap();
                assert!(matches!(owner, (Tree::Sbtest | Tree::SbtestK | Tree::Undo, true)), "{owner:?}");
            }
        }
        // The smallest table works, too.
        let mut least = with_rows(1);
        least.draw(&mut work);
        assert!(work.uses.iter().all(|one| least.tables.owner(one.path.leaf).is_some()));
    }
}
