use std::collections::BTreeSet;

use rewind_model::{Key, Page, ParkedCall, Run, RunId, Timestamp};

use crate::{client::Client, error::Error};

/// Tells who waits for a run which of its calls wait for a decision, each once.
#[derive(Debug)]
pub(super) struct Decisions<'a> {
    client: &'a Client,
    run: &'a RunId,
    /// A call may be parked again, for another reason.
    told: BTreeSet<(Key, Timestamp)>,
}

impl<'a> Decisions<'a> {
    pub(super) fn new(client: &'a Client, run: &'a RunId) -> Self {
        Self { client, run, told: BTreeSet::new() }
    }

    /// A line for each call that began to wait; of very many the first ones, and the others as those are decided.
    ///
    /// # Errors
    /// When the server refuses.
    pub(super) async fn new_ones(&mut self, run: &Run) -> Result<Vec<String>, Error> {
        if run.parked == 0 {
            return Ok(Vec::new());
        }
        let page: Page<ParkedCall> = match self.client.get("v1/parked", &[("run", self.run.as_str())]).await {
            Ok(answer) => answer.to()?,
            // The next look finds them.
            Err(error) if error.is_passing() => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let new = page.items.into_iter().filter(|call| self.told.insert((call.key.clone(), call.since)));
        let line = |ParkedCall { key, tool, reason, .. }: ParkedCall| {
            format!("waiting for a decision: rewind parked approve {key} ({tool}, {reason})")
        };
        Ok(new.map(line).collect())
    }
}
