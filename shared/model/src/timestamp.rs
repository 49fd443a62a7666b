use std::{
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Milliseconds since 1970-01-01T00:00:00Z. In JSON an RFC 3339 text in UTC, in MessagePack the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The wall clock. Only the edges ask it; the core gets time as an argument.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms)
    }

    pub const fn unix_ms(self) -> i64 {
        self.0
    }

    /// `self` later by `by`; stays within what RFC 3339 can write (year 9999).
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        const LAST: i64 = 253_402_300_799_999;
        let ms = i64::try_from(by.as_millis()).unwrap_or(LAST);
        Self(self.0.saturating_add(ms).min(LAST))
    }

    /// `self` earlier by `by`, not before 1970.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)).max(0))
    }

    /// RFC 3339 with three digits of milliseconds always, for people who read times below each other.
    pub fn to_millis(self) -> String {
        let (seconds, ms) = (self.0.div_euclid(1_000), self.0.rem_euclid(1_000));
        format!("{}.{ms:03}Z", Self(seconds * 1_000).to_string().trim_end_matches('Z'))
    }

    /// How long after `earlier` this is; zero if it is not after.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment =
            OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000).map_err(|_| fmt::Error)?;
        f.write_str(&moment.format(&Rfc3339).map_err(|_| fmt::Error)?)
    }
}
impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = time::error::Parse;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let moment = OffsetDateTime::parse(text, &Rfc3339)?;
        Ok(Self(i64::try_from(moment.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.collect_str(self) } else { serializer.serialize_i64(self.0) }
    }
}
impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
        } else {
            i64::deserialize(deserializer).map(Self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_for_people_have_one_width() {
        let text = |ms| Timestamp::from_unix_ms(ms).to_millis();
        assert_eq!(text(1_767_323_045_120), "2026-01-02T03:04:05.120Z");
        assert_eq!(text(1_767_323_045_000), "2026-01-02T03:04:05.000Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999Z");
    }
}
