use std::{convert::Infallible, fmt, str::FromStr};

use serde::{Deserialize, Deserializer};

/// A value that neither `Debug` nor an error message shows. It cannot be serialised.
#[derive(Clone)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the place that needs it and no other.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Takes any text: a parser that refused some would make clap print the secret in its error.
impl FromStr for Secret<String> {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Secret<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret::new("hunter2".to_owned());
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "(secret) Some((secret))");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn secrets_are_read_from_documents() {
        let secret: Secret<String> = serde_json::from_str("\"s\"").expect("a text");
        assert_eq!(secret.expose(), "s");
    }
}
