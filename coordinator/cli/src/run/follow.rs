use std::time::{Duration, Instant};

use rewind_model::{Run, RunId};

use super::path_of;
use crate::{
    client::{Answer, Client},
    error::Error,
};

/// The longest that one request asks the server to wait.
const LONGEST_POLL: Duration = Duration::from_secs(30);
/// How long a server may be away while a run is followed: runs outlive a restart of the coordinator.
const PATIENCE: Duration = Duration::from_secs(60);
/// The least time from one request to the next, whatever the server does.
const PACE: Duration = Duration::from_millis(100);

/// Follows one run by long-polling.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    client: &'a Client,
    path: String,
    asked: Option<Instant>,
}

impl<'a> Follow<'a> {
    pub(super) fn new(client: &'a Client, id: &RunId) -> Self {
        Self { client, path: path_of(id), asked: None }
    }

    /// The run as soon as it has ended, or as it is after `wait` (at most 30 s). A server that is away
    /// for less than a minute is waited for.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub(super) async fn poll(&mut self, wait: Duration) -> Result<(Run, Answer), Error> {
        let started = Instant::now();
        loop {
            if let Some(asked) = self.asked {
                tokio::time::sleep(PACE.saturating_sub(asked.elapsed())).await;
            }
            self.asked = Some(Instant::now());
            match self.client.poll(&self.path, wait.min(LONGEST_POLL)).await {
                Ok(answer) => return Ok((answer.to()?, answer)),
                Err(error) if error.is_passing() && started.elapsed() < PATIENCE => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The run at its end, or as it is after `wait`.
    ///
    /// # Errors
    /// When the server stays away or refuses.
    pub(super) async fn until_ended(&mut self, wait: Duration) -> Result<(Run, Answer), Error> {
        let started = Instant::now();
        loop {
            let left = wait.saturating_sub(started.elapsed());
            let (run, answer) = self.poll(left).await?;
            if run.status.ended() || started.elapsed() >= wait {
                return Ok((run, answer));
            }
        }
    }
}
