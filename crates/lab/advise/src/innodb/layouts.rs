//! Which layouts there are for a configuration, and how one gets there.

use database_models::innodb::PAGE;

use super::database::Database;
use crate::{
    drive::Drive,
    layouts::{
        Arrangement, Excluded, GUARANTEE, Layout, NOT_PROTECTED, Place, Plan, atomic_writes, memory,
        protected_memory, size,
    },
    server::Kind,
};

/// The layouts that there are for InnoDB.
pub const ALL: [Layout; 7] = [
    Layout::Configured,
    Layout::Doublewrite,
    Layout::Dram,
    Layout::Atomic,
    Layout::Zones,
    Layout::Cache,
    Layout::Quota,
];

/// What is not simulated, and why.
pub fn excluded(database: &Database, drive: &Drive) -> Vec<Excluded> {
    let mut excluded = Vec::new();
    if !database.doublewrite && drive.is_atomic(PAGE) {
        excluded.push(Excluded { name: "atomic", why: "it is what is configured: the drive writes 16 KiB atomically, and the doublewrite buffer is off".into() });
    }
    excluded
}

/// The layouts that are simulated; what is configured is the first.
pub fn plans(database: &Database, drive: &Drive) -> Vec<Plan> {
    let mut plans = vec![configured(database, drive)];
    if !database.doublewrite {
        plans.push(beside(database));
    }
    plans.push(dram(database, drive));
    if database.doublewrite || !drive.is_atomic(PAGE) {
        plans.push(atomic(database, drive));
    }
    plans
}

fn configured(database: &Database, drive: &Drive) -> Plan {
    let safe = database.doublewrite || drive.is_atomic(PAGE);
    let description = match database.doublewrite {
        true => "As configured: the doublewrite buffer beside the data.",
        false => "As configured: no doublewrite buffer.",
    };
    let mut warnings = Vec::new();
    if !safe {
        warnings.push("A power cut may tear a page of 16 KiB, and nothing mends it: the doublewrite buffer is off, and this drive does not write 16 KiB atomically.".into());
    }
    Plan {
        name: "configured",
        description: description.into(),
        arrangement: Arrangement {
            twice: database.doublewrite,
            memory: false,
            atomic: drive.is_atomic(PAGE),
            logs: false,
        },
        safe,
        needs: None,
        place: Place::Drive,
        warnings,
        steps: Vec::new(),
    }
}

fn beside(database: &Database) -> Plan {
    Plan {
        name: "doublewrite",
        description: "The doublewrite buffer on, beside the data.".into(),
        arrangement: Arrangement { twice: true, memory: false, atomic: false, logs: false },
        safe: true,
        needs: None,
        place: Place::Drive,
        warnings: Vec::new(),
        steps: vec![format!("[{}]\ninnodb_doublewrite = ON", group(database)), "Restart the server.".into()],
    }
}

/// The group for lines of a configuration.
fn group(database: &Database) -> &'static str {
    if is_mariadb(database) { "mariadb" } else { "mysqld" }
}

fn is_mariadb(database: &Database) -> bool {
    database.server.kind == Kind::MariaDb
}

/// Bytes of a namespace for the doublewrite buffer: its shards with 128 pages each and a file system, or the system tablespace of 12 MiB.
fn copies(database: &Database) -> u64 {
    if is_mariadb(database) {
        return 16 << 20;
    }
    (u64::from(database.shards) * (128 * PAGE) + (16 << 20)).next_multiple_of(16 << 20)
}

fn dram(database: &Database, drive: &Drive) -> Plan {
    let bytes = copies(database).max(32 << 20);
    let text = size(bytes);
    let group = group(database);
    let mut steps = vec![
        format!("On a real drive: a namespace of {text} in its power-protected memory."),
        format!("To try it here, in the drive's TOML:\n{}", memory(&text)),
        format!(
            "tranche ns create --nvm-set 2 --size {text} --lba 4096, and tranche ns attach (docs/drive-toml.md)"
        ),
    ];
    if is_mariadb(database) {
        steps.extend([
            "The doublewrite buffer of MariaDB is in the system tablespace (ibdata1), which must move. It needs \
             innodb_file_per_table, undo logs of their own (innodb_undo_tablespaces), and an ibdata1 that fits. One that has \
             grown needs a new data directory from a dump."
                .into(),
            "With the server stopped, move ibdata1 to a file system on that namespace, mounted at /mnt/dwb, owned by the server's \
             user. innodb_data_file_path stays as it is."
                .into(),
            format!("[{group}]\ninnodb_doublewrite = ON\ninnodb_data_home_dir = /mnt/dwb"),
            "Start the server (docs/howto/sysbench.md has the same on the bare device).".into(),
        ]);
    } else {
        steps.extend([
            "mkfs.ext4 on that namespace, and mount it at /mnt/dwb, owned by the server's user.".into(),
            format!("[{group}]\ninnodb_doublewrite = ON\ninnodb_doublewrite_dir = /mnt/dwb"),
            "Restart the server; it makes its doublewrite files there.".into(),
        ]);
    }
    let mut warnings = vec![
        "The memory must keep its content in a power cut (capacitors). Without that, all copies are lost in the moment in \
         which they are needed, and the layout is unsafe."
            .to_owned(),
    ];
    if !drive.is_protected() {
        warnings.push(NOT_PROTECTED.into());
    }
    Plan {
        name: "dram",
        description: "The doublewrite buffer on a namespace in the drive's protected memory.".into(),
        arrangement: Arrangement { twice: true, memory: true, atomic: false, logs: false },
        safe: drive.is_protected(),
        needs: protected_memory(drive, bytes),
        place: Place::Drive,
        warnings,
        steps,
    }
}

fn atomic(database: &Database, drive: &Drive) -> Plan {
    let mut steps = vec!["Ask the drive: nvme id-ns shows nawupf, or nvme id-ctrl awupf, in blocks less one: with blocks of 4 KiB it must be 3 or more, with 512 bytes 31 or more.".to_owned()];
    if !drive.is_atomic(PAGE) {
        steps.push("To try it here, in the drive's TOML:\n[drive]\natomic_write = \"16KiB\"".into());
    }
    steps.extend([
        "The file system must place pages of 16 KiB whole and aligned: mkfs.xfs -d su=16k,sw=1,extszinherit=4 (docs/studies/powercut.md). A partition must begin at a multiple of 16 KiB.".into(),
        format!("[{}]\ninnodb_flush_method = O_DIRECT\ninnodb_doublewrite = OFF", group(database)),
        "Restart the server. tranche study powercut shows with a real server that pages stay whole.".into(),
    ]);
    Plan {
        name: "atomic",
        description: "No doublewrite buffer, on a drive that writes 16 KiB atomically.".into(),
        arrangement: Arrangement { twice: false, memory: false, atomic: true, logs: false },
        safe: true,
        needs: atomic_writes(drive, PAGE),
        place: Place::Drive,
        warnings: vec![GUARANTEE.into()],
        steps,
    }
}

/// How the logs get to a directory on another file system.
pub fn moving(database: &Database, directory: &str) -> Vec<String> {
    let files = database.server.has_doublewrite_files();
    let mut lines = format!("[{}]\ninnodb_log_group_home_dir = {directory}/redo", group(database));
    if database.binlog {
        lines += &format!("\nlog_bin = {directory}/binlog/binlog");
    }
    if database.doublewrite && files {
        lines += &format!("\ninnodb_doublewrite_dir = {directory}/dwb");
    }
    let redo = if files { "#innodb_redo (or ib_logfile*)" } else { "ib_logfile0" };
    let mut steps = vec![
        lines,
        format!(
            "Make those directories, owned by the server's user. Shut the server down cleanly, move {redo} and the binary logs with their index there, and start it."
        ),
    ];
    if database.doublewrite && !files {
        steps.push("The doublewrite buffer of MariaDB stays where it is, in the system tablespace.".into());
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{drive::tests::drive, settings::Settings};

    fn database(server: &str, doublewrite: bool) -> Database {
        let read = Database::read(&Settings::default(), server.parse().unwrap()).unwrap();
        Database { doublewrite, ..read }
    }

    #[test]
    fn what_applies_depends_on_configuration_and_drive() {
        let names = |doublewrite, atomic| -> Vec<_> {
            plans(&database("mysql", doublewrite), &drive(atomic, true))
                .iter()
                .map(|p| (p.name, p.safe))
                .collect()
        };
        assert_eq!(names(true, "4KiB"), [("configured", true), ("dram", true), ("atomic", true)]);
        assert_eq!(names(true, "16KiB"), [("configured", true), ("dram", true), ("atomic", true)]);
        assert_eq!(
            names(false, "4KiB"),
            [("configured", false), ("doublewrite", true), ("dram", true), ("atomic", true)]
        );
        assert_eq!(names(false, "32KiB"), [("configured", true), ("doublewrite", true), ("dram", true)]);
        assert_eq!(excluded(&database("mysql", false), &drive("32KiB", true))[0].name, "atomic");
        assert!(excluded(&database("mysql", true), &drive("32KiB", true)).is_empty());
    }

    #[test]
    fn memory_that_forgets_is_not_safe() {
        let plans = plans(&database("mysql", true), &drive("4KiB", false));
        assert!(!plans[1].safe && plans[1].warnings.len() == 2);
    }

    #[test]
    fn the_step_has_lines_for_the_drive() {
        let steps = plans(&database("mysql", true), &drive("4KiB", true))[1].steps.join("\n");
        assert!(steps.contains(&memory("32MiB")), "{steps}");
    }

    #[test]
    fn steps_are_those_of_the_server() {
        let steps = |server| plans(&database(server, true), &drive("4KiB", true))[1].steps.join("\n");
        assert!(
            steps("mysql").contains("innodb_doublewrite_dir = /mnt/dwb") && steps("mysql").contains("32MiB"),
            "{}",
            steps("mysql")
        );
        assert!(
            !steps("mariadb").contains("innodb_doublewrite_dir")
                && steps("mariadb").contains("innodb_data_home_dir")
        );
    }
}
