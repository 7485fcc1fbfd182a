//! What this machine has left and what this process takes, as Linux tells it (proc(5), cgroups(7)).

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Memory that this program may still take, in bytes, if the machine tells: what is available on the machine, or what the control
/// groups of this program leave of their limits (a container's, a systemd unit's), whichever is less.
pub fn available_memory() -> Option<u64> {
    let machine = kibibytes("/proc/meminfo", "MemAvailable:")?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    Some(machine.min(left_by_groups(Path::new("/sys/fs/cgroup"), &groups)))
}

/// The inode number of a file, and its time of birth in nanoseconds since 1970 (0 where the file system does not record it). A copy has
/// others; a renamed file keeps them.
pub fn file_identity(file: &Metadata) -> [u64; 2] {
    let born = file.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    [file.ino(), born.map_or(0, |born| u64::try_from(born.as_nanos()).unwrap_or(u64::MAX))]
}

/// The most memory that this process has had, in bytes, if the machine tells.
pub fn peak_memory() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// An entry in kB of a file, in bytes.
fn kibibytes(file: &str, name: &str) -> Option<u64> {
    entry(&fs::read_to_string(file).ok()?, name, "kB").map(|kib| kib.saturating_mul(1024))
}

/// An entry of a table of names and numbers, before its unit.
fn entry(table: &str, name: &str, unit: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(unit)?.trim().parse().ok()
}

/// What the memory limits leave of these groups and of those around them, `u64::MAX` without a limit. `groups` is the text of
/// /proc/self/cgroup. A container may see its own group as the topmost one, or under a path that is not there: then the topmost counts.
fn left_by_groups(root: &Path, groups: &str) -> u64 {
    let trees = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        match (fields.next()?, fields.next()?) {
            // Version 2 is mounted there, or beside version 1.
            ("", path) => Some((if root.join("unified").is_dir() { "unified" } else { "" }, path)),
            (controllers, path) if controllers.split(',').any(|c| c == "memory") => Some(("memory", path)),
            _ => None,
        }
    });
    let mut least = u64::MAX;
    for (tree, path) in trees {
        for group in Path::new(path.trim_start_matches('/')).ancestors() {
            least = least.min(left(&root.join(tree).join(group)));
        }
    }
    least
}

/// What the limit of one group leaves: what is in use and could be dropped, files that were read lately, is not counted as used.
fn left(group: &Path) -> u64 {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let files = [("memory.max", "memory.current", "inactive_file "), VERSION_1];
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    files.iter().fold(u64::MAX, |least, (limit, used, dropped)| {
        let (Some(limit), Some(used)) = (number(limit), number(used)) else { return least };
        let stat = read("memory.stat").unwrap_or_default();
        let dropped = entry(&stat, dropped, "").unwrap_or(0);
        least.min(limit.saturating_sub(used.saturating_sub(dropped)))
    })
}

const VERSION_1: (&str, &str, &str) =
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");

#[cfg(test)]
mod tests {
    use super::*;

    fn group(root: &Path, path: &str, files: &[(&str, &str)]) {
        let dir = root.join(path);
        fs::create_dir_all(&dir).unwrap();
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn this_machine_tells() {
        assert!(available_memory().unwrap() > 0);
        assert!(peak_memory().unwrap() > 0);
    }

    #[test]
    fn groups_limit_what_is_available() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path();
        let limited =
            |limit, used, stat| [("memory.max", limit), ("memory.current", used), ("memory.stat", stat)];
        group(root, "", &[]);
        group(root, "a/b", &limited("max\n", "700\n", "inactive_file 10\n"));
        group(root, "a", &limited("1000\n", "700\n", "anon 5\ninactive_file 100\n"));
        assert_eq!(left_by_groups(root, "0::/a/b\n"), 400, "that around it has a limit");
        assert_eq!(left_by_groups(root, "0::/elsewhere\n"), u64::MAX);
        group(root, "a/b", &limited("50\n", "700\n", ""));
        assert_eq!(left_by_groups(root, "0::/a/b\n"), 0, "more is in use than may be");

        let older = [
            ("memory.limit_in_bytes", "5000"),
            ("memory.usage_in_bytes", "4000"),
            ("memory.stat", "total_inactive_file 1000"),
        ];
        group(root, "memory/c", &older);
        assert_eq!(left_by_groups(root, "5:cpu:/\n4:memory,hugetlb:/c\n"), 2000);
        // In a container: the path is that of the machine, the tree begins at the container's group.
        group(root, "memory", &older);
        assert_eq!(left_by_groups(root, "4:memory:/docker/123\n"), 2000);
        assert_eq!(left_by_groups(root, "nonsense\n:\n"), u64::MAX);
    }
}
