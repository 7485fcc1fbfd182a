//! A drive's TOML that is wrong: the message has the line, the key or value, and what is allowed, in every table.

use drive_config::Config;

const NAND: &str = r#"[[set]]
media = "nand"
cell = "tlc"
capacity = "1GiB"
spare = "12.5%"
channels = 1
dies = 4
planes = 1
nand_page = "16KiB"
pages_per_block = 24
rated_cycles = 3000
"#;

const DRAM: &str = "[[set]]\nmedia = \"dram\"\ncapacity = \"64MiB\"\n";

/// A good file, to which lines of a table are added.
fn file(table: &str, line: &str) -> String {
    match table {
        "nand" => format!("{DRAM}\n{NAND}{line}\n"),
        "dram" => format!("{NAND}\n{DRAM}{line}\n"),
        "pmem" => format!("{NAND}\n[[set]]\nmedia = \"pmem\"\ncapacity = \"64MiB\"\n{line}\n"),
        "namespace" => {
            format!("{NAND}\n[[namespace]]\nsize = \"4MiB\"\n\n[[namespace]]\nsize = \"4MiB\"\n{line}\n")
        }
        "datasheet" => {
            format!("{NAND}\n[datasheet]\nsource = \"a maker\"\nread_latency = \"60us\"\n{line}\n")
        }
        _ => {
            let (above, table) = match table.strip_prefix("nand.").or(table.strip_prefix("dram.")) {
                Some(inner) if table.starts_with("nand") => (NAND, format!("set.{inner}")),
                Some(inner) => (DRAM, format!("set.{inner}")),
                None => (NAND, table.to_owned()),
            };
            format!("{above}\n[{table}]\n{line}\n")
        }
    }
}

/// The message of a file with such a line, which has to name its last line and show it.
fn error(table: &str, line: &str) -> String {
    let text = file(table, line);
    let error = Config::from_toml(&text).expect_err(line).to_string();
    let place = format!("at line {}, column ", text.lines().count());
    assert!(error.contains(&place) && error.contains(line), "{place} of {table}: {error}");
    error
}

const TABLES: [&str; 14] = [
    "drive",
    "link",
    "datasheet",
    "namespace",
    "nand",
    "nand.timing",
    "nand.gc",
    "nand.placement",
    "nand.window",
    "nand.zone",
    "nand.faults",
    "dram",
    "dram.timing",
    "pmem",
];

#[test]
fn a_misspelt_key_is_named_in_every_table() {
    for table in TABLES {
        let error = error(table, "handels = 1");
        assert!(error.contains("unknown field `handels`, expected "), "{table}: {error}");
    }
    assert!(error("nand", "superblock = 1").ends_with("did you mean superblocks?"));
    assert!(error("dram.timing", "reed = 1").ends_with("did you mean read?"));
    assert!(error("namespace", "atach = 1").ends_with("did you mean attach?"));
}

#[test]
fn a_value_of_the_wrong_kind_is_named_in_every_table() {
    for (table, line, allowed) in [
        ("drive", "timing = 1", "expected a boolean"),
        ("drive", "spare_threshold = 256", "`256`, expected a whole number from 0 to 255"),
        ("drive", "lba_formats = [4096, -1]", "`-1`, expected an LBA format such as 4096"),
        ("drive", "max_transfer = \"1Mib\"", "\"1Mib\" is not a size"),
        ("link", "read = 5", "expected a rate such as \"1.2GB/s\""),
        ("datasheet", "random_depth = \"many\"", "\"many\", expected a whole number from 0 to 4,294,967,295"),
        (
            "datasheet",
            "random_read_iops = -1",
            "expected a whole number from 0 to 18,446,744,073,709,551,615",
        ),
        ("namespace", "weight = 65536", "`65536`, expected a whole number from 0 to 65,535"),
        ("namespace", "attach = \"some\"", "unknown variant `some`, expected `all` or `none`"),
        ("namespace", "burst = 1", "expected a time such as"),
        ("nand", "superblocks = -1", "`-1`, expected a whole number from 0 to 4,294,967,295"),
        ("nand", "one_shot = \"yes\"", "\"yes\", expected a boolean"),
        ("nand", "gc = 5", "`5`, expected a table"),
        ("nand.timing", "program = \"600xs\"", "\"600xs\" is not a time"),
        ("nand.timing", "read = [\"60us\", 5]", "a time such as \"60us\", or a list"),
        ("nand.gc", "policy = \"greddy\"", "unknown variant `greddy`, expected one of `greedy`"),
        ("nand.gc", "low = 3.5", "`3.5`, expected a whole number from 0"),
        (
            "nand.placement",
            "isolation = \"none\"",
            "unknown variant `none`, expected `initial` or `persistent`",
        ),
        ("nand.window", "superblocks = []", "expected a whole number"),
        ("nand.faults", "wear_out = 1", "expected a percentage"),
        ("dram", "banks = 99999999999", "`99999999999`, expected a whole number from 0 to"),
        ("dram.timing", "bandwidth = \"3GB\"", "\"3GB\" is not a rate"),
        ("dram", "banks = 99999999999999999999999999999999999999999", "there are whole numbers up to"),
        ("pmem", "banks = true", "boolean `true`, expected a whole number"),
    ] {
        let error = error(table, line);
        assert!(error.contains(allowed), "{table}: {error}");
    }
}

#[test]
fn a_set_needs_a_medium_that_there_is() {
    let says = |set: &str, line: &str, said: &str| {
        let text = format!("{NAND}\n{set}\n");
        let error = Config::from_toml(&text).unwrap_err().to_string();
        let number = 1 + text.lines().position(|l| l == line).unwrap();
        assert!(error.contains(&format!("at line {number}, ")) && error.contains(said), "{error}");
    };
    let media = "expected one of `nand`, `dram`, `pmem`";
    says("[[set]] # 2\nbanks = 2\nmedia = \"tape\"", "media = \"tape\"", media);
    says("[[set]] # 2\nbanks = 2\nmedia = 5", "media = 5", "expected a string");
    says("[[set]] # 2\nbanks = 2", "[[set]] # 2", "missing field `media`");
    says("[[set]] # 2\nmedia = \"nand\"\ncell = \"tlc\"", "[[set]] # 2", "set.2 lacks channels, dies");
    let inline = Config::from_toml("set = [5]").unwrap_err().to_string();
    assert!(inline.contains("at line 1, column 8") && inline.contains("expected a table"), "{inline}");
    let one = Config::from_toml("set = 5").unwrap_err().to_string();
    assert!(one.contains("at line 1, column 7") && one.contains("expected a list"), "{one}");
}

#[test]
fn what_is_no_toml_is_named() {
    for (line, said) in [
        ("channels = 2", "duplicate key"),
        ("one_shot = ", "value"),
        ("superblocks 4", "`=`"),
        ("media = qlc", "string values must be quoted"),
    ] {
        let error = error("nand", line);
        assert!(error.contains(said), "{line}: {error}");
    }
}
