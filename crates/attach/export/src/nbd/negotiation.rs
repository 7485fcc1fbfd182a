//! The handshake: options of a client and replies to them, without a socket.

use super::wire::{
    ALLOCATION, ALLOCATION_ID, FIXED_NEWSTYLE, LONGEST_STRING, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC,
    Put, Take, info, option, reply, transmission,
};

/// Bytes of an option's data that are kept at most. Of a larger one no more is known than its type.
const LARGEST_OPTION: u32 = 64 << 10;
/// Bytes of an option's data that are skipped at most: a client that sends more is not one of good will.
const SKIPPED_OPTION: u32 = 1 << 20;
/// Options of one client at most.
const OPTIONS: u32 = 1024;
/// Queries of metadata contexts in one option at most.
const QUERIES: u32 = 64;
/// Zeroes after the reply to `NBD_OPT_EXPORT_NAME`.
const ZEROES: usize = 124;
/// Client flags of 32 bits, and an option's header.
const FLAGS: usize = 4;
const HEADER: usize = 16;

/// What a client may know of an export.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportInfo {
    /// What the server knows it by. No two exports have the same during the life of a server.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// Its size in bytes: a multiple of `minimum`.
    pub bytes: u64,
    /// Bytes that offsets and lengths are multiples of: a power of two.
    pub minimum: u32,
    /// Bytes that they should be multiples of: a power of two.
    pub preferred: u32,
    /// Bytes of a write or of the reply to a read at most.
    pub maximum: u32,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether to zero `preferred` bytes and allow a hole takes less than to write them.
    pub fast_zeroes: bool,
    /// Whether the server can tell which blocks are allocated.
    pub allocation: bool,
}

impl ExportInfo {
    /// Its transmission flags.
    pub fn flags(&self, structured: bool) -> u16 {
        use transmission::*;
        let mut flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN;
        if structured {
            flags |= SEND_DF;
        }
        if self.read_only {
            return flags | READ_ONLY;
        }
        flags |= SEND_TRIM | SEND_WRITE_ZEROES;
        if self.fast_zeroes {
            flags |= SEND_FAST_ZERO;
        }
        flags
    }
}

/// What a server exports.
pub trait Exports {
    /// All of it. If it is one export, this is the default, which has an empty name, too.
    fn list(&self) -> Vec<ExportInfo>;
}

/// What was agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// The export.
    pub export: ExportInfo,
    /// Whether replies are structured.
    pub structured: bool,
    /// Whether the client may ask which blocks are allocated.
    pub allocation: bool,
}

/// How a negotiation goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// With what the client sends next.
    More,
    /// It has ended well: requests follow.
    Enter(Box<Session>),
    /// The connection is to be closed when the replies have been sent.
    End,
}

/// The server's side of a handshake, after its [`greeting`](super::greeting).
#[derive(Debug, Default)]
pub struct Negotiation {
    /// What the client wants; `None` before it said so.
    flags: Option<u16>,
    structured: bool,
    /// Export for which `base:allocation` was chosen.
    context: Option<u64>,
    options: u32,
    /// Bytes of an option that was too large, still to come.
    skip: u32,
}

impl Negotiation {
    /// Takes the next thing that a client says from the begin of `input`, and appends replies to `out`. Returns how many bytes it has taken:
    /// none, if there is not enough yet. Not called again after an end.
    pub fn advance(&mut self, input: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> (usize, Progress) {
        if self.skip > 0 {
            let now = (self.skip as usize).min(input.len());
            // At most `skip`.
            self.skip -= now as u32;
            return (now, Progress::More);
        }
        let mut take = Take(input);
        let Some(flags) = self.flags else {
            let Some(flags) = take.u32() else { return (0, Progress::More) };
            // Other flags than those that were offered end the connection.
            let known = u16::try_from(flags).ok().filter(|flags| flags & !(FIXED_NEWSTYLE | NO_ZEROES) == 0);
            self.flags = known;
            return (FLAGS, if known.is_some() { Progress::More } else { Progress::End });
        };
        let (Some(magic), Some(kind), Some(len)) = (take.u64(), take.u32(), take.u32()) else {
            return (0, Progress::More);
        };
        // Without fixed newstyle there is one option.
        let allowed = flags & FIXED_NEWSTYLE != 0 || kind == option::EXPORT_NAME;
        if magic != OPTION_MAGIC || !allowed || self.options == OPTIONS || len > SKIPPED_OPTION {
            return (HEADER, Progress::End);
        }
        if len > LARGEST_OPTION {
            self.options += 1;
            self.skip = len;
            if kind == option::EXPORT_NAME {
                return (HEADER, Progress::End);
            }
            answer(out, kind, reply::ERR_TOO_BIG, b"this option is too large");
            return (HEADER, Progress::More);
        }
        let Some(data) = take.bytes(len as usize) else { return (0, Progress::More) };
        self.options += 1;
        (HEADER + len as usize, self.option(kind, data, exports, out))
    }

    fn option(&mut self, kind: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        match kind {
            option::EXPORT_NAME => return self.export_name(data, exports, out),
            option::ABORT => {
                answer(out, kind, reply::ACK, &[]);
                return Progress::End;
            }
            option::GO | option::INFO => return self.info(kind, data, exports, out),
            option::LIST | option::STRUCTURED_REPLY if !data.is_empty() => {
                answer(out, kind, reply::ERR_INVALID, b"this option has no data");
            }
            option::LIST => {
                for export in exports.list() {
                    let mut entry = Vec::new();
                    entry.u32(length(&export.name)).bytes(export.name.as_bytes());
                    answer(out, kind, reply::SERVER, entry.bytes(export.description.as_bytes()));
                }
                answer(out, kind, reply::ACK, &[]);
            }
            option::STRUCTURED_REPLY => {
                self.structured = true;
                answer(out, kind, reply::ACK, &[]);
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.contexts(kind, data, exports, out),
            _ => answer(out, kind, reply::ERR_UNSUP, b"this server does not know this option"),
        }
        Progress::More
    }

    /// `NBD_OPT_EXPORT_NAME`: the connection ends if there is no such export.
    fn export_name(&self, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        let Some(export) = find(exports, data) else { return Progress::End };
        out.u64(export.bytes).u16(export.flags(self.structured));
        if self.flags.is_some_and(|flags| flags & NO_ZEROES == 0) {
            out.bytes(&[0; ZEROES]);
        }
        self.enter(export)
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`.
    fn info(&self, kind: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) -> Progress {
        let Some((name, wanted)) = info_request(data) else {
            answer(out, kind, reply::ERR_INVALID, b"malformed");
            return Progress::More;
        };
        let Some(export) = find(exports, name) else {
            answer(out, kind, reply::ERR_UNKNOWN, unknown(exports).as_bytes());
            return Progress::More;
        };
        let mut item = |what: u16, fill: &dyn Fn(&mut Vec<u8>)| {
            let mut data = Vec::new();
            fill(data.u16(what));
            answer(out, kind, reply::INFO, &data);
        };
        item(info::EXPORT, &|data| {
            data.u64(export.bytes).u16(export.flags(self.structured));
        });
        // Whoever has not asked for these may heed them all the same.
        item(info::BLOCK_SIZE, &|data| {
            data.u32(export.minimum).u32(export.preferred).u32(export.maximum);
        });
        if wanted.contains(&info::NAME) || name.is_empty() {
            item(info::NAME, &|data| {
                data.bytes(export.name.as_bytes());
            });
        }
        if wanted.contains(&info::DESCRIPTION) {
            item(info::DESCRIPTION, &|data| {
                data.bytes(export.description.as_bytes());
            });
        }
        answer(out, kind, reply::ACK, &[]);
        if kind == option::GO { self.enter(export) } else { Progress::More }
    }

    fn enter(&self, export: ExportInfo) -> Progress {
        let allocation = self.structured && self.context == Some(export.id);
        Progress::Enter(Box::new(Session { export, structured: self.structured, allocation }))
    }

    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn contexts(&mut self, kind: u32, data: &[u8], exports: &dyn Exports, out: &mut Vec<u8>) {
        let choose = kind == option::SET_META_CONTEXT;
        if choose {
            // What was chosen before is void, even if this fails.
            self.context = None;
        }
        let (name, queries) = match context_request(data) {
            _ if !self.structured => {
                return answer(out, kind, reply::ERR_INVALID, b"needs structured replies");
            }
            None => return answer(out, kind, reply::ERR_INVALID, b"malformed"),
            Some((_, queries)) if queries.len() > QUERIES as usize => {
                return answer(out, kind, reply::ERR_TOO_BIG, b"too many queries");
            }
            Some(request) => request,
        };
        let Some(export) = find(exports, name) else {
            return answer(out, kind, reply::ERR_UNKNOWN, unknown(exports).as_bytes());
        };
        let named = queries.contains(&ALLOCATION);
        let all = !choose && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if export.allocation && (named || all) {
            let mut context = Vec::new();
            context.u32(if choose { ALLOCATION_ID } else { 0 });
            answer(out, kind, reply::META_CONTEXT, context.bytes(ALLOCATION));
            if choose {
                self.context = Some(export.id);
            }
        }
        answer(out, kind, reply::ACK, &[]);
    }
}

/// The export of this name; the only one for an empty name.
fn find(exports: &dyn Exports, name: &[u8]) -> Option<ExportInfo> {
    let mut all = exports.list();
    match name {
        b"" if all.len() == 1 => all.pop(),
        _ => all.into_iter().find(|export| export.name.as_bytes() == name),
    }
}

/// What is said to those who ask for something else.
fn unknown(exports: &dyn Exports) -> String {
    let names: Vec<String> = exports.list().into_iter().map(|export| export.name).collect();
    match names.is_empty() {
        true => "nothing is exported: no conventional namespace is attached".to_owned(),
        false => {
            let mut text = format!("no such export; there are {}", names.join(", "));
            // Names of namespaces are ASCII.
            text.truncate(LONGEST_STRING as usize);
            text
        }
    }
}

/// Name and kinds of information that are asked for.
fn info_request(data: &[u8]) -> Option<(&[u8], Vec<u16>)> {
    let mut take = Take(data);
    let name = take.string()?;
    let count = take.u16()?;
    let wanted = (0..count).map(|_| take.u16()).collect::<Option<Vec<u16>>>()?;
    take.0.is_empty().then_some((name, wanted))
}

/// Name and queries. One query more than the limit is enough to know that there are too many.
fn context_request(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let mut take = Take(data);
    let name = take.string()?;
    let count = take.u32()?;
    let queries = (0..count.min(QUERIES + 1)).map(|_| take.string()).collect::<Option<Vec<&[u8]>>>()?;
    (count > QUERIES || take.0.is_empty()).then_some((name, queries))
}

fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
    out.u64(OPTION_REPLY_MAGIC).u32(option).u32(kind).u32(len).bytes(data);
}

fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}
