//! What a page asks of the drive, and how a request says it.

use crate::pace::NewPace;
use crate::refusal::Refusal;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use web::{Method, StatusCode};

/// A namespace that is to be created.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewNamespace {
    /// NVM Set Identifier.
    pub set: u16,
    /// Bytes.
    pub size: u64,
    /// Bytes of a logical block.
    pub lba_bytes: u32,
    #[serde(default)]
    pub zoned: bool,
    #[serde(default)]
    pub attach: bool,
}

/// A quota: what is not there stays; 0 is no limit, or the default.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewQuota {
    pub read_bandwidth: Option<u64>,
    pub write_bandwidth: Option<u64>,
    pub read_iops: Option<u64>,
    pub write_iops: Option<u64>,
    pub burst_us: Option<u32>,
    pub weight: Option<u16>,
    /// Keep it through power cycles.
    #[serde(default)]
    pub save: bool,
}

/// What is done with a zone.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ZoneVerb {
    Open,
    Close,
    Finish,
    Reset,
}

/// A zone that is to be changed.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct ZoneChange {
    /// The byte of the namespace where it begins.
    pub start: u64,
    pub action: ZoneVerb,
}

/// A loss of power.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPowerCut {
    /// Milliseconds without power.
    pub off_ms: Option<u32>,
    /// Whether the capacitors fail, too.
    #[serde(default)]
    pub no_plp: bool,
}

/// A fault of the media.
#[derive(Clone, PartialEq, Eq, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFault {
    /// NVM Set Identifier; 0 for all.
    #[serde(default)]
    pub set: u16,
    pub kind: String,
    #[serde(default)]
    pub count: u32,
    #[serde(default)]
    pub one_in: u32,
    #[serde(default)]
    pub parameter: u32,
}

/// No fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// What is asked of the drive.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ask {
    State,
    Map { set: u16 },
    Zones { nsid: u32 },
    Create(NewNamespace),
    Delete { nsid: u32, force: bool },
    Attach { nsid: u32 },
    Detach { nsid: u32 },
    Quota { nsid: u32, quota: NewQuota },
    Zone { nsid: u32, change: ZoneChange },
    PowerCut(NewPowerCut),
    Fault(NewFault),
    Pace(NewPace),
}

impl Ask {
    /// Whether it only looks.
    pub fn only_looks(&self) -> bool {
        matches!(self, Ask::State | Ask::Map { .. } | Ask::Zones { .. })
    }
}

/// What a request is for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Route {
    /// A file of the page, by its path.
    Page(String),
    /// The stream of samples.
    Samples,
    /// Something that can be asked without a body.
    Look(Ask),
    /// Something that a body says more of.
    Change(Change),
    /// The list of study reports.
    Studies,
    /// A study's report.
    Report(String),
}

/// A change, before its body is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    Create,
    Delete { nsid: u32, force: bool },
    Attach { nsid: u32 },
    Detach { nsid: u32 },
    Quota { nsid: u32 },
    Zone { nsid: u32 },
    PowerCut,
    Fault,
    Pace,
}

impl Change {
    /// The change with what its body says. An empty body is `{}`.
    pub fn with_body(self, body: &[u8]) -> Result<Ask, Refusal> {
        Ok(match self {
            Change::Create => Ask::Create(read(body)?),
            Change::Delete { nsid, force } => read(body).map(|Nothing {}| Ask::Delete { nsid, force })?,
            Change::Attach { nsid } => read(body).map(|Nothing {}| Ask::Attach { nsid })?,
            Change::Detach { nsid } => read(body).map(|Nothing {}| Ask::Detach { nsid })?,
            Change::Quota { nsid } => Ask::Quota { nsid, quota: read(body)? },
            Change::Zone { nsid } => Ask::Zone { nsid, change: read(body)? },
            Change::PowerCut => Ask::PowerCut(read(body)?),
            Change::Fault => Ask::Fault(read(body)?),
            Change::Pace => Ask::Pace(read(body)?),
        })
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let body = if body.trim_ascii().is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("the request's body: {error}")))
}

/// A number from 1 on, without signs and leading zeros.
fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    digits.then(|| text.parse().ok()).flatten()
}

/// The value of a query's only parameter.
fn parameter<'a>(query: Option<&'a str>, name: &str) -> Option<&'a str> {
    query?.strip_prefix(name)?.strip_prefix('=')
}

fn missing(what: &str) -> Refusal {
    Refusal::bad(format!("the address says nothing that makes sense of {what}"))
}

/// What is refused because the path is for other methods.
fn wrong_method(allowed: &str) -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, format!("this address takes {allowed}"))
}

/// What a request is for.
pub(crate) fn route(method: &Method, path: &str, query: Option<&str>) -> Result<Route, Refusal> {
    let Some(api) = path.strip_prefix("/api/") else {
        let reads = *method == Method::GET || *method == Method::HEAD;
        return match path.strip_prefix("/studies/") {
            _ if !reads => Err(wrong_method("GET")),
            Some(rest) => rest
                .strip_suffix("/report.html")
                .map(|name| Route::Report(name.to_owned()))
                .ok_or_else(not_here),
            None => Ok(Route::Page(path.to_owned())),
        };
    };
    let parts: Vec<&str> = api.split('/').collect();
    let looks = |route: Route| if *method == Method::GET { Ok(route) } else { Err(wrong_method("GET")) };
    let posts = |change: Change| match *method {
        Method::POST => Ok(Route::Change(change)),
        _ => Err(wrong_method("POST")),
    };
    let of = |text: &str| number(text).ok_or_else(|| missing("a namespace"));
    match parts[..] {
        ["state"] => looks(Route::Look(Ask::State)),
        ["samples"] => looks(Route::Samples),
        ["studies"] => looks(Route::Studies),
        ["map"] => {
            let set =
                parameter(query, "set").and_then(number).ok_or_else(|| missing("an NVM Set (?set=1)"))?;
            looks(Route::Look(Ask::Map { set }))
        }
        ["zones"] => {
            let nsid =
                parameter(query, "nsid").and_then(number).ok_or_else(|| missing("a namespace (?nsid=1)"))?;
            looks(Route::Look(Ask::Zones { nsid }))
        }
        ["namespaces"] => posts(Change::Create),
        ["namespaces", nsid] if *method == Method::DELETE => {
            let force = parameter(query, "force") == Some("true");
            Ok(Route::Change(Change::Delete { nsid: of(nsid)?, force }))
        }
        ["namespaces", _] => Err(wrong_method("DELETE")),
        ["namespaces", nsid, "attach"] => posts(Change::Attach { nsid: of(nsid)? }),
        ["namespaces", nsid, "detach"] => posts(Change::Detach { nsid: of(nsid)? }),
        ["namespaces", nsid, "quota"] if *method == Method::PUT => {
            Ok(Route::Change(Change::Quota { nsid: of(nsid)? }))
        }
        ["namespaces", _, "quota"] => Err(wrong_method("PUT")),
        ["zones", nsid] => posts(Change::Zone { nsid: of(nsid)? }),
        ["power-cut"] => posts(Change::PowerCut),
        ["faults"] => posts(Change::Fault),
        ["run"] => posts(Change::Pace),
        _ => Err(not_here()),
    }
}

fn not_here() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this address (docs/live-view-api.md lists all addresses)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rng::Rng;

    #[test]
    fn addresses_are_for_one_thing_each() {
        let get = |path, query| route(&Method::GET, path, query);
        assert_eq!(get("/", None), Ok(Route::Page("/".into())));
        assert_eq!(get("/api/state", None), Ok(Route::Look(Ask::State)));
        assert_eq!(get("/api/map", Some("set=2")), Ok(Route::Look(Ask::Map { set: 2 })));
        assert_eq!(get("/studies/a/report.html", None), Ok(Route::Report("a".into())));
        for query in [
            None,
            Some(""),
            Some("set="),
            Some("set=0"),
            Some("set=01"),
            Some("set=-1"),
            Some("set=65536"),
            Some("nsid=1"),
            Some("set=1&a"),
        ] {
            assert_eq!(get("/api/map", query).unwrap_err().status, 400, "{query:?}");
        }
        let post = |path| route(&Method::POST, path, None);
        assert_eq!(post("/api/namespaces"), Ok(Route::Change(Change::Create)));
        assert_eq!(post("/api/namespaces/7/attach"), Ok(Route::Change(Change::Attach { nsid: 7 })));
        assert_eq!(post("/api/run"), Ok(Route::Change(Change::Pace)));
        assert_eq!(get("/api/run", None).unwrap_err().status, 405);
        assert_eq!(post("/api/namespaces/7/quota").unwrap_err().status, 405);
        assert_eq!(post("/api/state").unwrap_err().status, 405);
        assert_eq!(post("/").unwrap_err().status, 405);
        assert_eq!(post("/api/namespaces/4294967296/attach").unwrap_err().status, 400);
        for path in ["/api/", "/api/other", "/api/namespaces/1/x", "/api/state/", "/studies/a", "/studies/"] {
            assert_eq!(get(path, None).unwrap_err().status, 404, "{path}");
        }
        let delete = |query| route(&Method::DELETE, "/api/namespaces/3", query);
        assert_eq!(delete(None), Ok(Route::Change(Change::Delete { nsid: 3, force: false })));
        assert_eq!(delete(Some("force=true")), Ok(Route::Change(Change::Delete { nsid: 3, force: true })));
    }

    #[test]
    fn bodies_say_all_that_is_needed_and_nothing_else() {
        let create = |text: &str| Change::Create.with_body(text.as_bytes());
        let asked = create(r#"{"set":1,"size":4096,"lba_bytes":512}"#).unwrap();
        let new = NewNamespace { set: 1, size: 4096, lba_bytes: 512, zoned: false, attach: false };
        assert_eq!(asked, Ask::Create(new));
        for wrong in [
            "",
            "{}",
            "[]",
            "null",
            "{",
            "\u{0}",
            r#"{"set":1,"size":-1,"lba_bytes":512}"#,
            r#"{"set":1,"size":1.5,"lba_bytes":512}"#,
            r#"{"set":1,"size":4096,"lba_bytes":512,"more":1}"#,
            r#"{"set":70000,"size":4096,"lba_bytes":512}"#,
            r#"{"set":1,"size":4096,"lba_bytes":512}x"#,
        ] {
            assert_eq!(create(wrong).unwrap_err().status, 400, "{wrong}");
        }
        assert_eq!(Change::PowerCut.with_body(b""), Ok(Ask::PowerCut(NewPowerCut::default())));
        assert_eq!(Change::Attach { nsid: 1 }.with_body(b" {} "), Ok(Ask::Attach { nsid: 1 }));
        assert!(Change::Attach { nsid: 1 }.with_body(b"{\"a\":1}").is_err());
        // A body that is nested as deep as it is long.
        assert!(create(&"[".repeat(60_000)).is_err());
    }

    /// Pieces of addresses and bodies in any order: nothing panics, and what is understood is understood the same again.
    #[test]
    fn whatever_comes_is_understood_or_refused() {
        const PIECES: &[&str] = &[
            "/",
            "api",
            "state",
            "namespaces",
            "zones",
            "quota",
            "attach",
            "studies",
            "report.html",
            "1",
            "0",
            "-1",
            "4294967295",
            "..",
            "%2e%2e",
            "\u{0}",
            "é",
            "?",
            "{",
            "}",
            "\"set\"",
            ":",
            ",",
            "\"size\"",
            "\"kind\"",
            "\"start\"",
            "\"action\"",
            "\"open\"",
            "1e9",
            "[",
            "]",
            "null",
            "true",
            " ",
            "power-cut",
            "faults",
            "map",
            "samples",
        ];
        const CHANGES: [Change; 6] = [
            Change::Create,
            Change::Quota { nsid: 1 },
            Change::Zone { nsid: 1 },
            Change::PowerCut,
            Change::Fault,
            Change::Pace,
        ];
        let seed = 1;
        let mut rng = Rng::new(seed);
        let mut understood = 0;
        for round in 0..200_000 {
            let mut text = String::new();
            for _ in 0..rng.below(12) {
                text.push_str(PIECES[rng.below(PIECES.len() as u64) as usize]);
            }
            let method =
                [Method::GET, Method::POST, Method::PUT, Method::DELETE][rng.below(4) as usize].clone();
            let path = format!("/api/{text}");
            let query = (rng.below(2) == 0).then_some(text.as_str());
            if let Ok(found) = route(&method, &path, query) {
                understood += 1;
                assert_eq!(route(&method, &path, query), Ok(found), "seed {seed}, round {round}: {path}");
            }
            let _ = route(&method, &text, query);
            for change in CHANGES {
                if let Err(refusal) = change.with_body(text.as_bytes()) {
                    assert!(
                        refusal.status == 400 && !refusal.why.is_empty(),
                        "seed {seed}, round {round}: {text}"
                    );
                }
            }
        }
        assert!(understood > 100, "{understood}");
    }
}
