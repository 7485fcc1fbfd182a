//! The JSON Schemas of what commands print with `--output json`, derived from the types that are printed.
//!
//! They are JSON Schema (draft 2020-12) with three more keywords, which validators ignore: `unit` of a number; `absent` and `null` say
//! when a field is not there, or is null. Doc comments of types and fields are the descriptions.

use crate::{
    ManPages, PerhapsWritten, Written, cache_tier, demo, doctor, exit, fault, firmware, image, key,
    live_view, ns, power, profiles, quota, sanitize, serve, store, top, zone, zone_change, zone_read,
};
use host::view;
use lab_databases::compare::ComparedDrives;
use lab_engines::sweep::Repetitions;
use lab_engines::{bench, disksim, fit, sim};
use lab_report::results::Results;
use lab_studies::{StudyDrive, doublewrite::Servers, powercut};
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, json_schema};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What one or several commands print.
#[derive(Clone, Copy)]
struct Document {
    /// Its name, which is that of its file.
    name: &'static str,
    /// The commands, the first of which is its title.
    commands: &'static [&'static str],
    source: Source,
}

/// Where a schema is from.
#[derive(Clone, Copy)]
enum Source {
    /// The type that is printed.
    Type(fn(&mut SchemaGenerator) -> Schema),
    /// A description, and the types of which the printed document has one.
    OneOf(&'static str, &'static [fn(&mut SchemaGenerator) -> Schema]),
}

const fn document<T: JsonSchema>(name: &'static str, commands: &'static [&'static str]) -> Document {
    Document { name, commands, source: Source::Type(T::json_schema) }
}

/// All documents, in the order of the page.
const DOCUMENTS: [Document; 64] = [
    document::<exit::Failed>("error", &["an error"]),
    document::<serve::ServedDrive>("serve", &["tranche serve"]),
    document::<ns::Listed>("ns-list", &["tranche ns list"]),
    document::<ns::Created>("ns-create", &["tranche ns create"]),
    document::<ns::Attached>("ns-attach", &["tranche ns attach", "tranche ns detach"]),
    document::<ns::Changed>("ns-delete", &["tranche ns delete", "tranche ns format"]),
    document::<view::IdCtrl>("id", &["tranche id"]),
    document::<view::IdNs>("id-nsid", &["tranche id --nsid N"]),
    document::<view::ZnsIdNs>("id-zns", &["tranche id --zns N"]),
    document::<view::NvmSets>("id-sets", &["tranche id --sets"]),
    document::<view::EnduranceGroups>("id-groups", &["tranche id --groups"]),
    document::<view::AnaLog>("id-ana", &["tranche id --ana"]),
    document::<view::SupportedLogs>("id-logs", &["tranche id --logs"]),
    document::<view::SmartLog>("smart", &["tranche smart"]),
    document::<view::Statistics>("smart-nsid", &["tranche smart --nsid N"]),
    document::<view::EnduranceLog>("smart-nvm-set", &["tranche smart --nvm-set N"]),
    document::<view::OcpSmartLog>("smart-ocp", &["tranche smart --ocp"]),
    document::<view::MemblazeSmartLog>("smart-memblaze", &["tranche smart --memblaze"]),
    document::<top::sample::Rates>("top", &["tranche top"]),
    document::<live_view::ServedView>("ui", &["tranche ui"]),
    document::<quota::QuotaOf>("quota", &["tranche quota get", "tranche quota set", "tranche quota clear"]),
    document::<view::ZoneReport>("zone-report", &["tranche zone report"]),
    document::<zone_change::ChangedZones>(
        "zone",
        &[
            "tranche zone open",
            "tranche zone close",
            "tranche zone finish",
            "tranche zone reset",
            "tranche zone offline",
            "tranche zone set-extension",
        ],
    ),
    document::<zone::Appended>("zone-append", &["tranche zone append"]),
    document::<zone::Pointer>("zone-write", &["tranche zone write", "tranche zone flush"]),
    document::<Written<zone_read::Read>>("zone-read", &["tranche zone read"]),
    document::<zone::ChangedByDrive>("zone-changed", &["tranche zone changed"]),
    document::<store::EmptyStore>("store-format", &["tranche store format"]),
    document::<store::MountedStore>("store-mount", &["tranche store mount"]),
    document::<store::Listed>("store-ls", &["tranche store ls"]),
    document::<store::Filled>("store-stat", &["tranche store stat"]),
    document::<store::StoredFile>("store-stat-path", &["tranche store stat FILE"]),
    document::<store::UsedZones>("store-zones", &["tranche store stat --zones"]),
    document::<store::Checked>("store-check", &["tranche store check"]),
    document::<cache_tier::NewTier>("cache-create", &["tranche cache create"]),
    document::<cache_tier::ServedTier>("cache-serve", &["tranche cache serve"]),
    document::<::cache::control::Status>(
        "cache-status",
        &[
            "tranche cache status",
            "tranche cache mode",
            "tranche cache policy",
            "tranche cache invalidate",
            "tranche cache set",
            "tranche cache flush",
        ],
    ),
    document::<cache_tier::RecordedTier>(
        "cache-status-metadata",
        &["tranche cache status --metadata DEVICE"],
    ),
    document::<cache_tier::RemovedTier>("cache-remove", &["tranche cache remove"]),
    document::<fault::Injected>("fault", &["tranche fault"]),
    document::<fault::ActiveFaults>("fault-list", &["tranche fault list"]),
    document::<power::Cut>("power-cut", &["tranche power-cut"]),
    document::<sanitize::SanitizeLog>("sanitize", &["tranche sanitize"]),
    document::<key::MadeKey>("key", &["tranche key"]),
    document::<Written<firmware::FirmwareImage>>("firmware", &["tranche firmware"]),
    document::<image::documents::Checked>("image-check", &["tranche image check"]),
    document::<image::documents::Renewed>("image-renew", &["tranche image renew"]),
    document::<Written<image::documents::Saved>>("image-salvage", &["tranche image salvage"]),
    document::<bench::FioDocument>("bench", &["tranche bench"]),
    Document {
        name: "sim",
        commands: &["tranche sim"],
        source: Source::OneOf(
            "One run in virtual time: the document of the load, and `simulation`.",
            &[
                PerhapsWritten::<sim::Run<bench::FioDocument>>::json_schema,
                PerhapsWritten::<sim::Run<sim::ActDocument>>::json_schema,
                PerhapsWritten::<sim::Run<sim::TraceDocument>>::json_schema,
            ],
        ),
    },
    document::<Written<sim::SweepDocument<'static>>>("sim-set", &["tranche sim --set"]),
    document::<profiles::Profiles>("profile-list", &["tranche profile list"]),
    document::<profiles::Shown>("profile-show", &["tranche profile show"]),
    document::<profiles::Checked>("profile-check", &["tranche profile check"]),
    document::<disksim::check::Checked>("profile-check-disksim", &["tranche profile check --disksim"]),
    document::<Written<fit::Fitted>>("profile-fit", &["tranche profile fit"]),
    Document {
        name: "study",
        commands: &[
            "tranche study doublewrite",
            "tranche study quota",
            "tranche study namespaces",
            "tranche study zoned",
            "tranche study filesystem",
            "tranche study cache",
            "tranche study oltp",
        ],
        source: Source::OneOf(
            "What a study found.",
            &[
                Written::<Results<StudyDrive<'static>>>::json_schema,
                Written::<Repetitions<'static, StudyDrive<'static>>>::json_schema,
                Written::<Servers<'static, StudyDrive<'static>>>::json_schema,
            ],
        ),
    },
    document::<Written<powercut::Campaign>>("study-powercut", &["tranche study powercut"]),
    document::<Written<Results<ComparedDrives<'static>>>>("compare", &["tranche compare"]),
    document::<lab_advise::Advice>("advise", &["tranche advise"]),
    document::<doctor::Examined>("doctor", &["tranche doctor"]),
    document::<demo::ServedDemo>("demo", &["tranche demo"]),
    document::<demo::Done>("demo-done", &["tranche demo, at its end"]),
    document::<Written<ManPages>>("man", &["tranche man"]),
];

/// All schemas.
struct Catalogue {
    /// The schemas of documents, by name.
    documents: BTreeMap<&'static str, Value>,
    /// Schemas of types that stand in several places, by name.
    shared: Map<String, Value>,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::derive);

/// The names of all documents, in the order of the page.
pub fn names() -> impl Iterator<Item = &'static str> {
    DOCUMENTS.iter().map(|document| document.name)
}

/// The schema of a document, with all that it refers to.
///
/// # Panics
/// No document has this name.
#[must_use]
pub fn schema(name: &str) -> Value {
    let mut schema = CATALOGUE.documents[name].clone();
    let mut reached = Map::new();
    reach(&schema, &CATALOGUE.shared, &mut reached);
    if !reached.is_empty() {
        schema["$defs"] = reached.into();
    }
    schema
}

/// Schemas of types that stand in several places, by name.
#[must_use]
pub fn shared() -> &'static Map<String, Value> {
    &CATALOGUE.shared
}

impl Catalogue {
    fn derive() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(Closed);
        let mut generator = settings.into_generator();
        let schemas = DOCUMENTS.map(|document| {
            let mut schema = match document.source {
                Source::Type(derive) => derive(&mut generator),
                Source::OneOf(about, types) => {
                    let types: Vec<Schema> = types.iter().map(|derive| derive(&mut generator)).collect();
                    json_schema!({ "description": about, "anyOf": types })
                }
            };
            Closed.transform(&mut schema);
            let mut schema = schema.to_value();
            schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
            schema["title"] = document.commands[0].into();
            schema["commands"] = document.commands.into();
            (document.name, schema)
        });
        let mut documents = BTreeMap::from(schemas);
        let all = generator.take_definitions(true);
        let mut uses = BTreeMap::new();
        documents.values().chain(all.values()).for_each(|schema| count(schema, &mut uses));
        let shared = |name: &&String| uses.get(*name).is_some_and(|uses| *uses > 1);
        documents.values_mut().for_each(|schema| place(schema, &all, &uses));
        let shared = all.keys().filter(shared).map(|name| {
            let mut schema = all[name].clone();
            place(&mut schema, &all, &uses);
            (name.clone(), schema)
        });
        Self { documents, shared: shared.collect() }
    }
}

/// Closes objects: only the fields of their types are allowed, and each object lists the required ones. A field that is absent when it would be null is never null.
/// Descriptions have no line ends.
#[derive(Clone)]
struct Closed;

impl Transform for Closed {
    fn transform(&mut self, schema: &mut Schema) {
        if schema.get("properties").is_some() {
            let fields = schema.ensure_object();
            fields.entry("additionalProperties").or_insert(false.into());
            fields.entry("required").or_insert(json!([]));
        }
        if let Some(Value::String(text)) = schema.get_mut("description") {
            *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        }
        if schema.get("absent").is_some() && schema.get("null").is_none() {
            never_null(schema.ensure_object());
        }
        transform_subschemas(self, schema);
    }
}

/// Takes null out of a schema's types.
fn never_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

/// The name of the definition that a schema refers to.
#[must_use]
pub fn target(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/$defs/")
}

/// What a schema consists of.
fn parts(schema: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match schema {
        Value::Object(fields) => Box::new(fields.values()),
        Value::Array(all) => Box::new(all.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Counts the places that refer to each definition.
fn count(schema: &Value, uses: &mut BTreeMap<String, u32>) {
    if let Some(name) = target(schema) {
        *uses.entry(name.to_owned()).or_default() += 1;
    }
    parts(schema).for_each(|part| count(part, uses));
}

/// Puts definitions in the place of references to them where that is the only place.
fn place(schema: &mut Value, all: &Map<String, Value>, uses: &BTreeMap<String, u32>) {
    let name = target(schema).filter(|name| uses[*name] == 1).map(str::to_owned);
    if let (Some(name), Value::Object(here)) = (name, &mut *schema) {
        here.remove("$ref");
        // What the place says of it counts more than what the type says.
        for (key, value) in all[&name].as_object().into_iter().flatten() {
            here.entry(key).or_insert_with(|| value.clone());
        }
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(|part| place(part, all, uses)),
        Value::Array(parts) => parts.iter_mut().for_each(|part| place(part, all, uses)),
        _ => {}
    }
}

/// Collects the definitions that a schema refers to, also through others.
fn reach(schema: &Value, shared: &Map<String, Value>, reached: &mut Map<String, Value>) {
    if let Some(name) = target(schema)
        && !reached.contains_key(name)
    {
        reached.insert(name.to_owned(), shared[name].clone());
        reach(&shared[name], shared, reached);
    }
    parts(schema).for_each(|part| reach(part, shared, reached));
}
