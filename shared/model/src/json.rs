use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

/// A JSON value kept as its text, so that a number that no double holds stays exact.
///
/// In JSON it stands as itself; in MessagePack it is a string that holds the text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// # Errors
    /// When `text` is not one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, serde_json::Error> {
        let raw = RawValue::from_string(text.into())?;
        Ok(Self(Box::<str>::from(raw)))
    }

    /// # Errors
    /// When `value` cannot be written as JSON (a map with keys that are no strings).
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::to_string(value).map(|text| Self(text.into()))
    }

    pub fn null() -> Self {
        Self("null".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Number of bytes of the text.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Never: the shortest JSON text is one digit. Here because `len` is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// # Errors
    /// When the value is not a `T`.
    pub fn to<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// How deep arrays and objects are nested: 0 for a scalar.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let mut bytes = self.0.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => {
                    while let Some(byte) = bytes.next() {
                        match byte {
                            b'"' => break,
                            b'\\' => drop(bytes.next()),
                            _ => {}
                        }
                    }
                }
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// The same text over many lines, two spaces a level: nothing but white space differs.
    pub fn pretty(&self) -> String {
        crate::pretty::pretty(self.as_str())
    }

    /// The same text without white space between its tokens.
    #[must_use]
    pub fn compact(self) -> Self {
        let spaced = self.as_str().bytes().any(|byte| byte.is_ascii_whitespace());
        if spaced { Self(crate::pretty::compact(self.as_str()).into()) } else { self }
    }

    pub fn into_string(self) -> String {
        self.0.into()
    }
}

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string().into())
    }
}

/// Only the size: arguments and results are the user's and stay out of logs.
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({} bytes)", self.0.len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            raw.serialize(serializer)
        } else {
            serializer.serialize_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            Ok(Self(Box::<str>::from(Box::<RawValue>::deserialize(deserializer)?)))
        } else {
            Self::parse(String::deserialize(deserializer)?).map_err(de::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_numbers_stay_exact_in_json() {
        let json: Json = serde_json::from_str("{\"n\":12345678901234567890123}").expect("valid");
        assert_eq!(serde_json::to_string(&json).expect("writable"), "{\"n\":12345678901234567890123}");
    }

    #[test]
    fn only_brackets_outside_of_texts_count_as_depth() {
        let depth = |text: &str| Json::parse(text).expect("valid").depth();
        assert_eq!(depth("1"), 0);
        assert_eq!(depth(r#"[{"a":[]},{}]"#), 3);
        assert_eq!(depth(r#"["[[\"[[", "\\", {"{": 1}]"#), 2);
        assert_eq!(depth(&("[".repeat(100_000) + &"]".repeat(100_000))), 100_000);
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", Json::parse("\"secret\"").expect("valid")), "Json(8 bytes)");
    }
}
