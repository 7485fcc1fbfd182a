//! How commands that read traces understand them.

use clap::Args;
use load_formats::trace::{Action, Format};

/// Options of all commands that read traces.
#[derive(Args, Clone, Debug)]
pub struct TraceForm {
    /// Traces of blktrace, blkparse, ftrace and LTTng: the events that count. An I/O is queued (Q), issued to the device (D) and an NVMe command (N)
    /// [default: Q; of ftrace and LTTng the first that comes]
    #[arg(long, value_name = "Q|D|N", value_parser = action)]
    action: Option<Action>,
    /// Traces of NVMe commands: size of a logical block [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = block_bytes)]
    trace_block: Option<u32>,
    /// Traces: in which form they are written: blktrace, blkparse, ftrace, lttng, dftracer, msr, alibaba, tencent, systor, twitter, cachelib,
    /// iolog2, iolog3 or recording [default: the beginning tells]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    trace_format: Option<Format>,
}

impl TraceForm {
    /// What they say.
    pub fn form(&self) -> lab_engines::sim::TraceForm {
        lab_engines::sim::TraceForm {
            action: self.action,
            block_bytes: self.trace_block,
            format: self.trace_format,
        }
    }
}

fn action(text: &str) -> Result<Action, String> {
    let action = text.parse().ok().and_then(Action::of);
    action.ok_or_else(|| format!("{text:?} is no action: it is Q (queued), D (issued) or N (NVMe command)"))
}

fn block_bytes(text: &str) -> Result<u32, String> {
    let bytes = units::parse_size(text).map_err(|wrong| wrong.to_string())?;
    let fits = bytes.is_power_of_two() && (512..=65_536).contains(&bytes);
    if fits {
        Ok(bytes as u32)
    } else {
        Err("a logical block has 512 bytes to 64KiB, a power of two".to_owned())
    }
}

fn format(text: &str) -> Result<Format, String> {
    let names = || Format::ALL.map(Format::name).join(", ");
    Format::named(text).ok_or_else(|| format!("there is no format {text:?}: there are {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn each_format_is_named() {
        assert_eq!(format("tencent"), Ok(Format::Tencent));
        assert!(format("csv").unwrap_err().contains("msr, alibaba, tencent, systor"));
        let help = TraceForm::augment_args(Command::new("x")).render_help().to_string();
        for format in Format::ALL {
            assert!(help.contains(format.name()), "{}", format.name());
        }
    }
}
