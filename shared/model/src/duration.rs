//! Durations as people write them: `"250ms"`, `"30s"`, `"5m"`, `"12h"`, `"10d"`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
const LONGEST_MS: f64 = 3_650.0 * 86_400_000.0;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is no duration: write a number and ms, s, m, h or d, such as \"30s\" or \"10d\" (at most 3650d)")]
pub struct DurationError(String);

/// # Errors
/// When `text` is not a number followed by a unit, is negative, or is over ten years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError(text.chars().take(40).collect());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(error)?;
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| error())?;
    let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
    let ms = number * *unit_ms as f64;
    if !(0.0..=LONGEST_MS).contains(&ms) {
        return Err(error());
    }
    Ok(Duration::from_millis(ms.round() as u64))
}

/// The shortest exact text that [`parse_duration`] reads back, to the millisecond.
pub fn format_duration(duration: Duration) -> String {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let (name, unit_ms) = UNITS.iter().find(|(_, unit_ms)| ms > 0 && ms % unit_ms == 0).unwrap_or(&("s", 1_000));
    format!("{}{name}", ms / unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_back() {
        for text in ["250ms", "30s", "5m", "12h", "10d", "0s"] {
            assert_eq!(format_duration(parse_duration(text).expect(text)), text);
        }
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        for bad in ["", "10", "s", "-1s", "1e30d", "NaNs", "1 fortnight", "99999d"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
