use std::time::Duration;

use serde::Deserialize;

use super::DevError;

const POLL: Duration = Duration::from_millis(50);
const ANSWER: Duration = Duration::from_secs(5);

/// What `GET /readyz` says; more members may be there.
#[derive(Debug, Deserialize)]
struct Readyz {
    status: String,
    nodes: u32,
}

/// Returns once the coordinator is ready and knows `nodes` nodes.
///
/// # Errors
/// When no HTTP client can be made.
pub(super) async fn wait_until_ready(api: &str, nodes: u16) -> Result<(), DevError> {
    let http = http()?;
    while !matches!(ask(&http, api).await, Ok(found) if found.status == "ready" && found.nodes >= u32::from(nodes)) {
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// What is in the way of being ready, for people.
pub(super) async fn missing(api: &str) -> String {
    let asked = match http() {
        Ok(http) => ask(&http, api).await,
        Err(error) => Err(error.to_string()),
    };
    match asked {
        Ok(found) => format!("the coordinator says {:?} and knows {} nodes", found.status, found.nodes),
        Err(reason) => format!("the coordinator at {api} does not answer ({reason})"),
    }
}

fn http() -> Result<reqwest::Client, DevError> {
    reqwest::Client::builder().no_proxy().timeout(ANSWER).build().map_err(DevError::Http)
}

async fn ask(http: &reqwest::Client, api: &str) -> Result<Readyz, String> {
    let answer = http.get(format!("{api}/readyz")).send().await.map_err(|_| "no connection".to_owned())?;
    let status = answer.status();
    // 503 has the same body, and says what is missing.
    let found: Readyz = answer.json().await.map_err(|_| format!("status {status} without its state"))?;
    if status == reqwest::StatusCode::OK || found.status != "ready" {
        Ok(found)
    } else {
        Err(format!("status {status}"))
    }
}
