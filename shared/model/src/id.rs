//! Prefixed identifiers. Their alphabet (`[a-z0-9_]`) is valid in a NATS subject token.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// What an [`Id`] identifies.
pub trait IdKind {
    /// Text before the digits, with its underscore.
    const PREFIX: &'static str;
    /// Number of lower-case hex digits after the prefix.
    const DIGITS: usize;
}

/// An identifier of one kind: a prefix and lower-case hex digits, checked when parsed.
pub struct Id<K> {
    text: Box<str>,
    kind: PhantomData<fn() -> K>,
}

macro_rules! id_kinds {
    ($($(#[$doc:meta])* $alias:ident = $kind:ident($prefix:literal, $digits:literal);)*) => {$(
        #[derive(Debug)]
        #[doc(hidden)]
        pub enum $kind {}
        impl IdKind for $kind {
            const PREFIX: &'static str = $prefix;
            const DIGITS: usize = $digits;
        }
        $(#[$doc])*
        pub type $alias = Id<$kind>;
    )*};
}

id_kinds! {
    /// A run: `run_` and 32 hex digits. New ones begin with the time, so they sort by start.
    RunId = RunKind("run_", 32);
    /// A toolset: `ts_` and the SHA-256 of its canonical JSON.
    ToolsetId = ToolsetKind("ts_", 64);
    /// One start of one node process: a restarted node is another node.
    NodeId = NodeKind("node_", 16);
    /// Something that harnesses are told: a digest of what happened, so that it has one id however often it is told.
    EventId = EventKind("evt_", 32);
}

/// Why a text is not an id of the kind asked for.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{given:?} is not an id of the form {prefix}<{digits} lower-case hex digits>")]
pub struct IdError {
    given: String,
    prefix: &'static str,
    digits: usize,
}

impl<K: IdKind> Id<K> {
    fn from_hex(digits: &str) -> Self {
        Self { text: format!("{}{}", K::PREFIX, &digits[..K::DIGITS]).into(), kind: PhantomData }
    }

    /// The id whose digits are the SHA-256 of `bytes`, cut to the kind's length.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::from_hex(&hex::encode(Sha256::digest(bytes)))
    }

    /// A new id from the operating system's randomness.
    ///
    /// # Panics
    /// When the operating system has no randomness to give.
    pub fn random() -> Self {
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).expect("the operating system provides randomness");
        Self::from_hex(&hex::encode(bytes))
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl RunId {
    /// A new run's id: 48 bits of `unix_ms`, then randomness.
    pub fn new(unix_ms: u64) -> Self {
        let random = RunId::random();
        let digits = format!("{:012x}{}", unix_ms & 0xffff_ffff_ffff, &random.as_str()["run_".len()..]);
        Self::from_hex(&digits)
    }

    /// The shard that the run belongs to; the same in every process and version.
    pub fn shard(&self) -> Shard {
        let hash = Sha256::digest(self.text.as_bytes());
        Shard(hash[0] % Shard::COUNT)
    }
}

/// A fixed slice of all runs, owned by one node at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Shard(pub u8);

impl Shard {
    /// Fixed for the life of an installation: it is part of every journal's subject.
    pub const COUNT: u8 = 64;

    pub fn all() -> impl Iterator<Item = Shard> {
        (0..Self::COUNT).map(Shard)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        Self { text: self.text.clone(), kind: PhantomData }
    }
}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}
impl<K> std::hash::Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}
impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<K: IdKind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let digits = text.strip_prefix(K::PREFIX).filter(|digits| {
            digits.len() == K::DIGITS && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        });
        match digits {
            Some(_) => Ok(Self { text: text.into(), kind: PhantomData }),
            None => {
                let given = text.chars().take(80).collect();
                Err(IdError { given, prefix: K::PREFIX, digits: K::DIGITS })
            }
        }
    }
}

impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}
impl<'de, K: IdKind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_checked_when_parsed() {
        let id = RunId::new(1_700_000_000_000);
        assert_eq!(id.as_str().parse::<RunId>(), Ok(id.clone()));
        for bad in [
            "",
            "run_",
            "run_XYZ",
            "ts_0",
            "run_0123456789abcdef0123456789abcde.",
            "run_0123456789ABCDEF0123456789abcdef",
        ] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn later_runs_sort_later() {
        assert!(RunId::new(1_000) < RunId::new(2_000));
    }

    #[test]
    fn every_shard_is_used() {
        let used: std::collections::BTreeSet<_> = (0..5_000).map(|n| RunId::new(n).shard()).collect();
        assert_eq!(used.len(), usize::from(Shard::COUNT));
    }
}
