//! NATS, which may be away: at the start of this process, and at any time later.

use std::{sync::OnceLock, time::Duration};

use rewind_bus::{Bus, BusError};
use rewind_model::ProblemCode;

use crate::refusal::Refusal;

/// No request waits longer than this for one answer of NATS.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(crate) struct Store(OnceLock<Bus>);

impl Store {
    /// Called once, when the first connection stands.
    pub(crate) fn set(&self, bus: Bus) {
        let _ = self.0.set(bus);
    }

    /// # Errors
    /// At once when the connection is down: what is published then would be sent later, after its
    /// sender has been told that it failed.
    fn bus(&self) -> Result<&Bus, Refusal> {
        let away = || Refusal::new(ProblemCode::StoreUnavailable, "there is no connection to NATS at this moment");
        self.0.get().filter(|bus| bus.connected()).ok_or_else(away)
    }

    /// Asks NATS for something, for a bounded time.
    ///
    /// # Errors
    /// `store-unavailable` when NATS is away or does not answer; what the request itself fails with.
    pub(crate) async fn ask<'a, T, F, Fut>(&'a self, request: F) -> Result<T, Refusal>
    where
        F: FnOnce(&'a Bus) -> Fut,
        Fut: Future<Output = Result<T, BusError>>,
    {
        Ok(self.attempt(request).await??)
    }

    /// As [`Store::ask`], for a caller that looks at the error.
    ///
    /// # Errors
    /// `store-unavailable` when NATS is away or does not answer.
    pub(crate) async fn attempt<'a, T, F, Fut>(&'a self, request: F) -> Result<Result<T, BusError>, Refusal>
    where
        F: FnOnce(&'a Bus) -> Fut,
        Fut: Future<Output = Result<T, BusError>>,
    {
        let bus = self.bus()?;
        tokio::time::timeout(PATIENCE, request(bus)).await.map_err(|_| {
            Refusal::new(ProblemCode::StoreUnavailable, format!("NATS did not answer within {PATIENCE:?}"))
        })
    }

    /// Does NATS answer now?
    pub(crate) async fn answers(&self) -> bool {
        match self.bus() {
            Ok(bus) => bus.ping().await.is_ok(),
            Err(_) => false,
        }
    }

    /// For work that goes on after its request has been answered; `None` before the first connection.
    pub(crate) fn handle(&self) -> Option<Bus> {
        self.0.get().cloned()
    }
}
