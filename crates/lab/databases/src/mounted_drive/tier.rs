//! A cache tier of a layout's namespaces: `[[cache]]` of the drive's TOML.

use anyhow::Result;
use toml::{Table, Value};

/// A cache tier that is served with a layout's drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Tier {
    /// Its name. That of its control socket is made of it, so no two tiers of this machine may have the same.
    pub name: String,
    /// Name of the namespace that it is in front of.
    pub origin: String,
    /// Name of the namespace that chunks are cached on.
    pub cache: String,
    /// Name of the namespace with its metadata. Where that is blank, the tier is made.
    pub metadata: String,
    /// Further keys of `[[cache]]`: chunk, mode, policy, set.
    pub settings: Table,
}

impl Tier {
    /// Whether a namespace has no block device of its own beside the tier's.
    pub(super) fn hides(&self, namespace: &str) -> bool {
        [&self.origin, &self.cache, &self.metadata].contains(&&namespace.to_owned())
    }

    /// The array `[[cache]]` with this tier; `nsid` gives the identifiers of namespaces.
    pub(super) fn toml(&self, nsid: impl Fn(&str) -> Result<u32>) -> Result<Value> {
        let mut table = self.settings.clone();
        table.insert("name".into(), self.name.clone().into());
        for (key, namespace) in
            [("origin", &self.origin), ("cache", &self.cache), ("metadata", &self.metadata)]
        {
            table.insert(key.into(), i64::from(nsid(namespace)?).into());
        }
        Ok(Value::Array(vec![table.into()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_names_its_namespaces_by_number() {
        let settings: Table = toml::from_str("chunk = \"64KiB\"\nmode = \"writeback\"").unwrap();
        let [name, origin, cache, metadata] = ["t", "slow", "fast", "meta"].map(str::to_owned);
        let tier = Tier { name, origin, cache, metadata, settings };
        let number = |name: &str| match ["slow", "other", "fast", "meta"].iter().position(|of| *of == name) {
            Some(at) => Ok(at as u32 + 1),
            None => anyhow::bail!("no {name}"),
        };
        let expected: Table = toml::from_str(
            "[[cache]]\nname = \"t\"\norigin = 1\ncache = 3\nmetadata = 4\nchunk = \"64KiB\"\nmode = \"writeback\"",
        )
        .unwrap();
        assert_eq!(tier.toml(number).unwrap(), expected["cache"]);
        assert!(tier.hides("meta") && tier.hides("slow") && !tier.hides("other"));
        assert!(Tier { cache: "gone".into(), ..tier }.toml(number).is_err());
    }
}
