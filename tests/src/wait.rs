use std::time::{Duration, Instant};

use anyhow::bail;

/// How long a fact may take to become true on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// Looks again and again until `fact` is there.
///
/// # Errors
/// When it is not there within a minute, naming `what`.
pub async fn eventually<T, F, Fut>(what: &str, fact: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    eventually_within(PATIENCE, what, fact).await
}

/// As [`eventually`], with another patience.
///
/// # Errors
/// When it is not there within `patience`, naming `what`.
pub async fn eventually_within<T, F, Fut>(patience: Duration, what: &str, mut fact: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = fact().await {
            return Ok(found);
        }
        if Instant::now() > deadline {
            bail!("not within {patience:?}: {what}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
