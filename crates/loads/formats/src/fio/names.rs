//! The names of fio's options, and which of them mean something here.

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptionSupport {
    /// It is used.
    Used,
    /// It is accepted and changes nothing, because of this.
    Ignored(&'static str),
    /// fio has it, and a job here does something else. This is why.
    Refused(&'static str),
    /// fio does not have it either.
    Unknown,
}

/// Options with a value.
pub(super) const VALUES: [&str; 39] = [
    "rw",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "bsrange",
    "bssplit",
    "iodepth",
    "numjobs",
    "size",
    "io_size",
    "offset",
    "offset_increment",
    "number_ios",
    "loops",
    "randseed",
    "runtime",
    "ramp_time",
    "startdelay",
    "thinktime",
    "thinktime_blocks",
    "rate",
    "rate_iops",
    "rate_process",
    "random_distribution",
    "fsync",
    "fdatasync",
    "verify",
    "verify_interval",
    "verify_pattern",
    "zonemode",
    "zonesize",
    "max_open_zones",
    "job_max_open_zones",
    "zone_reset_threshold",
    "zone_reset_frequency",
    "percentile_list",
    "kb_base",
    "name",
    "filename",
];

/// Options that are on or off.
pub(super) const FLAGS: [&str; 15] = [
    "norandommap",
    "randrepeat",
    "allrandrepeat",
    "time_based",
    "end_fsync",
    "do_verify",
    "verify_fatal",
    "verify_only",
    "group_reporting",
    "stonewall",
    "new_group",
    "read_beyond_wp",
    "ignore_zone_limits",
    "zone_append",
    "zero_buffers",
];

/// Names of options, by what becomes of them.
pub(super) type NamesByReason = &'static [(&'static str, &'static [&'static str])];

/// Options that change nothing, by why. `docs/bench.md` has the same table.
#[rustfmt::skip]
pub(super) const IGNORED: NamesByReason = &[
    ("it is a comment", &["description"]),
    ("Tranche has its own way to the drive", &[
        "ioengine", "atomic", "fixedbufs", "registerfiles", "sqthread_poll", "sqthread_poll_cpu", "nonvectored", "uncached",
        "nowait", "force_async", "cmd_type", "userspace_reap", "libaio_vectored", "thp",
    ]),
    ("I/Os go past the page cache", &["direct", "buffered", "invalidate", "fadvise_hint", "pre_read"]),
    ("a job is on one namespace, and makes no files", &[
        "directory", "filename_format", "unique_filename", "nrfiles", "openfiles", "file_service_type", "filetype", "fallocate",
        "file_append", "overwrite", "create_serialize", "create_fsync", "create_on_open", "allow_file_create",
        "allow_mounted_write", "fsync_on_close", "unlink", "unlink_each_loop", "lockfile", "disk_util",
    ]),
    ("jobs always run side by side", &["thread"]),
    ("it is a matter of how fio works inside", &[
        "nice", "mem", "iomem_align", "lockmem", "hugepage-size", "clocksource", "gtod_reduce", "gtod_cpu", "disable_lat",
        "disable_clat", "disable_slat", "disable_bw_measurement", "job_start_clock_id", "error_dump",
    ]),
    ("an I/O of a job goes before no other", &[
        "prio", "prioclass", "priohint", "cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_hint", "cmdprio_bssplit",
    ]),
    ("pin tranche bench with taskset", &["cpumask", "cpus_allowed", "cpus_allowed_policy"]),
    ("place tranche bench with numactl", &["numa_cpu_nodes", "numa_mem_policy"]),
    ("run tranche bench with systemd-run or sudo", &["cgroup", "cgroup_nodelete", "cgroup_weight", "uid", "gid"]),
    ("tranche bench polls with --poll", &["hipri", "hipri_percentage"]),
    ("all that may be submitted is submitted together", &["iodepth_batch"]),
    ("whatever has completed is taken", &["iodepth_batch_complete_min", "iodepth_batch_complete_max"]),
    ("the queue is kept full", &["iodepth_low"]),
    ("jobs submit inline", &["io_submit_mode"]),
    ("random places are a permutation that needs no memory", &["random_generator", "softrandommap"]),
    ("what is written is random and differs in every sector", &[
        "refill_buffers", "scramble_buffers", "buffer_compress_percentage", "buffer_compress_chunk", "dedupe_percentage",
        "dedupe_mode", "dedupe_working_set_percentage", "dedupe_global",
    ]),
    ("logs are not written", &[
        "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "log_avg_msec", "log_hist_msec", "per_job_logs",
        "log_entries", "log_hist_coarseness", "log_window_value", "log_offset", "log_prio", "log_issue_time",
        "log_compression", "log_compression_cpus", "log_store_compressed", "log_alternate_epoch",
        "log_alternate_epoch_clock_id",
    ]),
    ("samples are over 500 ms", &["bwavgtime", "iopsavgtime"]),
    ("figures have three or four digits", &["significant_figures"]),
    ("percentiles are those of the completion latency", &["clat_percentiles"]),
    ("all is counted", &["stats", "block_error_percentiles"]),
    ("rates are bytes per second", &["unit_base"]),
    ("what is wrong is said, not saved", &["verify_dump"]),
    ("headers say where they belong, and in which seed", &["verify_write_sequence", "verify_header_seed"]),
    ("the drive says what its zones hold", &["zonecapacity"]),
];

/// Options of fio that are refused: a job here does something else. By why. `docs/bench.md` has the same table.
#[rustfmt::skip]
const REFUSED: NamesByReason = &[
    ("jobs wait with stonewall and startdelay only", &["wait_for"]),
    ("a job is on one namespace", &["opendir"]),
    ("blocks lie at multiples of their size", &["ba", "bs_unaligned", "offset_align"]),
    ("block sizes go by direction", &["bs_is_seq_rand"]),
    ("an error ends its job, and no other", &["ignore_error", "continue_on_error", "exitall", "exit_what", "exitall_on_error", "recover_zbd_write_error"]),
    ("places are in order, or at random", &["rw_sequencer", "percentage_random", "sprandom"]),
    ("I/Os that overlap are not held back", &["serialize_overlap"]),
    ("size says how much there is", &["fill_device", "filesize", "create_only"]),
    ("flushes are fsync, fdatasync and end_fsync", &["write_barrier", "sync_file_range", "sync"]),
    ("a header is at the start of what is verified", &["verify_offset", "verify_pattern_interval"]),
    ("verification comes after all writes", &[
        "verify_async", "verify_backlog", "verify_backlog_batch", "experimental_verify", "verify_state_load", "verify_state_save",
    ]),
    ("trims are rw=trim and rw=trimwrite, one range each", &[
        "trim_percentage", "trim_verify_zero", "trim_backlog", "trim_backlog_batch", "num_range",
    ]),
    ("a trace is a load of its own (docs/loads.md)", &[
        "write_iolog", "read_iolog", "read_iolog_chunked", "replay_no_stall", "replay_redirect", "replay_scale", "replay_align",
        "replay_time_scale", "replay_skip", "merge_blktrace_file", "merge_blktrace_scalars", "merge_blktrace_iters",
    ]),
    ("a job runs no programs, and changes nothing on the machine", &["exec_prerun", "exec_postrun", "ioscheduler", "profile"]),
    ("zonemode=strided is not done", &["zonerange", "zoneskip"]),
    ("pauses are thinktime and thinktime_blocks", &["thinktime_spin", "thinktime_blocks_type", "thinktime_iotime", "thinkcycles"]),
    ("rates are limits, and a job that is slower goes on", &["rate_min", "rate_cycle", "rate_ignore_thinktime", "rate_iops_min"]),
    ("the queue depth is iodepth, whatever the latency", &["max_latency", "latency_target", "latency_window", "latency_percentile", "latency_run"]),
    ("jobs do not wait for each other's progress", &["flow", "flow_id", "flow_sleep"]),
    ("a runtime ends a job", &["steadystate", "steadystate_duration", "steadystate_ramp_time", "steadystate_check_interval"]),
    ("writes have no hints and no streams", &["write_hint", "fdp", "dataplacement", "plid_select", "plids", "dp_scheme", "stream_id"]),
    ("commands are Read, Write and Dataset Management, without FUA", &["readfua", "writefua", "write_mode", "verify_mode", "deac", "sg_write_mode"]),
    ("I/Os have no metadata", &["md_per_io_size", "pi_act", "pi_chk", "apptag", "apptag_mask"]),
    ("patterns are zero_buffers and verify_pattern", &["buffer_pattern"]),
    ("reports have completion latencies, by direction", &["lat_percentiles", "slat_percentiles", "unified_rw_reporting"]),
    ("it belongs to an engine that does no I/O on a namespace", &[
        "cpuload", "cpuchunks", "cpumode", "exit_on_io_done", "hostname", "bindname", "port", "protocol", "nodelay", "listen",
        "pingpong", "interface", "ttl", "window_size", "mss", "stat_type", "program", "arguments", "grace_time", "std_redirect",
        "nfs_url", "donorname", "inplace", "volume", "brick", "single-instance", "skip_bad", "uri", "verb", "clustername",
        "rbdname", "pool", "clientname", "conf", "busy_poll", "touch_objects",
    ]),
];

/// Engines of fio that do no I/O on a device.
const NO_DEVICE: [&str; 22] = [
    "cpuio",
    "net",
    "netsplice",
    "exec",
    "filecreate",
    "filestat",
    "filedelete",
    "dircreate",
    "dirstat",
    "dirdelete",
    "ftruncate",
    "falloc",
    "e4defrag",
    "rdma",
    "rados",
    "rbd",
    "nfs",
    "gfapi",
    "gfapi_async",
    "http",
    "nbd",
    "mtd",
];

/// The name that the others of the same option lead to.
pub(super) fn canonical(name: &str) -> &str {
    match name {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        "blockalign" => "ba",
        "fileoffset" => "offset",
        "io_limit" => "io_size",
        "fill_fs" => "fill_device",
        "nr_files" => "nrfiles",
        "percentage_sequential" => "percentage_random",
        "start_delay" => "startdelay",
        "timeout" => "runtime",
        "wait_for_previous" => "stonewall",
        "iomem" => "mem",
        "mem_align" => "iomem_align",
        "iodepth_batch_submit" => "iodepth_batch",
        "iodepth_batch_complete" => "iodepth_batch_complete_min",
        "disable_bw" => "disable_bw_measurement",
        "ratemin" => "rate_min",
        "ratecycle" => "rate_cycle",
        "log_max_value" => "log_window_value",
        "log_unix_epoch" => "log_alternate_epoch",
        "data_placement" => "dataplacement",
        "fdp_pli" => "plids",
        "fdp_pli_select" => "plid_select",
        "proto" => "protocol",
        "ss" => "steadystate",
        "ss_dur" => "steadystate_duration",
        "ss_ramp" => "steadystate_ramp_time",
        "ss_interval" => "steadystate_check_interval",
        other => other,
    }
}

pub(super) fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

fn reason(table: NamesByReason, name: &str) -> Option<&'static str> {
    table.iter().find(|(_, names)| names.contains(&name)).map(|(why, _)| *why)
}

pub(super) fn fate(name: &str) -> OptionSupport {
    if VALUES.contains(&name) || is_flag(name) {
        return OptionSupport::Used;
    }
    match (reason(IGNORED, name), reason(REFUSED, name)) {
        (Some(why), _) => OptionSupport::Ignored(why),
        (None, Some(why)) => OptionSupport::Refused(why),
        (None, None) => OptionSupport::Unknown,
    }
}

/// Says that an option of fio is not done here.
pub(super) fn refused(name: &str, why: &str) -> String {
    format!("the option {name} is not supported: {why}. Remove it (docs/bench.md has those that are)")
}

/// Says that there is no such option, and which may have been meant.
pub(super) fn unknown(name: &str) -> String {
    let tables = IGNORED.iter().chain(REFUSED).flat_map(|(_, names)| *names);
    let all = VALUES.iter().chain(&FLAGS).chain(tables).copied();
    let shown: String = name.chars().take(40).collect();
    match units::nearest_few(name, all)[..] {
        [] => format!("there is no option {shown:?}: docs/bench.md has those that there are"),
        [one] => format!("there is no option {shown:?}: did you mean {one}?"),
        [ref more @ .., last] => {
            format!("there is no option {shown:?}: did you mean {} or {last}?", more.join(", "))
        }
    }
}

/// Whether an engine of fio works on a device.
///
/// # Errors
/// It does something else, which no job does here.
pub(super) fn check_engine(engine: &str) -> Result<(), String> {
    match NO_DEVICE.contains(&engine) {
        true => Err(format!("{engine} does no I/O on a namespace: a job here reads, writes and trims")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Options;

    #[test]
    fn nearest_names() {
        for (name, words) in [
            ("iodpeth", "there is no option \"iodpeth\": did you mean iodepth?"),
            ("norandomap", "there is no option \"norandomap\": did you mean norandommap?"),
            ("verify_patern", "there is no option \"verify_patern\": did you mean verify_pattern?"),
            ("frobnicate", "there is no option \"frobnicate\": docs/bench.md has those that there are"),
        ] {
            assert_eq!(unknown(name), words);
        }
    }

    #[test]
    fn every_option_that_is_named_is_taken_and_documented() {
        let docs = include_str!("../../../../../docs/bench.md");
        for name in VALUES.iter().filter(|name| !["name", "filename"].contains(*name)) {
            let error = Options::default().set(name, Some("\u{1}")).unwrap_err();
            assert!(!error.contains("there is no option"), "{name}: {error}");
        }
        for name in FLAGS {
            let mut options = Options::default();
            let off = match name {
                "randrepeat" | "allrandrepeat" | "do_verify" => "0",
                _ => "1",
            };
            assert_eq!(options.set(name, Some(off)), Ok(None), "{name}");
            assert_ne!(options, Options::default(), "{name}");
        }
        for name in VALUES.iter().chain(&FLAGS) {
            assert!(docs.contains(&format!("`{name}`")), "docs/bench.md says nothing of {name}");
        }
        for (why, names) in IGNORED.iter().chain(REFUSED) {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {why} |", names.join(", "));
            assert!(docs.contains(&row), "docs/bench.md lacks\n{row}");
        }
    }

    /// Job files are run by several commands, and each prints these notes: an option of one command stands beside its name.
    #[test]
    fn a_note_is_true_of_each_command() {
        for (why, _) in IGNORED {
            let tells_to_do = ["use ", "pin ", "place ", "run "].iter().any(|verb| why.starts_with(verb));
            assert!(!(why.contains("--") || tells_to_do) || why.contains("tranche bench"), "{why}");
            assert!(!why.contains("NVMe/TCP") && !why.contains("thread"), "{why}");
        }
    }

    #[test]
    fn no_option_is_in_two_tables() {
        let tables = IGNORED.iter().chain(REFUSED).flat_map(|(_, names)| *names);
        let mut all: Vec<&str> = VALUES.iter().chain(&FLAGS).chain(tables).copied().collect();
        all.sort_unstable();
        let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
        for name in all {
            assert_eq!(canonical(name), name);
        }
    }
}
