//! The consistency conditions (clause 3.3.2.1 to 3.3.2.4).

use anyhow::{Context, Result, bail};

use super::database::Database;

/// Each query returns the warehouses or districts that violate its condition.
const CONDITIONS: [(&str, &str); 4] = [
    (
        "1: W_YTD = sum(D_YTD)",
        "SELECT w_id, 0, CONCAT(w_ytd, ' <> ', SUM(d_ytd)) FROM warehouse JOIN district ON d_w_id = w_id
         GROUP BY w_id, w_ytd HAVING w_ytd <> SUM(d_ytd)",
    ),
    (
        "2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        "SELECT d_w_id, d_id, CONCAT_WS(', ', d_next_o_id - 1, o, n) FROM district
         JOIN (SELECT o_w_id, o_d_id, MAX(o_id) o FROM orders GROUP BY 1, 2) a ON o_w_id = d_w_id AND o_d_id = d_id
         LEFT JOIN (SELECT no_w_id, no_d_id, MAX(no_o_id) n FROM new_orders GROUP BY 1, 2) b
             ON no_w_id = d_w_id AND no_d_id = d_id
         WHERE d_next_o_id - 1 <> o OR n <> o",
    ),
    (
        "3: max(NO_O_ID) - min(NO_O_ID) + 1 = rows in NEW-ORDER",
        "SELECT no_w_id, no_d_id, CONCAT(MAX(no_o_id) - MIN(no_o_id) + 1, ' <> ', COUNT(*)) FROM new_orders
         GROUP BY 1, 2 HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)",
    ),
    (
        "4: sum(O_OL_CNT) = rows in ORDER-LINE",
        "SELECT o_w_id, o_d_id, CONCAT(o, ' <> ', l)
         FROM (SELECT o_w_id, o_d_id, SUM(o_ol_cnt) o FROM orders GROUP BY 1, 2) a
         JOIN (SELECT ol_w_id, ol_d_id, COUNT(*) l FROM order_line GROUP BY 1, 2) b
             ON ol_w_id = o_w_id AND ol_d_id = o_d_id
         WHERE o <> l",
    ),
];

/// Checks the database; nothing else may write to it meanwhile.
///
/// # Errors
/// Names the first condition that does not hold, and where.
pub fn check(database: &Database) -> Result<()> {
    let mut connection = database.connect()?;
    for (condition, sql) in CONDITIONS {
        let violations = connection
            .query(sql)
            .with_context(|| format!("checking TPC-C consistency condition {condition}"))?;
        let Some(first) = violations.first() else { continue };
        let number = |column: usize| first.get(column).and_then(|value| value.number()).unwrap_or(0);
        bail!(
            "TPC-C consistency condition {condition} does not hold in {} places, first in warehouse {}, district {}: {}; \
             the database or the drive lost data",
            violations.len(),
            number(0),
            number(1),
            first.get(2).and_then(|value| value.text()).unwrap_or("?"),
        );
    }
    Ok(())
}
