use std::{fmt, str::FromStr};

use rewind_model::Digest;

/// The key that a client shows to the API: `rw_` and 64 hex digits when made here; one that somebody
/// else made is any text of 16 to 256 visible ASCII characters.
///
/// Keys are stored and looked up as their SHA-256 only. Looking up a hash takes a time that says
/// nothing about the key: how far two hashes agree is not steered by whoever guesses. A key has the
/// entropy of a random one, so a slow hash would protect nothing more.
#[derive(Clone)]
pub struct ApiKey(Box<str>);

/// Repeats nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an API key is 16 to 256 visible ASCII characters")]
pub struct ApiKeyError;

impl ApiKey {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=256;

    /// A new key with 256 bits of the operating system's randomness.
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn generate() -> Self {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).expect("the operating system provides randomness");
        Self(format!("rw_{}", hex::encode(bytes)).into())
    }

    /// What is stored of the key.
    pub fn hash(&self) -> Digest {
        Digest::of(&*self.0)
    }

    /// The text itself, for showing it once to the person it was made for.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApiKey {
    type Err = ApiKeyError;
    fn from_str(text: &str) -> Result<Self, ApiKeyError> {
        let valid = Self::LENGTHS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if valid { Ok(Self(text.into())) } else { Err(ApiKeyError) }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_key_parses_and_keeps_its_hash() {
        let key = ApiKey::generate();
        let again: ApiKey = key.expose().parse().expect("a key");
        assert_eq!(key.hash(), again.hash());
        assert_ne!(key.hash(), ApiKey::generate().hash());
        assert!(key.expose().starts_with("rw_") && key.expose().len() == 67);
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        assert_eq!(format!("{:?}", ApiKey::generate()), "ApiKey(secret)");
        let error = "short-s3cret".parse::<ApiKey>().expect_err("too short");
        assert!(!error.to_string().contains("s3cret"));
        for bad in ["", "sixteen letters and spaces", &"x".repeat(257)] {
            assert!(bad.parse::<ApiKey>().is_err(), "{bad}");
        }
    }
}
