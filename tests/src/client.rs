//! The HTTP API, as a harness would use it.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Method, StatusCode};
use rewind_model::{Journal, Page, Problem, RegisteredToolset, Run, RunId, ToolsetId};
use serde::de::DeserializeOwned;
use serde_json::Value;

#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Api({})", self.url)
    }
}

/// A refused request.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub retry_after: Option<String>,
    pub problem: Problem,
}

impl Api {
    pub fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(90)).build()?;
        Ok(Self { http, url: url.trim_end_matches('/').to_owned(), key: key.to_owned() })
    }

    /// Sends a request as it is.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn send(&self, method: Method, path: &str, body: Option<String>) -> anyhow::Result<reqwest::Response> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        Ok(request.send().await?)
    }

    /// # Errors
    /// When the server cannot be reached; the inner one when it refuses.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Result<T, Refusal>> {
        let response = self.send(method, path, body.map(Value::to_string)).await?;
        let status = response.status();
        let retry_after =
            response.headers().get("retry-after").and_then(|value| value.to_str().ok()).map(ToOwned::to_owned);
        let text = response.text().await?;
        if status.is_success() {
            return Ok(Ok(serde_json::from_str(&text).with_context(|| format!("reading {text}"))?));
        }
        let problem = serde_json::from_str(&text).with_context(|| format!("{status}: reading {text}"))?;
        Ok(Err(Refusal { status, retry_after, problem }))
    }

    async fn accepted<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<T> {
        match self.request(method, path, body).await? {
            Ok(value) => Ok(value),
            Err(refusal) => bail!("{path}: {refusal:?}"),
        }
    }

    /// # Errors
    /// When it is refused.
    pub async fn register(&self, toolset: &Value) -> anyhow::Result<RegisteredToolset> {
        self.accepted(Method::POST, "/v1/toolsets", Some(toolset)).await
    }

    /// A rendering, `full` or `compact`.
    ///
    /// # Errors
    /// When it is refused.
    pub async fn declarations(&self, toolset: &ToolsetId, rendering: &str) -> anyhow::Result<String> {
        let path = format!("/v1/toolsets/{toolset}/declarations?rendering={rendering}");
        Ok(self.send(Method::GET, &path, None).await?.error_for_status()?.text().await?)
    }

    /// # Errors
    /// When it is refused.
    pub async fn start(&self, toolset: &ToolsetId, script: &str, input: Value) -> anyhow::Result<Run> {
        let body = serde_json::json!({"toolset": toolset, "script": script, "input": input});
        self.start_with(&body).await
    }

    /// # Errors
    /// When it is refused.
    pub async fn start_with(&self, body: &Value) -> anyhow::Result<Run> {
        self.accepted(Method::POST, "/v1/runs", Some(body)).await
    }

    /// # Errors
    /// When it is refused.
    pub async fn run(&self, run: &RunId) -> anyhow::Result<Run> {
        self.accepted(Method::GET, &format!("/v1/runs/{run}"), None).await
    }

    /// Waits for the run's end, through restarts of whatever is in between.
    ///
    /// # Errors
    /// When it has not ended within three minutes.
    pub async fn ended(&self, run: &RunId) -> anyhow::Result<Run> {
        let patience = Duration::from_secs(180);
        crate::eventually_within(patience, &format!("the end of {run}"), || async {
            let found = self.accepted::<Run>(Method::GET, &format!("/v1/runs/{run}?wait=20s"), None).await.ok()?;
            found.status.ended().then_some(found)
        })
        .await
    }

    /// # Errors
    /// When it is refused.
    pub async fn journal(&self, run: &RunId) -> anyhow::Result<Journal> {
        let mut journal: Journal = self.accepted(Method::GET, &format!("/v1/runs/{run}/journal"), None).await?;
        while let Some(cursor) = journal.next_cursor.take() {
            let path = format!("/v1/runs/{run}/journal?cursor={cursor}");
            let page: Journal = self.accepted(Method::GET, &path, None).await?;
            journal.items.extend(page.items);
            journal.next_cursor = page.next_cursor;
        }
        Ok(journal)
    }

    /// # Errors
    /// When it is refused.
    pub async fn list(&self, query: &str) -> anyhow::Result<Page<Run>> {
        self.accepted(Method::GET, &format!("/v1/runs{query}"), None).await
    }
}
