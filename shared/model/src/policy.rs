use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{format_duration, parse_duration};

/// How a tool is called: what an interruption means, how long an attempt may take, how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub delivery: Delivery,
    /// Of one attempt. Time queued or parked does not count.
    #[serde(with = "duration_text")]
    pub timeout: Duration,
    pub retry: Retry,
    #[serde(default, skip_serializing_if = "Approval::is_never")]
    pub approval: Approval,
    /// How long a call is parked at most, whatever for; it is rejected then. `None`: until somebody decides.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_duration_text")]
    pub park_limit: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Sent again with the same key after an interruption.
    #[default]
    AtLeastOnce,
    /// Never sent again once it may have been sent.
    AtMostOnce,
}

/// Does a person decide before a call is sent?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    #[default]
    Never,
    Always,
}

impl Approval {
    /// Toolsets from before there were approvals keep their ids.
    fn is_never(&self) -> bool {
        *self == Self::Never
    }
}

/// Attempts of a call that was interrupted (never of one that the tool answered).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    pub max_attempts: u32,
    #[serde(with = "duration_text")]
    pub initial_interval: Duration,
    #[serde(with = "duration_text")]
    pub max_interval: Duration,
    pub backoff: f64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            delivery: Delivery::AtLeastOnce,
            timeout: Duration::from_secs(60),
            retry: Retry::default(),
            approval: Approval::Never,
            park_limit: None,
        }
    }
}

impl Policy {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            initial_interval: Duration::from_millis(200),
            max_interval: Duration::from_secs(30),
            backoff: 2.0,
        }
    }
}

impl Retry {
    /// Time to wait after the `failures`-th failed attempt (from 1); `None` when that was the last.
    pub fn wait_after(&self, failures: u32) -> Option<Duration> {
        if failures >= self.max_attempts {
            return None;
        }
        let factor = self.backoff.powi(i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX));
        let wait = self.initial_interval.as_secs_f64() * factor;
        let longest = self.max_interval.as_secs_f64();
        // NaN and infinity compare as "not less", and so end at the longest.
        Some(Duration::from_secs_f64(if wait < longest { wait } else { longest }))
    }
}

mod duration_text {
    use super::{Duration, format_duration, parse_duration};
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration(*value))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse_duration(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

mod optional_duration_text {
    use super::{Duration, format_duration, parse_duration};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(format_duration).serialize(serializer)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse_duration(&text)).transpose().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_attempts_with_growing_waits() {
        let retry = Retry::default();
        let waits: Vec<_> = (1..=5).map(|n| retry.wait_after(n).map(|wait| wait.as_millis())).collect();
        assert_eq!(waits, [Some(200), Some(400), Some(800), Some(1600), None]);
    }
}
