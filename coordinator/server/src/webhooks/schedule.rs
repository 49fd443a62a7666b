//! When an event that was not taken is tried again.

use std::{str::FromStr, time::Duration};

use rewind_model::parse_duration;

/// Attempts of one event.
const MOST: usize = 64;
/// An event that waited in the stream for longer than the whole schedule, because no coordinator ran, has this many
/// attempts all the same.
const LEAST_ATTEMPTS: usize = 3;

/// The waits between attempts, the first one after the first attempt.
///
/// What counts is how long ago the event happened to be published, not how often it was tried: a coordinator that dies
/// with an event, or an endpoint that is busy, costs it none of its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule(Vec<Duration>);

impl FromStr for Schedule {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let waits = text.split(',').map(|wait| parse_duration(wait).map_err(|error| error.to_string()));
        let waits: Vec<_> = waits.collect::<Result<_, _>>()?;
        let fits = waits.len() <= MOST && waits.iter().all(|wait| !wait.is_zero());
        if fits { Ok(Self(waits)) } else { Err(format!("at most {MOST} waits, none of them zero")) }
    }
}

impl Schedule {
    /// How long to wait for the next attempt, of an event that is `age` old and was brought `deliveries` times; `None`:
    /// it is given up.
    pub(crate) fn next(&self, age: Duration, deliveries: u32) -> Option<Duration> {
        let mut at = Duration::ZERO;
        for wait in &self.0 {
            at += *wait;
            if at > age {
                return Some(at - age);
            }
        }
        let tried = usize::try_from(deliveries).unwrap_or(usize::MAX);
        let few = tried < LEAST_ATTEMPTS.min(self.0.len() + 1);
        self.0.get(tried.saturating_sub(1)).copied().filter(|_| few)
    }

    /// From the first attempt to the last one.
    pub(crate) fn whole(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The most attempts that an event of this age can have had.
    pub(crate) fn attempts(&self, deliveries: u32) -> u32 {
        deliveries.min(u32::try_from(self.0.len() + 1).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: &str = crate::webhooks::settings::DEFAULT_RETRY;

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    #[test]
    fn an_event_is_tried_for_about_a_day() {
        let schedule: Schedule = DAY.parse().expect("a schedule");
        let (mut age, mut attempts) = (Duration::ZERO, 1);
        while let Some(wait) = schedule.next(age, attempts) {
            // An attempt takes its time.
            age += wait + secs(1);
            attempts += 1;
        }
        assert_eq!(attempts, 11);
        assert!((secs(23 * 3600)..secs(25 * 3600)).contains(&age), "{age:?}");
    }

    #[test]
    fn deliveries_that_were_no_attempts_cost_none() {
        let schedule: Schedule = "5s,30s,2m".parse().expect("a schedule");
        assert_eq!(schedule.next(secs(6), 1_000), Some(secs(29)));
        assert_eq!(schedule.next(secs(155), 1_000), None);
        assert_eq!(schedule.attempts(1_000), 4);
    }

    #[test]
    fn an_event_that_nobody_tried_for_long_is_tried_a_few_times() {
        let schedule: Schedule = DAY.parse().expect("a schedule");
        let waits: Vec<_> = (1..=3).map(|attempts| schedule.next(secs(500_000), attempts)).collect();
        assert_eq!(waits, [Some(secs(5)), Some(secs(30)), None]);
    }

    #[test]
    fn a_schedule_is_a_list_of_waits() {
        for bad in ["", "5", "0s", "5s,,6s", "-1s", &["1s"; 65].join(",")] {
            assert!(bad.parse::<Schedule>().is_err(), "{bad}");
        }
    }
}
