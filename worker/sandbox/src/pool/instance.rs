use std::{sync::Arc, time::Duration};

use rewind_model::RunId;

use super::process::{Handle, Occupied};
use crate::{Delivery, Load, SandboxError, ScriptLimits, ToSandbox, Turn};

/// Bytes of results from which on a frame is full: a frame can take the largest result besides.
const FRAME_BYTES: usize = 16 << 20;

/// A run whose engine lives in a sandbox process. Dropping it frees the engine.
#[derive(Debug)]
pub struct Instance {
    handle: Handle,
    run: RunId,
    limits: ScriptLimits,
    /// Set while an answer is awaited: when that is cancelled, what the script did is lost, and this
    /// instance is no longer of use.
    busy: bool,
    _occupied: Arc<Occupied>,
}

impl Instance {
    pub(super) async fn load(handle: Handle, load: Load) -> Result<(Self, Turn), SandboxError> {
        let mut instance =
            Self { run: load.run.clone(), limits: load.limits, busy: false, _occupied: handle.occupy(), handle };
        let turn = instance.ask(ToSandbox::Load(Box::new(load)), 1).await?;
        Ok((instance, turn))
    }

    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Hands results to the script, one after the other, and follows it to where it can only wait
    /// again. The answer is the same however the deliveries are spread over calls.
    ///
    /// # Errors
    /// See [`SandboxError`]; after one the instance is of no further use.
    pub async fn resolve(&mut self, deliveries: Vec<Delivery>) -> Result<Turn, SandboxError> {
        let mut answer: Option<Turn> = None;
        let mut rest = deliveries.into_iter().peekable();
        loop {
            let mut frame = Vec::new();
            let mut bytes = 0;
            while let Some(delivery) = rest.next_if(|_| bytes < FRAME_BYTES) {
                bytes += delivery.size();
                frame.push(delivery);
            }
            let count = frame.len();
            let turn = self.ask(ToSandbox::Resolve { run: self.run.clone(), deliveries: frame }, count).await?;
            let turn = match answer {
                None => turn,
                Some(before) => before.followed_by(turn),
            };
            if turn.end.is_some() || rest.peek().is_none() {
                return Ok(turn);
            }
            answer = Some(turn);
        }
    }

    async fn ask(&mut self, message: ToSandbox, deliveries: usize) -> Result<Turn, SandboxError> {
        if self.busy {
            return Err(SandboxError::Lost);
        }
        self.busy = true;
        let turn = self.handle.ask(&message, self.cpu_bound(deliveries)).await?;
        self.busy = false;
        Ok(turn)
    }

    /// What the sandbox itself allows for so many deliveries.
    fn cpu_bound(&self, deliveries: usize) -> Duration {
        let turns = u64::try_from(deliveries.max(1)).unwrap_or(u64::MAX);
        Duration::from_millis(self.limits.turn_cpu_ms.saturating_mul(turns).min(self.limits.run_cpu_ms))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.handle.tell(&ToSandbox::Drop { run: self.run.clone() });
    }
}
