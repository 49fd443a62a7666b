use std::time::Duration;

use rewind_bus::BusError;

pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(20);
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Tries until NATS answers, waiting longer each time, up to a second.
///
/// # Errors
/// Only those that another try would meet again.
pub(crate) async fn forever<T, F: Future<Output = Result<T, BusError>>>(
    what: &'static str,
    action: impl Fn() -> F,
) -> Result<T, BusError> {
    let mut wait = FIRST_WAIT;
    loop {
        match action().await {
            Err(error) if error.retryable() => {
                tracing::warn!(what, %error, "trying again");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            done => return done,
        }
    }
}
