//! Which layouts there are for a configuration, and how one gets there.

use database_models::postgresql::PAGE;

use super::database::Database;
use crate::{
    drive::Drive,
    layouts::{
        Arrangement, Excluded, GUARANTEE, Layout, NOT_PROTECTED, Place, Plan, atomic_writes, memory,
        protected_memory, size,
    },
};

/// A namespace in a drive's memory that is larger than this is told to be unusual.
const USUAL_MEMORY_BYTES: u64 = 4 << 30;

/// The layouts that there are for PostgreSQL.
pub const ALL: [Layout; 7] = [
    Layout::Configured,
    Layout::Fpw,
    Layout::Wal,
    Layout::Atomic,
    Layout::Zones,
    Layout::Cache,
    Layout::Quota,
];

/// What is not simulated, and why.
pub fn excluded(database: &Database, drive: &Drive) -> Vec<Excluded> {
    let mut excluded = Vec::new();
    if !database.full_page_writes && drive.is_atomic(PAGE) {
        excluded.push(Excluded {
            name: "atomic",
            why: "it is what is configured: the drive writes 8 KiB atomically, and full_page_writes is off"
                .into(),
        });
    }
    excluded
}

/// The layouts that are simulated; what is configured is the first.
pub fn plans(database: &Database, drive: &Drive) -> Vec<Plan> {
    let mut plans = vec![configured(database, drive)];
    if !database.full_page_writes && !drive.is_atomic(PAGE) {
        plans.push(fpw(database));
    }
    plans.push(wal(database, drive));
    if database.full_page_writes || !drive.is_atomic(PAGE) {
        plans.push(atomic(database, drive));
    }
    plans
}

fn configured(database: &Database, drive: &Drive) -> Plan {
    let whole = database.full_page_writes || drive.is_atomic(PAGE);
    let description = match database.full_page_writes {
        true => "As configured: full_page_writes on, the log beside the data.",
        false => "As configured: full_page_writes off, the log beside the data.",
    };
    let mut warnings = Vec::new();
    if !whole {
        warnings.push("A power cut may tear a page of 8 KiB, and nothing mends it: full_page_writes is off, and this drive does not write 8 KiB atomically.".into());
    }
    if !database.fsync {
        warnings.push("A power cut may destroy the database: fsync is off.".into());
    }
    Plan {
        name: "configured",
        description: description.into(),
        arrangement: Arrangement {
            twice: database.full_page_writes,
            memory: false,
            atomic: drive.is_atomic(PAGE),
            logs: false,
        },
        safe: whole && database.fsync,
        needs: None,
        place: Place::Drive,
        warnings,
        steps: Vec::new(),
    }
}

/// Lines of `postgresql.conf`, with `fsync` if that was off.
fn lines(database: &Database, line: &str) -> String {
    if database.fsync { line.to_owned() } else { format!("fsync = on\n{line}") }
}

/// What makes lines count that need no restart.
const RELOAD: &str = "Reload the server: SELECT pg_reload_conf().";

fn fpw(database: &Database) -> Plan {
    Plan {
        name: "fpw",
        description: "full_page_writes on, the log beside the data.".into(),
        arrangement: Arrangement { twice: true, memory: false, atomic: false, logs: false },
        safe: true,
        needs: None,
        place: Place::Drive,
        warnings: Vec::new(),
        steps: vec![lines(database, "full_page_writes = on"), RELOAD.into()],
    }
}

fn wal(database: &Database, drive: &Drive) -> Plan {
    // A quarter more: max_wal_size is no hard limit.
    let bytes = (database.max_wal_size / 4 * 5 + (64 << 20)).next_multiple_of(16 << 20);
    let text = size(bytes);
    let mut steps = vec![
        format!("On a real drive: a namespace of {text} in its power-protected memory."),
        format!("To try it here, in the drive's TOML:\n{}", memory(&format!("{}MiB", bytes >> 20))),
        format!(
            "tranche ns create --nvm-set 2 --size {}MiB --lba 4096, and tranche ns attach (docs/drive-toml.md)",
            bytes >> 20
        ),
        "mkfs.ext4 on that namespace, and mount it at /mnt/wal, owned by the server's user.".into(),
    ];
    let [moved, started] = moving(database, "/mnt/wal");
    steps.push(moved);
    if !database.full_page_writes || !database.fsync {
        steps.push(lines(database, "full_page_writes = on"));
    }
    steps.push(started);
    let mut warnings = vec![
        "The memory must keep its content in a power cut (capacitors). Without that, the log is lost with all transactions since \
         the last checkpoint, and the database with it: the layout is unsafe."
            .to_owned(),
        "max_wal_size is no hard limit: archiving that fails, replication slots and wal_keep_size keep more. A full pg_wal stops the server."
            .to_owned(),
    ];
    if bytes > USUAL_MEMORY_BYTES {
        warnings.push(format!("Few drives have {text} of protected memory. A smaller max_wal_size takes less, and makes more checkpoints, which was not simulated."));
    }
    if !drive.is_protected() {
        warnings.push(NOT_PROTECTED.into());
    }
    Plan {
        name: "wal",
        description: "full_page_writes on, and the log on a namespace in the drive's protected memory."
            .into(),
        arrangement: Arrangement { twice: true, memory: true, atomic: false, logs: false },
        safe: drive.is_protected(),
        needs: protected_memory(drive, bytes),
        place: Place::Drive,
        warnings,
        steps,
    }
}

fn atomic(database: &Database, drive: &Drive) -> Plan {
    let mut steps = vec!["Ask the drive: nvme id-ns shows nawupf, or nvme id-ctrl awupf, in blocks less one: with blocks of 4 KiB it must be 1 or more, with 512 bytes 15 or more.".to_owned()];
    if !drive.is_atomic(PAGE) {
        steps.push("To try it here, in the drive's TOML:\n[drive]\natomic_write = \"8KiB\"".into());
    }
    steps.extend([
        "The file system must have blocks of 8 KiB, because PostgreSQL writes through the page cache: mkfs.xfs -b size=8k, with Linux 6.12 or later, which calls such blocks experimental (docs/howto/postgresql.md). A partition must begin at a multiple of 8 KiB.".into(),
        lines(database, "full_page_writes = off"),
        RELOAD.into(),
        "tranche study powercut --variants postgres-atomic shows with a real server that pages stay whole.".into(),
    ]);
    Plan {
        name: "atomic",
        description: "full_page_writes off, on a drive that writes 8 KiB atomically.".into(),
        arrangement: Arrangement { twice: false, memory: false, atomic: true, logs: false },
        safe: true,
        needs: atomic_writes(drive, PAGE),
        place: Place::Drive,
        warnings: vec![GUARANTEE.into()],
        steps,
    }
}

/// How the log gets to a directory on another file system.
pub fn moving(database: &Database, directory: &str) -> [String; 2] {
    let data = &database.data;
    [
        format!(
            "Stop the server, and move the log:\nmv {data}/pg_wal {directory}/pg_wal\nln -s {directory}/pg_wal {data}/pg_wal"
        ),
        "Start the server. A new cluster has its log there with initdb --waldir.".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{drive::tests::drive, postgresql::file::Files, server::Server};

    fn database(full_page_writes: bool) -> Database {
        let server: Server = "postgresql-17".parse().unwrap();
        let read = Database::read(&Files::default(), server).unwrap();
        Database { full_page_writes, ..read }
    }

    #[test]
    fn what_applies_depends_on_configuration_and_drive() {
        let names = |on, atomic| -> Vec<_> {
            plans(&database(on), &drive(atomic, true)).iter().map(|plan| (plan.name, plan.safe)).collect()
        };
        let usual = [("configured", true), ("wal", true), ("atomic", true)];
        assert_eq!((names(true, "4KiB"), names(true, "8KiB")), (usual.to_vec(), usual.to_vec()));
        assert_eq!(
            names(false, "4KiB"),
            [("configured", false), ("fpw", true), ("wal", true), ("atomic", true)]
        );
        assert_eq!(names(false, "16KiB"), [("configured", true), ("wal", true)]);
        assert_eq!(excluded(&database(false), &drive("8KiB", true))[0].name, "atomic");
        assert!(excluded(&database(true), &drive("8KiB", true)).is_empty());
        let off = Database { fsync: false, ..database(true) };
        let plans = plans(&off, &drive("4KiB", true));
        assert!(!plans[0].safe && plans[1..].iter().all(|plan| plan.steps.join("").contains("fsync = on")));
    }

    #[test]
    fn the_log_fits_its_namespace() {
        let plans = plans(&database(true), &drive("4KiB", false));
        let steps = plans[1].steps.join("\n");
        // 1 GiB and a quarter, and 64 MiB.
        assert!(steps.contains("--size 1344MiB") && steps.contains(&memory("1344MiB")), "{steps}");
        assert!(!plans[1].safe && plans[1].warnings.len() == 3);
        let large = Database { max_wal_size: 64 << 30, ..database(true) };
        assert!(wal(&large, &drive("4KiB", true)).warnings[2].contains("Few drives"));
    }
}
