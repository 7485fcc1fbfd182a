//! The nine tables of TPC-C (clause 1.3).
//!
//! Money is `DECIMAL`, so that the consistency conditions can compare for equality. Foreign keys are left out, as
//! clause 1.4 allows: they add reads, not writes. The history table has a key of its own. Without one, InnoDB would take
//! row numbers from a counter in the system tablespace, and the studies want to see the other writes to it.

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns and its primary key, with the types of MySQL.
    pub columns: &'static str,
    /// Its other keys.
    pub keys: &'static [Key],
}

/// A key beside the primary one.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static str,
}

/// The tables in the order in which they are loaded, with their definitions.
pub const TABLES: [Table; 9] = [
    Table {
        name: "item",
        columns: "i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL,
         i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id)",
        keys: &[],
    },
    Table {
        name: "warehouse",
        columns: "w_id SMALLINT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL,
         w_street_2 VARCHAR(20) NOT NULL, w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL, w_zip CHAR(9) NOT NULL,
         w_tax DECIMAL(4,4) NOT NULL, w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id)",
        keys: &[],
    },
    Table {
        name: "district",
        columns: "d_w_id SMALLINT NOT NULL, d_id TINYINT NOT NULL, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL,
         d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL,
         d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL,
         PRIMARY KEY (d_w_id, d_id)",
        keys: &[],
    },
    Table {
        name: "customer",
        columns: "c_w_id SMALLINT NOT NULL, c_d_id TINYINT NOT NULL, c_id INT NOT NULL, c_first VARCHAR(16) NOT NULL,
         c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL,
         c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL,
         c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL,
         c_credit_lim DECIMAL(12,2) NOT NULL, c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL,
         c_ytd_payment DECIMAL(12,2) NOT NULL, c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL,
         c_data VARCHAR(500) NOT NULL, PRIMARY KEY (c_w_id, c_d_id, c_id)",
        keys: &[Key { name: "customer_name", columns: "c_w_id, c_d_id, c_last, c_first" }],
    },
    Table {
        name: "history",
        columns: "h_id BIGINT NOT NULL AUTO_INCREMENT, h_c_id INT NOT NULL, h_c_d_id TINYINT NOT NULL,
         h_c_w_id SMALLINT NOT NULL, h_d_id TINYINT NOT NULL, h_w_id SMALLINT NOT NULL, h_date DATETIME NOT NULL,
         h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL, PRIMARY KEY (h_id)",
        keys: &[],
    },
    Table {
        name: "orders",
        columns: "o_w_id SMALLINT NOT NULL, o_d_id TINYINT NOT NULL, o_id INT NOT NULL, o_c_id INT NOT NULL,
         o_entry_d DATETIME NOT NULL, o_carrier_id TINYINT, o_ol_cnt TINYINT NOT NULL, o_all_local TINYINT NOT NULL,
         PRIMARY KEY (o_w_id, o_d_id, o_id)",
        keys: &[Key { name: "orders_customer", columns: "o_w_id, o_d_id, o_c_id, o_id" }],
    },
    Table {
        name: "new_orders",
        columns: "no_w_id SMALLINT NOT NULL, no_d_id TINYINT NOT NULL, no_o_id INT NOT NULL,
         PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
        keys: &[],
    },
    Table {
        name: "stock",
        columns: "s_w_id SMALLINT NOT NULL, s_i_id INT NOT NULL, s_quantity SMALLINT NOT NULL, s_dist_01 CHAR(24) NOT NULL,
         s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL,
         s_dist_05 CHAR(24) NOT NULL, s_dist_06 CHAR(24) NOT NULL, s_dist_07 CHAR(24) NOT NULL,
         s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL, s_dist_10 CHAR(24) NOT NULL,
         s_ytd DECIMAL(8,0) NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL, s_data VARCHAR(50) NOT NULL,
         PRIMARY KEY (s_w_id, s_i_id)",
        keys: &[],
    },
    Table {
        name: "order_line",
        columns: "ol_w_id SMALLINT NOT NULL, ol_d_id TINYINT NOT NULL, ol_o_id INT NOT NULL, ol_number TINYINT NOT NULL,
         ol_i_id INT NOT NULL, ol_supply_w_id SMALLINT NOT NULL, ol_delivery_d DATETIME, ol_quantity TINYINT NOT NULL,
         ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
         PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
        keys: &[],
    },
];

/// Items, and stock rows of each warehouse.
pub const ITEMS: u32 = 100_000;
/// Districts of each warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers, and first orders, of each district.
pub const CUSTOMERS: u32 = 3_000;
/// The first order that is not delivered yet when the load ends.
pub const FIRST_NEW_ORDER: u32 = 2_101;
