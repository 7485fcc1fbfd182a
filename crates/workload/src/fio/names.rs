//! The names of fio's options, and which of them mean something here.

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptionSupport {
    /// It is used.
    Used,
    /// It is accepted and changes nothing, because of this.
    Ignored(&'static str),
    /// fio has it; here it would mean something else than what is done.
    Refused,
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

const NO_FILE: &str = "there is no file, only the namespace";
const NO_ENGINE: &str = "commands go over NVMe/TCP";
const NO_LOG: &str = "logs are not written";
const OWN_WAY: &str = "it is a matter of how fio works inside";

/// Options that change nothing.
pub(super) const IGNORED: [(&str, &str); 76] = [
    ("description", "it is a comment"),
    ("ioengine", NO_ENGINE),
    ("direct", "there is no page cache on the way"),
    ("buffered", "there is no page cache on the way"),
    ("atomic", NO_ENGINE),
    ("invalidate", "there is no page cache on the way"),
    ("fadvise_hint", "there is no page cache on the way"),
    ("pre_read", "there is no page cache on the way"),
    ("directory", NO_FILE),
    ("filename_format", NO_FILE),
    ("unique_filename", NO_FILE),
    ("nrfiles", NO_FILE),
    ("openfiles", NO_FILE),
    ("file_service_type", NO_FILE),
    ("fallocate", NO_FILE),
    ("file_append", NO_FILE),
    ("overwrite", NO_FILE),
    ("create_serialize", NO_FILE),
    ("create_fsync", NO_FILE),
    ("create_on_open", NO_FILE),
    ("allow_file_create", NO_FILE),
    ("allow_mounted_write", NO_FILE),
    ("fsync_on_close", NO_FILE),
    ("unlink", NO_FILE),
    ("unlink_each_loop", NO_FILE),
    ("lockfile", NO_FILE),
    ("disk_util", NO_FILE),
    ("thread", "every job is a thread"),
    ("nice", OWN_WAY),
    ("prio", OWN_WAY),
    ("prioclass", OWN_WAY),
    ("cpumask", "use taskset"),
    ("cpus_allowed", "use taskset"),
    ("cpus_allowed_policy", "use taskset"),
    ("numa_cpu_nodes", "use numactl"),
    ("numa_mem_policy", "use numactl"),
    ("mem", OWN_WAY),
    ("iomem_align", OWN_WAY),
    ("lockmem", OWN_WAY),
    ("hugepage-size", OWN_WAY),
    ("clocksource", OWN_WAY),
    ("gtod_reduce", OWN_WAY),
    ("gtod_cpu", OWN_WAY),
    ("disable_lat", OWN_WAY),
    ("disable_clat", OWN_WAY),
    ("disable_slat", OWN_WAY),
    ("disable_bw_measurement", OWN_WAY),
    ("iodepth_batch", "all that may be submitted is submitted together"),
    ("iodepth_batch_complete_min", "whatever has completed is taken"),
    ("iodepth_batch_complete_max", "whatever has completed is taken"),
    ("iodepth_low", "the queue is kept full"),
    ("io_submit_mode", "jobs submit inline"),
    ("random_generator", "random places are a permutation that needs no memory"),
    ("softrandommap", "the random map cannot fail for want of memory"),
    ("refill_buffers", "what is written differs in every sector anyway"),
    ("scramble_buffers", "what is written differs in every sector anyway"),
    ("buffer_compress_percentage", "what is written is random"),
    ("buffer_compress_chunk", "what is written is random"),
    ("dedupe_percentage", "what is written is random"),
    ("write_bw_log", NO_LOG),
    ("write_lat_log", NO_LOG),
    ("write_iops_log", NO_LOG),
    ("write_hist_log", NO_LOG),
    ("log_avg_msec", NO_LOG),
    ("log_hist_msec", NO_LOG),
    ("per_job_logs", NO_LOG),
    ("bwavgtime", "samples are over 500 ms"),
    ("iopsavgtime", "samples are over 500 ms"),
    ("significant_figures", "figures have three or four digits"),
    ("clat_percentiles", "percentiles are those of the completion latency"),
    ("unit_base", "rates are bytes per second"),
    ("hipri", "use --poll"),
    ("fixedbufs", NO_ENGINE),
    ("registerfiles", NO_ENGINE),
    ("verify_dump", "what is wrong is said, not saved"),
    ("zonecapacity", "the drive says what its zones hold"),
];

/// Options of fio that are not done.
const REFUSED: [&str; 60] = [
    "wait_for",
    "opendir",
    "ba",
    "bs_unaligned",
    "bs_is_seq_rand",
    "ignore_error",
    "rw_sequencer",
    "serialize_overlap",
    "fill_device",
    "filesize",
    "offset_align",
    "percentage_random",
    "write_barrier",
    "sync_file_range",
    "verify_offset",
    "verify_async",
    "verify_backlog",
    "verify_backlog_batch",
    "experimental_verify",
    "verify_state_load",
    "verify_state_save",
    "trim_percentage",
    "trim_verify_zero",
    "trim_backlog",
    "trim_backlog_batch",
    "write_iolog",
    "read_iolog",
    "replay_no_stall",
    "replay_redirect",
    "replay_scale",
    "replay_align",
    "replay_time_scale",
    "replay_skip",
    "exec_prerun",
    "exec_postrun",
    "ioscheduler",
    "zonerange",
    "zoneskip",
    "thinktime_spin",
    "thinktime_blocks_type",
    "thinktime_iotime",
    "rate_min",
    "rate_cycle",
    "rate_ignore_thinktime",
    "rate_iops_min",
    "max_latency",
    "latency_target",
    "latency_window",
    "latency_percentile",
    "sync",
    "write_hint",
    "exitall",
    "exit_what",
    "buffer_pattern",
    "lat_percentiles",
    "slat_percentiles",
    "unified_rw_reporting",
    "continue_on_error",
    "flow",
    "steadystate",
];

/// The name that the others of the same option lead to.
pub(super) fn canonical(name: &str) -> &str {
    match name {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        "blockalign" => "ba",
        "io_limit" => "io_size",
        "start_delay" => "startdelay",
        "timeout" => "runtime",
        "wait_for_previous" => "stonewall",
        "iomem" => "mem",
        "mem_align" => "iomem_align",
        "iodepth_batch_submit" => "iodepth_batch",
        "iodepth_batch_complete" => "iodepth_batch_complete_min",
        "disable_bw" => "disable_bw_measurement",
        other => other,
    }
}

pub(super) fn is_flag(name: &str) -> bool {
    FLAGS.contains(&name)
}

pub(super) fn fate(name: &str) -> OptionSupport {
    if VALUES.contains(&name) || is_flag(name) {
        OptionSupport::Used
    } else if let Some((_, why)) = IGNORED.iter().find(|(ignored, _)| *ignored == name) {
        OptionSupport::Ignored(why)
    } else if REFUSED.contains(&name) {
        OptionSupport::Refused
    } else {
        OptionSupport::Unknown
    }
}

/// The options that are used, in words.
fn supported() -> String {
    let used: Vec<&str> = VALUES.iter().chain(&FLAGS).copied().collect();
    format!("supported are {} (docs/bench.md)", used.join(", "))
}

/// Says that an option of fio is not done here.
pub(super) fn refused(name: &str) -> String {
    format!("the option {name} is not supported here: remove it; {}", supported())
}

/// Says that there is no such option, and which may have been meant.
pub(super) fn unknown(name: &str) -> String {
    let all = VALUES.iter().chain(&FLAGS).chain(IGNORED.iter().map(|(name, _)| name));
    let shown: String = name.chars().take(40).collect();
    match units::nearest(name, all.copied()) {
        Some(near) => format!("there is no option {shown:?}: did you mean {near}? {}", supported()),
        None => format!("there is no option {shown:?}: {}", supported()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fio::Options;

    #[test]
    fn nearest_names() {
        for (name, words) in [
            ("iodpeth", "there is no option \"iodpeth\": did you mean iodepth? supported are rw, "),
            ("norandomap", "there is no option \"norandomap\": did you mean norandommap? supported are rw, "),
            ("frobnicate", "there is no option \"frobnicate\": supported are rw, "),
        ] {
            assert!(unknown(name).starts_with(words), "{}", unknown(name));
        }
        assert!(refused("verify_async").ends_with("zone_append, zero_buffers (docs/bench.md)"));
    }

    #[test]
    fn every_option_that_is_named_is_taken_and_documented() {
        let docs = include_str!("../../../../docs/bench.md");
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
        let used = VALUES.iter().chain(&FLAGS);
        for name in used.chain(IGNORED.iter().map(|(name, _)| name)).chain(&REFUSED) {
            assert!(docs.contains(&format!("`{name}`")), "docs/bench.md says nothing of {name}");
        }
    }
}
