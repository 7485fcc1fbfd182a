//! Commands that only look: `id`, `smart`.

use crate::args::{Id, IdOf, Smart, SmartOf};
use crate::connect::{Connected, connect};
use crate::meaning::{self, Page, Zones};
use crate::options::Output;
use crate::refusal::{LOCKED_STATE, about, about_set, absent};
use crate::{print_json, print_text, zone_shape};
use anyhow::{Context, Result};
use host::view;
use nvme::identify::IdentifyNamespace;
use nvme::log::LogId;
use serde_json::{Value, to_value};

/// Prints an object: as JSON, or a line for each of its plain values, with what it means.
fn print(page: Page, value: &Value, output: Output) -> Result<()> {
    if output == Output::Json {
        return print_json(value);
    }
    let mut lines = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            // Of each thing in a list what is plain; of histograms inside, the JSON has more.
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    plain(page, &format!("{key}[{index}]."), item, &mut lines);
                }
            }
            Value::Object(_) => plain(page, &format!("{key}."), value, &mut lines),
            value => line(page, key, value, &mut lines),
        }
    }
    print_text(&lines.join("\n"))
}

/// The plain values of an object inside another, under joined names.
fn plain(page: Page, prefix: &str, object: &Value, lines: &mut Vec<String>) {
    for (key, value) in object.as_object().into_iter().flatten() {
        line(page, &format!("{prefix}{}", key.trim_end()), value, lines);
    }
}

fn line(page: Page, key: &str, value: &Value, lines: &mut Vec<String>) {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_u64() {
            Some(value) => meaning::number(page, key, value),
            None => number.to_string(),
        },
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return,
    };
    lines.push(format!("{key:<36} {text}"));
}

/// How a drive like ours stores a namespace: byte 384 of Identify Namespace (docs/vendor.md). Others have no log D8h, or mean
/// something else.
fn stored(host: &mut Connected, namespace: &IdentifyNamespace) -> Option<&'static str> {
    let logs = host.supported_logs().ok()?;
    logs.lid[usize::from(LogId::NAMESPACE_STATISTICS.0)].lsupp().then_some(())?;
    match namespace.vs[0] {
        0 => Some("in the clear"),
        1 => Some("encrypted"),
        LOCKED_STATE => Some("encrypted, and locked: the drive was started without its key"),
        _ => None,
    }
}

/// `tranche id`.
pub fn id(id: &Id, output: Output) -> Result<()> {
    let mut host = connect(&id.target)?;
    let mut page = Page::Other;
    let value = match &id.of {
        IdOf { nsid: Some(nsid), .. } => {
            let identified = host.identify_allocated(*nsid);
            let namespace = about(&mut host, *nsid, identified)?;
            if namespace.nsze.get() == 0 {
                return Err(absent(&mut host, *nsid).into());
            }
            page = Page::Namespace(namespace.format().data_bytes().unwrap_or(0));
            let mut value = to_value(view::IdNs::from(&namespace))?;
            if output == Output::Text
                && let Some(stored) = stored(&mut host, &namespace)
                && let Some(fields) = value.as_object_mut()
            {
                // nvme-cli's JSON has nothing like it.
                fields.insert("stored".into(), stored.into());
            }
            if output == Output::Text
                && let Some((_, zoned)) = host.zoned_among(&[*nsid])?.first()
                && let Some(fields) = value.as_object_mut()
            {
                fields.insert("zones".into(), zone_shape::words(&namespace, zoned).into());
            }
            value
        }
        IdOf { zns: Some(nsid), .. } => {
            let identified = host.identify_allocated(*nsid);
            let namespace = about(&mut host, *nsid, identified)?;
            if namespace.nsze.get() == 0 {
                return Err(absent(&mut host, *nsid).into());
            }
            let zoned = host.zoned_among(&[*nsid])?;
            let (_, zoned) = zoned.first().with_context(|| zone_shape::not_zoned(*nsid))?;
            page = Page::Zones(Zones {
                block: namespace.format().data_bytes().unwrap_or(0),
                format: namespace.flbas.format_index(),
                areas: zoned.ozcs.zrwasup(),
            });
            to_value(view::ZnsIdNs::new(zoned, usize::from(namespace.nlbaf_z) + 1))?
        }
        IdOf { sets: true, .. } => to_value(view::NvmSets::new(&host.nvm_sets()?))?,
        IdOf { groups: true, .. } => to_value(view::EnduranceGroups::new(&host.endurance_groups()?))?,
        IdOf { ana: true, .. } => to_value(view::AnaLog::from(&host.ana_log()?))?,
        IdOf { logs: true, .. } => to_value(view::SupportedLogs::from(&host.supported_logs()?))?,
        _ => {
            page = Page::Controller;
            to_value(view::IdCtrl::from(&host.identify_controller()?))?
        }
    };
    print(page, &value, output)
}

/// `tranche smart`.
pub fn smart(smart: &Smart, output: Output) -> Result<()> {
    let mut host = connect(&smart.target)?;
    let (page, value) = match &smart.of {
        SmartOf { nsid: Some(nsid), .. } => {
            let statistics = host.namespace_statistics(*nsid);
            (Page::Other, to_value(view::Statistics::from(&about(&mut host, *nsid, statistics)?))?)
        }
        // Every NVM Set is an Endurance Group of its own, with the same number.
        SmartOf { nvm_set: Some(set), .. } => {
            let group = host.endurance_group(*set);
            (Page::Endurance, to_value(view::EnduranceLog::from(&about_set(&mut host, *set, group)?))?)
        }
        SmartOf { ocp: true, .. } => (Page::Ocp, to_value(view::OcpSmartLog::from(&host.ocp_smart()?))?),
        SmartOf { memblaze: true, .. } => {
            (Page::Memblaze, to_value(view::MemblazeSmartLog::from(&host.memblaze_smart()?))?)
        }
        _ => (Page::Smart, to_value(view::SmartLog::from(&host.smart()?))?),
    };
    print(page, &value, output)
}
