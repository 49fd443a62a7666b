//! From a tool's answer to the next call of the same run, as the tool sees it: what Rewind takes for
//! one call of a script that calls one tool after the other, the tool's own time not counted.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use rewind_model::{Key, RunId, Seq};
use serde::{Deserialize, Serialize};

/// Most gaps that are kept until they are asked for.
const KEPT: usize = 2_000_000;

#[derive(Debug, Default)]
pub(crate) struct Gaps(Mutex<Seen>);

/// What the tools saw since they were last asked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) calls: u64,
    pub(crate) gaps: Vec<Gap>,
    #[serde(skip)]
    answered: HashMap<RunId, Instant>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Gap {
    /// The call that came at its end.
    pub(crate) seq: Seq,
    pub(crate) ns: u64,
}

impl Gaps {
    pub(crate) fn call(&self, key: &Key) {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.calls += 1;
        if let Some(before) = seen.answered.remove(&key.run)
            && seen.gaps.len() < KEPT
        {
            let ns = u64::try_from((now - before).as_nanos()).unwrap_or(u64::MAX);
            seen.gaps.push(Gap { seq: key.seq, ns });
        }
    }

    pub(crate) fn answer(&self, key: &Key) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.answered.insert(key.run.clone(), Instant::now());
    }

    /// Everything since the last time; runs in between two calls go on being watched.
    pub(crate) fn take(&self) -> Seen {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Runs that have ended stay behind.
        if seen.answered.len() > KEPT {
            seen.answered.clear();
        }
        let answered = std::mem::take(&mut seen.answered);
        std::mem::replace(&mut *seen, Seen { answered, ..Seen::default() })
    }
}
