//! Matching the calls of a script with those of a history.

use std::collections::BTreeSet;

use rewind_model::{ErrorCode, Outcome, Seq, Timestamp};

use crate::{
    Call, History, Made, NewCall, Origin, PastCall, Run, Taken,
    history::outcome_unknown,
    identity::{same_but_for_order, same_but_for_raw},
};

/// Finds where the outcome of each new call comes from, in the order in which the script makes them.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    history: &'a History,
    /// Of a fork, none: of a cassette.
    fork: bool,
    diverged: bool,
    /// By calls before, and by those of this turn.
    used: &'a BTreeSet<Seq>,
    used_now: BTreeSet<Seq>,
}

/// What is to be recorded about a call because of the history.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The script parts here from what it is a fork of: the call that is in its place there.
    pub(crate) differs: Option<String>,
    /// Script time, if the call is refused.
    pub(crate) then: Option<Timestamp>,
}

impl<'a> Finder<'a> {
    pub(crate) fn new(history: &'a History, run: &'a Run) -> Self {
        let (used, used_now) = (run.used_origins(), BTreeSet::new());
        Self { history, fork: run.is_fork(), diverged: run.diverged(), used, used_now }
    }

    /// Marks the call with its origin.
    pub(crate) fn find(&mut self, new: &mut NewCall, script_time: Timestamp) -> Found {
        self.hand_on_unknown(new);
        let refused = new.refused.is_some();
        if !self.fork {
            if refused {
                return Found { differs: None, then: Some(self.refused_on_cassette(new, script_time)) };
            }
            new.call.set_origin(Some(self.on_cassette(new.seq, &new.call)));
            return Found::default();
        }
        let Some(past) = self.history.calls.get(&new.seq) else { return Found::default() };
        let is = past.made.is(&new.call) || same_but_for_order(&past.made, &new.call);
        let same = is && matches!(past.made, Made::Refused { .. }) == refused;
        if !same {
            if let Call::Tool { tool, terms, .. } = &new.call
                && terms.at_most_once
                && past.outcome.is_some()
                && same_but_for_raw(&past.made, &new.call)
            {
                let why =
                    "the run that this one is a fork of made the same call, and asked for its result in another form";
                new.refused = new.refused.take().or_else(|| Some(outcome_unknown(tool, why)));
            }
            let first = !std::mem::replace(&mut self.diverged, true);
            return Found { differs: first.then(|| past.made.describe()), then: None };
        }
        let then =
            past.outcome.as_ref().filter(|_| refused && !self.diverged).map(|outcome| outcome.at.max(script_time));
        if !refused && past.outcome.is_some() && (!self.diverged || new.call.terms().at_most_once) {
            new.call.set_origin(Some(Origin::Past(new.seq)));
        }
        Found { differs: None, then }
    }

    /// A call that was refused there since nobody knows what became of it is refused here.
    fn hand_on_unknown(&self, new: &mut NewCall) {
        let Some(PastCall { made: made @ Made::Refused { .. }, outcome: Some(outcome) }) =
            self.history.calls.get(&new.seq)
        else {
            return;
        };
        if let Taken::Outcome(Outcome::Err(failure)) = &outcome.taken
            && failure.code == ErrorCode::OutcomeUnknown
            && made.is(&new.call)
        {
            new.refused = new.refused.take().or_else(|| Some(failure.clone()));
        }
    }

    /// When the script was told so there, if it was.
    fn refused_on_cassette(&self, new: &NewCall, script_time: Timestamp) -> Timestamp {
        let past = self.history.calls.get(&new.seq);
        let same = past.filter(|past| matches!(past.made, Made::Refused { .. }) && past.made.is(&new.call));
        same.and_then(|past| past.outcome.as_ref()).map_or(script_time, |outcome| outcome.at.max(script_time))
    }

    /// The calls before `seq` that have outcomes to be taken.
    fn all_before(&self, seq: Seq) -> impl Iterator<Item = Seq> {
        let before = self.history.calls.range(..seq);
        let taken = before.filter(|(_, past)| past.outcome.is_some() && matches!(past.made, Made::Call(_)));
        taken.map(|(seq, _)| *seq)
    }

    /// The call of the same number if it is the same, otherwise the first one that is and was not used.
    fn on_cassette(&mut self, seq: Seq, call: &Call) -> Origin {
        let own = self.history.calls.get(&seq).filter(|past| {
            matches!(past.made, Made::Call(_)) && (past.made.is(call) || same_but_for_order(&past.made, call))
        });
        let used = |seq: Seq| self.used.contains(&seq) || self.used_now.contains(&seq);
        let found = match own {
            // A script that has done the same so far gets what it got there, also if that is nothing.
            Some(past) if past.outcome.is_none() && self.all_before(seq).all(&used) => None,
            Some(past) if past.outcome.is_some() && !used(seq) => Some(seq),
            Some(_) | None => self.history.index().first(call, used),
        };
        let Some(found) = found else { return Origin::Nothing };
        self.used_now.insert(found);
        Origin::Past(found)
    }
}
