//! What the publisher has yet to do. Pure: it is told what time it is.

use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map},
    time::{Duration, Instant},
};

use rewind_model::RunId;

const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Runs of which something is to be told. One that cannot be told of at the moment waits by itself.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    runs: HashMap<RunId, Entry>,
    ready: VecDeque<RunId>,
    later: BTreeSet<(Instant, RunId)>,
}

#[derive(Debug)]
struct Entry {
    /// What is to be told is in no message before this one.
    first: u64,
    /// Of what came while it was being worked on.
    again: Option<u64>,
    working: bool,
    failures: u32,
}

impl Backlog {
    pub(crate) fn add(&mut self, run: RunId, first: u64) {
        match self.runs.entry(run) {
            hash_map::Entry::Occupied(mut entry) if entry.get().working => {
                entry.get_mut().again.get_or_insert(first);
            }
            // It has yet to be looked at: it will be found.
            hash_map::Entry::Occupied(mut entry) => entry.get_mut().first = entry.get().first.min(first),
            hash_map::Entry::Vacant(entry) => {
                self.ready.push_back(entry.key().clone());
                entry.insert(Entry { first, again: None, working: false, failures: 0 });
            }
        }
    }

    /// One to work on, if there is one at this time.
    pub(crate) fn next(&mut self, now: Instant) -> Option<RunId> {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            self.ready.extend(self.later.pop_first().map(|(_, run)| run));
        }
        let run = self.ready.pop_front()?;
        if let Some(entry) = self.runs.get_mut(&run) {
            entry.working = true;
        }
        Some(run)
    }

    /// All of the run that was there when work on it began has been told.
    pub(crate) fn told(&mut self, run: &RunId) {
        let Some(entry) = self.runs.get_mut(run) else { return };
        match entry.again.take() {
            Some(first) => {
                *entry = Entry { first, again: None, working: false, failures: 0 };
                self.ready.push_back(run.clone());
            }
            None => drop(self.runs.remove(run)),
        }
    }

    /// All of the run that is there was told, and there is more to come, in a message that is not written yet: it holds
    /// the mark no longer.
    pub(crate) fn told_so_far(&mut self, run: &RunId, now: Instant) {
        if let Some(entry) = self.runs.get_mut(run) {
            entry.first = entry.again.take().unwrap_or(u64::MAX);
        }
        self.failed(run, now);
    }

    /// It is to be tried again, later each time; how often it has failed by now.
    pub(crate) fn failed(&mut self, run: &RunId, now: Instant) -> u32 {
        let Some(entry) = self.runs.get_mut(run) else { return 0 };
        let wait = (FIRST_WAIT * 2u32.pow(entry.failures.min(10))).min(LONGEST_WAIT);
        entry.failures += 1;
        entry.working = false;
        entry.again = None;
        self.later.insert((now + wait, run.clone()));
        entry.failures
    }

    /// Up to which sequence all has been told, if all up to `seen` is known.
    pub(crate) fn told_up_to(&self, seen: u64) -> u64 {
        self.runs.values().map(|entry| entry.first.saturating_sub(1)).min().map_or(seen, |first| first.min(seen))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u8) -> RunId {
        RunId::of_bytes(&[n])
    }

    #[test]
    fn what_is_not_told_holds_the_mark_and_nobody_else() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        assert_eq!(backlog.told_up_to(9), 9);
        backlog.add(run(1), 5);
        backlog.add(run(2), 7);
        assert_eq!(backlog.next(now), Some(run(1)));
        backlog.failed(&run(1), now);
        assert_eq!(backlog.next(now), Some(run(2)));
        assert_eq!(backlog.next(now), None);
        backlog.told(&run(2));
        assert_eq!(backlog.told_up_to(9), 4);
        assert_eq!(backlog.next(now + FIRST_WAIT), Some(run(1)));
        backlog.told(&run(1));
        assert_eq!(backlog.told_up_to(9), 9);
    }

    #[test]
    fn what_comes_while_a_run_is_worked_on_is_worked_on_afterwards() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        backlog.add(run(1), 5);
        backlog.add(run(1), 6);
        assert_eq!(backlog.next(now), Some(run(1)));
        backlog.add(run(1), 8);
        backlog.add(run(1), 9);
        assert_eq!(backlog.next(now), None, "never twice at once");
        backlog.told(&run(1));
        assert_eq!(backlog.told_up_to(20), 7);
        assert_eq!(backlog.next(now), Some(run(1)));
        backlog.told(&run(1));
        assert_eq!((backlog.next(now), backlog.told_up_to(20)), (None, 20));
    }

    #[test]
    fn what_is_not_there_yet_holds_no_mark() {
        let (mut backlog, now) = (Backlog::default(), Instant::now());
        backlog.add(run(1), 5);
        backlog.next(now);
        backlog.told_so_far(&run(1), now);
        assert_eq!(backlog.told_up_to(9), 9);
        backlog.next(now + FIRST_WAIT);
        backlog.add(run(1), 10);
        backlog.told_so_far(&run(1), now);
        assert_eq!(backlog.told_up_to(20), 9);
        backlog.next(now + LONGEST_WAIT);
        backlog.told_so_far(&run(1), now);
        backlog.add(run(1), 15);
        assert_eq!(backlog.told_up_to(20), 14, "what comes while it waits does");
    }

    #[test]
    fn what_cannot_be_told_is_tried_ever_less_often() {
        let (mut backlog, mut now) = (Backlog::default(), Instant::now());
        backlog.add(run(1), 1);
        for _ in 0..40 {
            assert_eq!(backlog.next(now), Some(run(1)));
            backlog.failed(&run(1), now);
            now += LONGEST_WAIT;
        }
        backlog.add(run(1), 50);
        assert_eq!(backlog.next(now - Duration::from_secs(1)), None);
        assert_eq!(backlog.told_up_to(90), 0);
    }
}
