//! Job files: read, written, refused.

use load_formats::fio::{Distribution, JobFile, Setting, Sizes, fuzz};
use proptest::prelude::*;

fn parse(text: &str) -> JobFile {
    JobFile::parse(text, &|name| (name == "SIZE").then(|| "64m".to_owned())).unwrap()
}

const FILE: &str = "; two phases
[global]
ioengine=libaio
direct=1
size=${SIZE}
   bs = 4k,8k
# the first
[fill]
rw=write
stonewall

[mixed]
name=renamed
stonewall
rw=randrw
rwmixread=70
numjobs=2
group_reporting
random_distribution=zipf:0.9
bssplit=4k/60:64k/,8k
[beside]
";

#[test]
fn a_file_and_its_jobs() {
    let file = parse(FILE);
    assert_eq!(
        file.to_string(),
        "[global]
ioengine=libaio
direct=1
size=64m
bs=4k,8k

[fill]
rw=write
stonewall

[mixed]
name=renamed
stonewall
rw=randrw
rwmixread=70
numjobs=2
group_reporting
random_distribution=zipf:0.9
bssplit=4k/60:64k/,8k

[beside]
"
    );
    let jobs = file.jobs().unwrap();
    let names: Vec<(&str, u32, u32)> =
        jobs.jobs.iter().map(|job| (job.name.as_str(), job.phase, job.group)).collect();
    assert_eq!(names, [("fill", 0, 0), ("renamed", 1, 1), ("beside", 1, 1)]);
    assert_eq!(
        jobs.notes,
        [
            "ioengine is ignored: Tranche has its own way to the drive",
            "direct is ignored: I/Os go past the page cache",
        ]
    );
    let mixed = &jobs.jobs[1].options;
    assert_eq!((mixed.rwmixread, mixed.numjobs, mixed.group_reporting), (70, 2, true));
    assert_eq!(mixed.distribution, Distribution::Zipf(900_000, None));
    assert_eq!(mixed.sizes[0], Sizes::Split(vec![(4096, 60), (65536, 40)]));
    assert_eq!(mixed.sizes[1], Sizes::Split(vec![(8192, 100)]));
    assert_eq!(jobs.jobs[0].options.sizes[..2], [Sizes::Range(4096, 4096), Sizes::Range(8192, 8192)]);
    assert_eq!(jobs.jobs[0].own, [("rw".to_owned(), "write".to_owned())]);
}

#[test]
fn wrong_files_say_where_and_what() {
    let variable = |name: &str| (name == "SHARP").then(|| "a#b".to_owned());
    let complaint = |text: &str| match JobFile::parse(text, &variable) {
        Ok(file) => file.jobs().map(|_| ()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    for (text, said) in [
        ("", "line 1: the file has no job: write a section [name]"),
        ("[global]\nbs=4k\n", "line 1: the file has no job: write a section [name]"),
        ("bs=4k\n", "line 1: an option before the first section: put [global] or [name] above it"),
        ("[a\n", "line 1: the section's name has no closing bracket: write [name]"),
        ("[a]\n\niodpeth=4\n", "line 3: there is no option \"iodpeth\": did you mean iodepth?"),
        ("[a]\nbs=4q\n", "line 2: bs: \"4q\" is no size: write 4096, 64k, 1m or 2g"),
        ("[a]\nbs\n", "line 2: bs needs a value: write bs=…"),
        ("[a]\ninclude other.fio\n", "line 2: include is not supported: put the other file's lines here"),
        (
            "[a]\nzoneskip=1m\n",
            "line 2: the option zoneskip is not supported: zonemode=strided is not done. Remove it (docs/bench.md has those that are)",
        ),
        (
            "[a]\nioengine=cpuio\n",
            "line 2: ioengine: cpuio does no I/O on a namespace: a job here reads, writes and trims",
        ),
        (
            "[a]\nname=${SHARP}\n",
            "line 2: name=${SHARP}: a variable has \"name=a#b\" here; ; and # begin a remark",
        ),
        ("[a]\nzonemode=strided\n", "line 2: zonemode: strided is not supported: none or zbd"),
        ("[a]\ntime_based\n", "line 1: time_based needs a runtime"),
        ("[a]\nverify=pattern\n", "line 1: verify=pattern needs a verify_pattern"),
        ("[a]\nbssplit=4k/60:8k/50\n", "line 2: bssplit: \"4k/60:8k/50\": the percentages make 110, not 100"),
        ("[a]\nnumjobs=1000\n[b]\nnumjobs=100\n", "line 3: more than 1024 jobs"),
        (
            "[a]\n\nsize=${X}\n",
            "line 3: size=${X}: nothing is left of the value: set the environment variable",
        ),
        (
            "[a]\nnumjobs=$ncpus\n",
            "line 2: $ncpus is not supported, because it means another load on another machine: write the number, or an environment variable",
        ),
        (
            "[a]\nbssplit=(2*4k)/50:8k/50\n",
            "line 2: bssplit: \"(2*4k)/50:8k/50\": arithmetic in parentheses is not supported: write the value",
        ),
        ("[a]\nsize=${X\n", "line 2: a variable has no closing brace: write ${NAME}"),
        (
            "[a]\nrandom_distribution=zipf_scaled:0.9:1.5\n",
            "line 2: random_distribution: \"zipf_scaled:0.9:1.5\": the scale is a whole number from 1 to 1,000,000, such as zipf_scaled:0.9:250",
        ),
        (
            "[a]\nrandom_distribution=zipf:1\n",
            "line 2: random_distribution: zipf with an exponent of 1 is not defined: use 0.99 or 1.01",
        ),
    ] {
        assert_eq!(complaint(text), said);
    }
}

/// As fio: a line ends where a remark begins, whatever stands before it.
#[test]
fn remarks_end_a_line() {
    let file = parse(
        "[a] ; one\nbs=4k ; page\nstonewall # wait\nname=x#y\nfilename=/dev/nvme0n1;/dev/nvme0n2\n  # all\nrw=;\n",
    );
    let settings = |(name, value): (&str, Option<&str>)| (name.to_owned(), value.map(str::to_owned));
    let expected = [
        ("bs", Some("4k")),
        ("stonewall", None),
        ("name", Some("x")),
        ("filename", Some("/dev/nvme0n1")),
        ("rw", Some("")),
    ];
    let read: Vec<_> = file.sections[0].settings.iter().map(|s| (s.name.clone(), s.value.clone())).collect();
    assert_eq!((file.sections[0].name.as_str(), read), ("a", expected.map(settings).to_vec()));
}

#[test]
fn block_sizes_share_all_that_there_is() {
    for (text, parts) in [
        ("4k/100:64k/0", vec![(4096, 100)]),
        ("4k/49:8k/50", vec![(4096, 49), (8192, 51)]),
        ("4k/50:8k/49", vec![(4096, 51), (8192, 49)]),
        ("4k/98:8k:16k", vec![(4096, 98), (8192, 1), (16384, 1)]),
        ("4k/100:8k", vec![(4096, 100)]),
    ] {
        let jobs = parse(&format!("[a]\nbssplit={text}\n")).jobs().unwrap();
        assert_eq!(jobs.jobs[0].options.sizes[0], Sizes::Split(parts), "{text}");
    }
    assert!(parse("[a]\nbssplit=4k/0:8k/0\n").jobs().is_err());
}

#[test]
fn the_examples_are_jobs() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../jobs");
    let files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4);
    for path in files {
        let jobs = parse(&std::fs::read_to_string(&path).unwrap()).jobs();
        assert!(jobs.as_ref().is_ok_and(|jobs| jobs.notes.is_empty()), "{}: {jobs:?}", path.display());
    }
}

fn setting() -> impl Strategy<Value = (String, Option<String>)> {
    // Neither comments nor heads nor variables; the rest of the line may be anything.
    ("[a-z_]{1,12}", proptest::option::of("([!\"%-:<-~]([ -\"%-:<-~]{0,20}[!\"%-:<-~])?)?"))
        .prop_filter("an include is none", |(name, _)| name != "include")
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(
        sections in proptest::collection::vec(("[A-Za-z0-9_-]{1,10}", proptest::collection::vec(setting(), 0..6)), 0..5)
    ) {
        let mut file = JobFile::default();
        for (name, settings) in sections {
            let settings = settings.into_iter().map(|(name, value)| Setting { line: 0, name, value });
            file.sections.push(load_formats::fio::Section { line: 0, name, settings: settings.collect() });
        }
        let mut back = JobFile::parse(&file.to_string(), &|_| None).unwrap();
        for section in &mut back.sections {
            section.line = 0;
            section.settings.iter_mut().for_each(|setting| setting.line = 0);
        }
        prop_assert_eq!(back, file);
    }

    #[test]
    fn no_text_is_too_strange(text in "(\\[a\\]|[a-z]{1,4}=|rw=rand(rw|write)|bs=|size=|\n|[0-9]{1,3}[kmg%:/,-]|\\PC)*") {
        fuzz(&text);
    }

    #[test]
    fn no_job_is_too_strange(
        rw in "(rand)?(read|write|rw|trim)",
        sizes in "(bs=[1-9]k|bsrange=[1-4]k-[5-9]k|bssplit=[1-4]k/[1-9]0:8k/|bs=1k,2k,3k)",
        rest in proptest::collection::vec(
            "(iodepth=[1-9]|size=[1-9][0-9]{0,2}k|io_size=[1-9][0-9]{0,3}k|loops=[1-3]|number_ios=[0-9]{1,2}|norandommap|\
             thinktime=[1-9]|fsync=[1-9]|verify=(md5|meta|crc32c)|verify_only|end_fsync|rate=[0-9]{4,6}|rate_process=poisson|\
             rate_iops=[1-9]{2,5}|offset=[0-9]k|offset=[1-9]%|random_distribution=(zipf:[02].[1-9]|zipf_scaled:0.[1-9]:[1-9]|pareto:0.[1-9]|normal:[1-9]|\
             zoned:50/5:50/5|zoned_shuffled:50/5:50/5)|runtime=[1-9]ms|ramp_time=[1-9]us|startdelay=1|verify_fatal|zonemode=zbd|size=[1-9]z|zone_append|\
             max_open_zones=[0-6]|job_max_open_zones=[0-2]|zone_reset_threshold=0.[1-9]|zone_reset_frequency=0.[1-9]|\
             read_beyond_wp)", 0..12)
    ) {
        fuzz(&format!("[x]\nrw={rw}\n{sizes}\n{}\n", rest.join("\n")));
    }
}
