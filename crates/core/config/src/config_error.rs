//! Why a configuration is refused.

/// Why a drive cannot be as configured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is not allowed.
    #[error("{key} is {value}: {rule}")]
    Value {
        /// The key, as in the drive's TOML.
        key: String,
        /// What it was.
        value: String,
        /// What is allowed.
        rule: String,
    },
    /// The media or the translation layer cannot be so: what a drive's TOML has no key for.
    #[error(transparent)]
    Ftl(#[from] ftl::ConfigError),
    /// The file is not TOML, or has unknown keys or values of the wrong kind. The message has line and key.
    #[error("{0}")]
    Toml(String),
}

impl ConfigError {
    /// A value that a key may not have, and what it may be.
    pub fn value(key: impl Into<String>, value: impl ToString, rule: impl Into<String>) -> Self {
        ConfigError::Value { key: key.into(), value: value.to_string(), rule: rule.into() }
    }
}
