//! The file of hosts (`--hosts`): TOML tables `[[host]]`.

use super::{Access, AccessError, Rule};
use device::Role;
use fabric::auth::{ChapKeys, Methods};
use jiff::{SignedDuration, civil};
use nvme::auth::{DhGroupId, HashId};
use nvme::{NSID_ALL, Nqn};
use std::fs;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

/// The longest file of a key that is read, in bytes: a key is shorter than 110.
const KEY_FILE: u64 = 4096;
/// The longest file of hosts that is read, in bytes.
const HOSTS_FILE: u64 = 16 << 20;

/// Controllers that an entry may allow.
const CONTROLLERS: RangeInclusive<u16> = 1..=1024;

const HASHES: [(&str, HashId); 3] =
    [("sha256", HashId::SHA256), ("sha384", HashId::SHA384), ("sha512", HashId::SHA512)];
const GROUPS: [(&str, DhGroupId); 6] = [
    ("null", DhGroupId::NULL),
    ("ffdhe2048", DhGroupId::FFDHE2048),
    ("ffdhe3072", DhGroupId::FFDHE3072),
    ("ffdhe4096", DhGroupId::FFDHE4096),
    ("ffdhe6144", DhGroupId::FFDHE6144),
    ("ffdhe8192", DhGroupId::FFDHE8192),
];

impl Access {
    /// Reads a file of hosts, and what the user should be warned of.
    ///
    /// # Errors
    /// What is wrong, in which file and line. The text of keys is not part of it.
    pub fn load(path: &Path) -> Result<(Self, Vec<String>), AccessError> {
        let mut reader = Reader { path, text: String::new(), holds_keys: false, warnings: Vec::new() };
        let (text, others) = read(path, HOSTS_FILE)?;
        reader.text = text;
        let access = reader.hosts()?;
        if access.hosts.is_empty() {
            reader.warnings.push(format!("{} lists no host ([[host]]): nobody can connect", path.display()));
        }
        // The names of hosts may be public, their keys may not.
        if others && reader.holds_keys {
            reader.warnings.insert(0, exposed(path));
        }
        Ok((access, reader.warnings))
    }
}

/// A file's text, and whether others than its owner may read it.
fn read(path: &Path, most: u64) -> Result<(String, bool), AccessError> {
    let failed = |source| AccessError::Read { path: path.to_owned(), source };
    let file = fs::File::open(path).map_err(failed)?;
    let data = file.metadata().map_err(failed)?;
    let mut text = String::new();
    // What the file says of its length is nothing to rely on: it may be a device.
    let read = file.take(most + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > most {
        let problem = format!("longer than {most} bytes");
        return Err(failed(std::io::Error::new(std::io::ErrorKind::FileTooLarge, problem)));
    }
    Ok((text, data.permissions().mode() & 0o077 != 0))
}

fn exposed(path: &Path) -> String {
    format!("{} has keys in it, and not only its owner can read it: chmod 600 it", path.display())
}

struct Reader<'a> {
    path: &'a Path,
    text: String,
    /// Whether a key stands in it.
    holds_keys: bool,
    warnings: Vec<String>,
}

/// A value and where it stands.
type SpannedValue<'a, 'i> = (&'a DeValue<'i>, usize);

impl Reader<'_> {
    fn error(&self, at: usize, problem: impl Into<String>) -> AccessError {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        AccessError::Content { path: self.path.to_owned(), line, problem: problem.into() }
    }

    fn hosts(&mut self) -> Result<Access, AccessError> {
        let text = std::mem::take(&mut self.text);
        let result = self.parse(&text);
        result.map(Access::new)
    }

    fn parse(&mut self, text: &str) -> Result<Vec<Rule>, AccessError> {
        // Positions are looked up in it.
        self.text = text.to_owned();
        let table = DeTable::parse(text).map_err(|error| {
            // Not the whole error: it shows the line, which may hold a key.
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, format!("not TOML: {}", error.message()))
        })?;
        let mut rules: Vec<Rule> = Vec::new();
        for (key, value) in table.get_ref() {
            let at = key.span().start;
            let tables = value.get_ref().as_array().filter(|_| key.get_ref() == "host");
            let Some(tables) = tables else {
                return Err(
                    self.error(at, format!("'{}': expected nothing but tables [[host]]", key.get_ref()))
                );
            };
            for host in tables {
                let at = host.span().start;
                let Some(table) = host.get_ref().as_table() else {
                    return Err(self.error(at, "expected tables [[host]]"));
                };
                let rule = self.host(table, at)?;
                if rules.iter().any(|other| other.nqn == rule.nqn) {
                    return Err(self.error(at, format!("the host {} is there twice", rule.nqn)));
                }
                rules.push(rule);
            }
        }
        Ok(rules)
    }

    fn host(&mut self, table: &DeTable<'_>, at: usize) -> Result<Rule, AccessError> {
        const KEYS: [&str; 14] = [
            "nqn",
            "hostid",
            "dhchap_key",
            "dhchap_key_file",
            "dhchap_ctrl_key",
            "dhchap_ctrl_key_file",
            "dhchap_hash",
            "dhchap_dhgroup",
            "tls_psk",
            "tls_psk_file",
            "expires",
            "role",
            "namespaces",
            "max_controllers",
        ];
        if let Some((key, _)) = table.iter().find(|(key, _)| !KEYS.contains(&&**key.get_ref())) {
            let near = units::did_you_mean(key.get_ref(), KEYS);
            let problem = format!("a host has no '{}'; there are {}{near}", key.get_ref(), KEYS.join(", "));
            return Err(self.error(key.span().start, problem));
        }
        let get = |name: &str| table.get(name).map(|value| (value.get_ref(), value.span().start));
        let Some(nqn) = get("nqn") else { return Err(self.error(at, "the host has no nqn")) };
        let at = nqn.1;
        let nqn = self.text(nqn, "nqn")?;
        let nqn = Nqn::new(nqn).map_err(|error| self.error(at, format!("nqn: {error}")))?;
        let mut rule = Rule::named(nqn);
        let key = self.key(&nqn, get("dhchap_key"), get("dhchap_key_file"), "dhchap_key")?;
        let controller =
            self.key(&nqn, get("dhchap_ctrl_key"), get("dhchap_ctrl_key_file"), "dhchap_ctrl_key")?;
        rule.chap = match (key, controller) {
            (Some(host), controller) => Some(ChapKeys { host, controller }),
            (None, None) => None,
            (None, Some(_)) => {
                let problem = "dhchap_ctrl_key without dhchap_key: a controller authenticates itself only to a \
                               host that does so too";
                return Err(self.error(at, problem));
            }
        };
        if let Some(keys) = &rule.chap
            && keys.controller.as_ref() == Some(&keys.host)
        {
            self.warnings
                .push(format!("{nqn}: dhchap_key and dhchap_ctrl_key are the same; they should differ"));
        }
        rule.tls = self.key(&nqn, get("tls_psk"), get("tls_psk_file"), "tls_psk")?;
        rule.methods = Methods {
            hashes: self.list(get("dhchap_hash"), "dhchap_hash", &HASHES)?.unwrap_or(rule.methods.hashes),
            dh_groups: self
                .list(get("dhchap_dhgroup"), "dhchap_dhgroup", &GROUPS)?
                .unwrap_or(rule.methods.dh_groups),
        };
        if rule.chap.is_none() && (get("dhchap_hash").is_some() || get("dhchap_dhgroup").is_some()) {
            let nothing = "dhchap_hash and dhchap_dhgroup mean nothing without a dhchap_key";
            self.warnings.push(format!("{nqn}: {nothing}"));
        }
        rule.expires = match get("expires") {
            Some((DeValue::Datetime(datetime), at)) => {
                let problem = "expires needs a date, such as 2027-01-31 or 2027-01-31T12:00:00Z";
                Some(instant(datetime).ok_or_else(|| self.error(at, problem))?)
            }
            Some((_, at)) => {
                let problem =
                    "expires is a TOML date without quotes, such as 2027-01-31 or 2027-01-31T12:00:00Z";
                return Err(self.error(at, problem));
            }
            None => None,
        };
        rule.hostid = get("hostid").map(|place| self.hostid(place)).transpose()?;
        rule.role = self.role(&nqn, get("role"), get("namespaces"))?;
        if let Some(place) = get("max_controllers") {
            rule.max_controllers = self.max_controllers(place)?;
        }
        if rule.expires.is_some_and(|expires| expires <= SystemTime::now()) {
            self.warnings.push(format!("{nqn}: the entry has expired, and the host is refused"));
        }
        Ok(rule)
    }

    fn text<'a>(&self, (value, at): SpannedValue<'a, '_>, name: &str) -> Result<&'a str, AccessError> {
        value.as_str().ok_or_else(|| self.error(at, format!("{name} is a text in quotes")))
    }

    /// A Host Identifier, as `/etc/nvme/hostid` has it.
    fn hostid(&self, place: SpannedValue<'_, '_>) -> Result<[u8; 16], AccessError> {
        let text = self.text(place, "hostid")?;
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
        // Without one, reservations are refused to the host, so it binds nothing.
        let id = id.filter(|id| *id != 0).map(u128::to_be_bytes);
        id.ok_or_else(|| self.error(place.1, "hostid is a UUID other than zero, as in /etc/nvme/hostid"))
    }

    /// A key that stands here, or in a file beside this one.
    fn key<K: FromStr>(
        &mut self,
        nqn: &Nqn,
        here: Option<SpannedValue<'_, '_>>,
        file: Option<SpannedValue<'_, '_>>,
        name: &str,
    ) -> Result<Option<K>, AccessError>
    where
        K::Err: std::fmt::Display,
    {
        match (here, file) {
            (None, None) => Ok(None),
            (Some(_), Some((_, at))) => {
                Err(self.error(at, format!("{name} and {name}_file are both there: one is enough")))
            }
            (Some(place), None) => {
                self.holds_keys = true;
                let text = self.text(place, name)?;
                let parsed = text.trim().parse();
                parsed.map(Some).map_err(|error| self.error(place.1, format!("{name} of {nqn}: {error}")))
            }
            (None, Some(place)) => {
                let file = self.text(place, name)?;
                let path: PathBuf = self.path.parent().unwrap_or(Path::new(".")).join(file);
                let (text, others) = read(&path, KEY_FILE)?;
                if others {
                    self.warnings.push(exposed(&path));
                }
                let parsed = text.trim().parse();
                parsed.map(Some).map_err(|error: K::Err| {
                    let problem = format!("{name}_file of {nqn}, {}: {error}", path.display());
                    self.error(place.1, problem)
                })
            }
        }
    }

    /// What the host may do. To administer is what a host may that says nothing, and the user is told so.
    fn role(
        &mut self,
        nqn: &Nqn,
        role: Option<SpannedValue<'_, '_>>,
        namespaces: Option<SpannedValue<'_, '_>>,
    ) -> Result<Role, AccessError> {
        const ROLES: &str = "role is \"admin\" or \"tenant\"";
        let own = namespaces.map(|place| Ok((self.namespaces(place)?, place.1))).transpose()?;
        let said = role.map(|place| Ok((self.text(place, "role")?, place.1))).transpose()?;
        match (said, own) {
            (Some(("tenant", _)), Some((own, _))) => {
                if own.is_empty() {
                    self.warnings.push(format!("{nqn}: a tenant without namespaces sees none"));
                }
                Ok(Role::Tenant(own))
            }
            (Some(("tenant", at)), None) => {
                Err(self.error(at, "a tenant needs namespaces, such as namespaces = [1, 2]"))
            }
            (Some(("admin", _)), None) => Ok(Role::Administrator),
            (Some(("admin", _)) | None, Some((_, at))) => {
                Err(self.error(at, "namespaces belongs to role = \"tenant\": an administrator sees all"))
            }
            (Some((_, at)), _) => Err(self.error(at, ROLES)),
            (None, None) => {
                self.warnings.push(format!(
                    "{nqn}: no role is given, so this host may administer the whole drive; give it role = \"admin\", or \
                     role = \"tenant\" and its namespaces"
                ));
                Ok(Role::Administrator)
            }
        }
    }

    /// A number of controllers.
    fn max_controllers(&self, (value, at): SpannedValue<'_, '_>) -> Result<u16, AccessError> {
        integer(value)
            .and_then(|number| u16::try_from(number).ok())
            .filter(|number| CONTROLLERS.contains(number))
            .ok_or_else(|| {
                self.error(
                    at,
                    format!(
                        "max_controllers is a number from {} to {}",
                        CONTROLLERS.start(),
                        CONTROLLERS.end()
                    ),
                )
            })
    }

    /// Identifiers of namespaces.
    fn namespaces(&self, (value, at): SpannedValue<'_, '_>) -> Result<Vec<u32>, AccessError> {
        let wrong = || self.error(at, "namespaces is a list of namespace identifiers from 1, such as [1, 2]");
        let one = |value: &DeValue<'_>| integer(value).filter(|nsid| (1..NSID_ALL).contains(nsid));
        let list = value.as_array().ok_or_else(wrong)?;
        list.iter().map(|item| one(item.get_ref()).ok_or_else(wrong)).collect()
    }

    /// A list of names, the favourite first; `None` if nothing is said.
    fn list<T: Copy + PartialEq>(
        &self,
        value: Option<SpannedValue<'_, '_>>,
        name: &str,
        known: &[(&str, T)],
    ) -> Result<Option<Vec<T>>, AccessError> {
        let Some((value, at)) = value else { return Ok(None) };
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let wrong = || self.error(at, format!("{name} is a list of {}", names.join(", ")));
        let find = |value: &DeValue<'_>| {
            known.iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, id)| *id)
        };
        let found: Option<Vec<T>> = match value {
            DeValue::Array(values) => values.iter().map(|value| find(value.get_ref())).collect(),
            value => find(value).map(|id| vec![id]),
        };
        found.filter(|found| !found.is_empty()).ok_or_else(wrong).map(Some)
    }
}

/// A number of 32 bits.
fn integer(value: &DeValue<'_>) -> Option<u32> {
    let integer = value.as_integer()?;
    u32::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// A date (its first moment) or a date and time; UTC unless it says otherwise.
fn instant(datetime: &Datetime) -> Option<SystemTime> {
    let date = datetime.date?;
    let date = civil::Date::new(
        i16::try_from(date.year).ok()?,
        i8::try_from(date.month).ok()?,
        i8::try_from(date.day).ok()?,
    );
    // A civil date has no zone. `jiff::Timestamp` ends before 9999-12-31, which is how people write "never".
    let mut since = date.ok()?.at(0, 0, 0, 0).duration_since(civil::date(1970, 1, 1).at(0, 0, 0, 0));
    if let Some(time) = datetime.time {
        since += SignedDuration::from_hours(time.hour.into());
        since += SignedDuration::from_mins(time.minute.into());
        since += SignedDuration::from_secs(time.second.unwrap_or(0).into());
    }
    if let Some(Offset::Custom { minutes }) = datetime.offset {
        since -= SignedDuration::from_mins(minutes.into());
    }
    // What was over before 1970 is over.
    let since = Duration::try_from(since).unwrap_or_default();
    SystemTime::UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Refusal;

    const KEY: &str = "DHHC-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";
    const PSK: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

    fn load(dir: &Path, text: &str) -> Result<(Access, Vec<String>), AccessError> {
        let path = dir.join("hosts.toml");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Access::load(&path)
    }

    #[test]
    fn a_file_of_hosts() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("key"), format!("{KEY}\n")).unwrap();
        fs::set_permissions(temp.path().join("key"), fs::Permissions::from_mode(0o644)).unwrap();
        let text = format!(
            "[[host]]\nnqn = 'nqn.2026-11.test:a'\nrole = 'admin'\n\n[[host]]\nnqn = 'nqn.2026-11.test:b'\n\
             role = 'tenant'\nnamespaces = [3, 0x10]\ndhchap_key = '{KEY}'\n\
             dhchap_ctrl_key_file = 'key'\ndhchap_hash = ['sha512', 'sha256']\ndhchap_dhgroup = 'ffdhe8192'\n\
             max_controllers = 0x10\ntls_psk = '{PSK}'\nexpires = 2001-09-09T03:46:40+02:00\n"
        );
        let (access, warnings) = load(temp.path(), &text).unwrap();
        assert_eq!(access.hosts().len(), 2);
        let b = &access.hosts()[1];
        assert!(b.chap.as_ref().unwrap().controller.is_some() && b.tls.is_some());
        assert_eq!(b.methods.hashes, [HashId::SHA512, HashId::SHA256]);
        assert_eq!(b.methods.dh_groups, [DhGroupId::FFDHE8192]);
        assert_eq!(access.hosts()[0].methods, Methods::default());
        assert_eq!(access.hosts()[0].role, Role::Administrator);
        assert_eq!(b.role, Role::Tenant(vec![3, 0x10]));
        assert_eq!((access.hosts()[0].max_controllers, b.max_controllers), (64, 16));
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(b.expires, Some(end));
        let before = end - Duration::from_secs(1);
        assert!(access.admit(&b.nqn, before).is_ok());
        assert_eq!(access.admit(&b.nqn, end).unwrap_err(), Refusal::Expired);
        let c = Nqn::new("nqn.2026-11.test:c").unwrap();
        assert_eq!(access.admit(&c, before).unwrap_err(), Refusal::Unknown);
        // The key file is open to all, the two keys are the same, and the host's time is over.
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].contains("chmod 600") && warnings[1].contains("the same"));
        assert!(warnings[2].contains("has expired"));
        for text in [format!("{access:?}"), format!("{warnings:?}")] {
            assert!(!text.contains("VRLb"), "{text}");
        }
        fs::set_permissions(temp.path().join("hosts.toml"), fs::Permissions::from_mode(0o640)).unwrap();
        let (_, warnings) = Access::load(&temp.path().join("hosts.toml")).unwrap();
        assert!(warnings[0].contains("hosts.toml has keys"), "{warnings:?}");
    }

    #[test]
    fn a_host_may_be_bound_to_its_identifier() {
        let temp = tempfile::tempdir().unwrap();
        let text = |id| format!("[[host]]\nnqn = 'nqn.2026-11.test:a'\nrole = 'admin'\nhostid = '{id}'\n");
        let (access, _) = load(temp.path(), &text("6a1c0000-0000-0000-0000-0000000000ff")).unwrap();
        let rule = &access.hosts()[0];
        let mut id = [0; 16];
        (id[0], id[1], id[15]) = (0x6A, 0x1C, 0xFF);
        assert_eq!(rule.check_identifier(&id), Ok(()));
        assert_eq!(rule.check_identifier(&[1; 16]), Err(Refusal::HostIdentifier));
        assert_eq!(Rule::named(rule.nqn).check_identifier(&[1; 16]), Ok(()));
        let other = Rule { hostid: Some([1; 16]), ..rule.clone() };
        assert!(rule.proves_as(rule) && !rule.proves_as(&other), "a new list may bind it to another one");
        for wrong in
            ["", "6a1c", "00000000-0000-0000-0000-000000000000", "6a1c0000-0000-0000-0000-0000000000fg"]
        {
            let error = load(temp.path(), &text(wrong)).unwrap_err().to_string();
            assert!(error.contains("line 4") && error.contains("hostid"), "{error}");
        }
    }

    #[test]
    fn dates() {
        for (text, expected) in [
            ("1970-01-01", 0),
            ("1970-01-02", 86_400),
            ("2000-02-29T00:00:00Z", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2026-11-21T16:13:59Z", 1_795_277_639),
            ("2100-03-01T00:00:00-01:00", 4_107_546_000),
            ("1960-01-01", 0),
            // Without seconds (TOML 1.1), in a leap second, and as late as a date can be.
            ("2026-11-21T16:13Z", 1_795_277_580),
            ("2016-12-31T23:59:60Z", 1_483_228_800),
            ("9999-12-31", 253_402_214_400),
            ("9999-12-31T23:59:59-23:59", 253_402_387_139),
        ] {
            let since =
                instant(&text.parse().unwrap()).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(since.as_secs(), expected, "{text}");
        }
        assert!(instant(&"12:00:00".parse().unwrap()).is_none());
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_without_the_secret() {
        let temp = tempfile::tempdir().unwrap();
        let bad = KEY.replace("VRL", "VSL");
        let host = "[[host]]\nnqn = 'nqn.2026-11.test:a'\n";
        for (text, line, problem) in [
            ("[host]\nnqn = 'x'".to_owned(), 1, "[[host]]"),
            ("host = 5".to_owned(), 1, "[[host]]"),
            ("host = [5]".to_owned(), 1, "[[host]]"),
            ("[[guest]]".to_owned(), 1, "[[host]]"),
            ("\n[[host]]\n".to_owned(), 2, "no nqn"),
            ("[[host]]\nnqn = 'a'".to_owned(), 2, "form nqn."),
            ("[[host]]\nnqn = 5".to_owned(), 2, "text in quotes"),
            (format!("{host}dhchap_kay = '{KEY}'"), 3, "no 'dhchap_kay'"),
            (format!("{host}dhchap_kay = '{KEY}'"), 3, "(did you mean dhchap_key?)"),
            (format!("{host}dhchap_key = '{bad}'"), 3, "nqn.2026-11.test:a: the key's checksum"),
            (format!("{host}dhchap_key = '{PSK}'"), 3, "has the form DHHC-1:HH:BASE64:"),
            (format!("{host}tls_psk = '{KEY}'"), 3, "has the form NVMeTLSkey-1:HH:BASE64:"),
            (format!("{host}dhchap_key = {KEY}"), 3, "not TOML"),
            (format!("{host}dhchap_key = '{KEY}"), 3, "not TOML"),
            (format!("{host}dhchap_key = ['{KEY}']"), 3, "text in quotes"),
            (format!("{host}dhchap_hash = '{KEY}'"), 3, "list of sha256, sha384, sha512"),
            (format!("{host}dhchap_dhgroup = []"), 3, "list of null, ffdhe2048"),
            (format!("{host}dhchap_ctrl_key = '{KEY}'"), 2, "without dhchap_key"),
            (format!("{host}dhchap_key = '{KEY}'\ndhchap_key_file = 'x'"), 4, "both there"),
            (format!("{host}expires = '{KEY}'"), 3, "without quotes"),
            (format!("{host}expires = 12:00:00"), 3, "needs a date"),
            (format!("{host}{host}"), 3, "twice"),
            (format!("{host}role = 'tenant'"), 3, "needs namespaces"),
            (format!("{host}role = 'king'"), 3, "\"admin\" or \"tenant\""),
            (format!("{host}role = 5"), 3, "text in quotes"),
            (format!("{host}namespaces = [1]"), 3, "belongs to role"),
            (format!("{host}role = 'admin'\nnamespaces = [1]"), 4, "belongs to role"),
            (format!("{host}role = 'tenant'\nnamespaces = 1"), 4, "list of namespace identifiers"),
            (format!("{host}role = 'tenant'\nnamespaces = [0]"), 4, "list of namespace identifiers"),
            (format!("{host}role = 'tenant'\nnamespaces = [-1]"), 4, "list of namespace identifiers"),
            (format!("{host}role = 'tenant'\nnamespaces = [4294967295]"), 4, "list of namespace identifiers"),
        ] {
            let error = load(temp.path(), &text).unwrap_err();
            let AccessError::Content { line: found, .. } = &error else { panic!("{text}: {error}") };
            let words = error.to_string();
            assert_eq!(*found, line, "{text}: {words}");
            assert!(words.contains(problem), "{text}: {words}");
            assert!(!words.contains("WXW3c9"), "{words}");
            assert!(!format!("{error:?}").contains("WXW3c9"), "{error:?}");
        }
        let (_, warnings) = load(temp.path(), "").unwrap();
        assert!(warnings[0].contains("nobody can connect"), "{warnings:?}");
        let (access, warnings) = load(temp.path(), host).unwrap();
        assert!(warnings[0].contains("may administer the whole drive"), "{warnings:?}");
        assert_eq!(access.hosts()[0].role, Role::Administrator);
        let (_, warnings) = load(temp.path(), &format!("{host}role = 'tenant'\nnamespaces = []")).unwrap();
        assert!(warnings[0].contains("sees none"), "{warnings:?}");
        let (_, warnings) = load(temp.path(), &format!("{host}dhchap_hash = 'sha384'")).unwrap();
        assert!(warnings[0].contains("without a dhchap_key"), "{warnings:?}");
        // Its length is 0, and it has no end.
        let error =
            load(temp.path(), &format!("{host}dhchap_key_file = '/dev/zero'")).unwrap_err().to_string();
        assert!(error.contains("longer than 4096 bytes"), "{error}");
        let missing = load(temp.path(), &format!("{host}dhchap_key_file = 'none'")).unwrap_err().to_string();
        assert!(missing.contains("none: No such file"), "{missing}");
        let large = temp.path().join("large");
        fs::write(&large, vec![b'A'; 5000]).unwrap();
        let error = load(temp.path(), &format!("{host}dhchap_key_file = 'large'")).unwrap_err().to_string();
        assert!(error.contains("longer than 4096 bytes"), "{error}");
    }
}
