//! Runs that failed in this node: each is left alone for a while before it is begun again, longer each time.

use std::{collections::HashMap, time::Duration};

use rewind_model::RunId;

use crate::run::{Mail, Mailbox};

/// After the first failure; twice as long each time, up to the second.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);

/// What such a run was at is nobody's until it is begun again.
#[derive(Debug, Default)]
pub(crate) struct Failing(HashMap<RunId, Failure>);

#[derive(Debug)]
struct Failure {
    wait: Duration,
    /// While it is left alone: what comes for it.
    mailbox: Option<Mailbox>,
}

impl Failing {
    /// The run failed; how long it is to be left alone.
    pub(crate) fn add(&mut self, run: RunId) -> Duration {
        let failure = self.0.entry(run).or_insert(Failure { wait: AGAIN / 2, mailbox: None });
        failure.wait = (failure.wait * 2).min(AGAIN_AT_MOST);
        failure.mailbox.get_or_insert_default();
        failure.wait
    }

    /// `None`: the mail is kept until the run is begun again. Otherwise it is given back.
    pub(crate) fn keep(&self, run: &RunId, mail: Mail) -> Option<Mail> {
        match self.0.get(run).and_then(|failure| failure.mailbox.as_ref()) {
            Some(mailbox) => {
                // Nobody has to be told: it is looked at when the time is over.
                let _ = mailbox.put(mail);
                None
            }
            None => Some(mail),
        }
    }

    /// Its time is over; the mail that has come meanwhile.
    pub(crate) fn begin(&mut self, run: &RunId) -> Option<Mailbox> {
        self.0.get_mut(run)?.mailbox.take()
    }

    pub(crate) fn is_left_alone(&self, run: &RunId) -> bool {
        self.0.get(run).is_some_and(|failure| failure.mailbox.is_some())
    }

    /// Did it fail, and has not gone on since?
    pub(crate) fn contains(&self, run: &RunId) -> bool {
        self.0.contains_key(run)
    }

    /// It has gone on: something of it came into its journal.
    pub(crate) fn remove(&mut self, run: &RunId) {
        self.0.remove(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_left_alone_longer_each_time_until_it_goes_on() {
        let (run, mut failing) = (RunId::of_bytes(b"run"), Failing::default());
        assert!(!failing.contains(&run) && failing.begin(&run).is_none());
        assert!(failing.keep(&run, Mail::Due { seq: 1 }).is_some(), "it is not failing");
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                let wait = failing.add(run.clone());
                assert!(failing.is_left_alone(&run));
                assert!(failing.keep(&run, Mail::Due { seq: 1 }).is_none());
                let mailbox = failing.begin(&run).expect("mail");
                assert_eq!(mailbox.take().len(), 1);
                assert!(!failing.is_left_alone(&run) && failing.contains(&run));
                assert!(failing.keep(&run, Mail::Due { seq: 1 }).is_some(), "its actor gets it");
                wait.as_secs()
            })
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        failing.remove(&run);
        assert_eq!(failing.add(run), AGAIN);
    }
}
