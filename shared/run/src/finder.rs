//! Matching the calls of a script with those of a history.

use std::collections::BTreeSet;

use rewind_model::{Json, Payload, Seq, Timestamp};
use serde_json::Value;

use crate::{Call, History, Made, NewCall, Origin, PastCall, Run};

/// Finds where the outcome of each new call comes from, in the order in which the script makes them.
#[derive(Debug)]
pub(crate) struct Finder<'a> {
    history: &'a History,
    /// Of a fork, none: of a cassette.
    fork: bool,
    diverged: bool,
    used: BTreeSet<Seq>,
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
    pub(crate) fn new(history: &'a History, run: &Run) -> Self {
        let fork = run.spec().and_then(|spec| spec.past.as_ref()).is_some_and(|past| past.forked_from.is_some());
        Self { history, fork, diverged: run.diverged(), used: run.used_origins().clone() }
    }

    /// Marks the call with its origin.
    pub(crate) fn find(&mut self, new: &mut NewCall, script_time: Timestamp) -> Found {
        let refused = new.refused.is_some();
        if !self.fork {
            if refused {
                return Found { differs: None, then: Some(self.refused_on_cassette(new, script_time)) };
            }
            new.call.set_origin(Some(self.on_cassette(new.seq, &new.call)));
            return Found::default();
        }
        let Some(past) = self.history.calls.get(&new.seq) else { return Found::default() };
        let same = past.made.is(&new.call) && matches!(past.made, Made::Refused { .. }) == refused;
        if !same {
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

    /// When the script was told so there, if it was.
    fn refused_on_cassette(&self, new: &NewCall, script_time: Timestamp) -> Timestamp {
        let past = self.history.calls.get(&new.seq);
        let same = past.filter(|past| matches!(past.made, Made::Refused { .. }) && past.made.is(&new.call));
        same.and_then(|past| past.outcome.as_ref()).map_or(script_time, |outcome| outcome.at.max(script_time))
    }

    /// The call of the same number if it is the same, otherwise the first one that is and was not used.
    fn on_cassette(&mut self, seq: Seq, call: &Call) -> Origin {
        let fits = |(number, past): &(&Seq, &PastCall)| {
            past.outcome.is_some()
                && matches!(past.made, Made::Call(_))
                && (past.made.is(call) || same_but_for_order(&past.made, call))
                && !self.used.contains(number)
        };
        let own = self.history.calls.get_key_value(&seq).filter(fits);
        match own.or_else(|| self.history.calls.iter().find(fits)) {
            Some((number, _)) => {
                self.used.insert(*number);
                Origin::Past(*number)
            }
            None => Origin::Nothing,
        }
    }
}

/// A cassette that went through other programs has its members in another order.
fn same_but_for_order(made: &Made, now: &Call) -> bool {
    let (
        Made::Call(Call::Tool { tool, arguments: Payload::Inline(then), raw, .. }),
        Call::Tool { tool: tool_now, arguments: Payload::Inline(arguments), raw: raw_now, .. },
    ) = (made, now)
    else {
        return false;
    };
    let bytes = |json: &Json| {
        let mut bytes = json.as_str().as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    let values = || Some((then.to::<Value>().ok()?, arguments.to::<Value>().ok()?));
    // The bytes tell numbers apart that are the same double.
    (tool, raw) == (tool_now, raw_now)
        && then.len() == arguments.len()
        && bytes(then) == bytes(arguments)
        && values().is_some_and(|(then, now)| then == now)
}
