use std::{convert::Infallible, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The key that a client shows to the API. Its text is never in `Debug` output, errors or logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ApiKey(String);

impl ApiKey {
    /// A new key with 256 bits of the operating system's randomness.
    pub(crate) fn random() -> Self {
        Self(format!("rk_{}", random_hex()))
    }

    /// The text itself, for the header and for the environment of the coordinator only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

/// A text that is in no `Debug` output, such as a URL with a token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Hidden(String);

impl Hidden {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// The text itself, for the environment of the coordinator and for files of their owner only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Hidden {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// 64 hex digits from the operating system's randomness.
pub(crate) fn random_hex() -> String {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system provides randomness");
    hex::encode(bytes)
}

/// Takes any text: a parser that refused some would make clap print the key in its error.
impl FromStr for ApiKey {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_hides_the_key() {
        let key = ApiKey::random();
        assert_eq!(format!("{key:?}"), "ApiKey(hidden)");
        assert_ne!(key, ApiKey::random());
    }
}
