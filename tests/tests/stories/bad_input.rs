//! Bad input gets a clear answer, and loses nothing.

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use rewind_model::{ProblemCode, RegisteredToolset, Run};
use rewind_tests::{Api, Cluster, Refusal};
use serde_json::{Value, json};

use crate::support::{Counter, host_toolset, result, run_to_end};

async fn refused(api: &Api, path: &str, body: &Value, code: ProblemCode) -> anyhow::Result<Refusal> {
    let answer = api.request::<Value>(Method::POST, path, Some(body)).await?;
    let refusal = answer.err().with_context(|| format!("{path} took {body}"))?;
    ensure!(refusal.problem.kind == format!("/problems/{}", code.slug()), "{refusal:?}");
    ensure!(refusal.status.as_u16() == code.status(), "{refusal:?}");
    Ok(refusal)
}

#[tokio::test]
async fn a_server_that_fails_is_named_and_nothing_is_stored() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let good = counter.url()?;
    let register = |url: &str| json!({"mcp_servers": {"fine": {"url": good}, "broken": {"url": url}}});
    let closed = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;

    let unreachable = register(&format!("http://{closed}/mcp"));
    let refusal = refused(&cluster.api, "/v1/toolsets", &unreachable, ProblemCode::ServerUnreachable).await?;
    ensure!(refusal.problem.detail.context("a detail")?.contains("broken"));

    let broken = Counter::start(&cluster, json!({"answer": "html"})).await?;
    let toolset = register(&broken.url()?);
    let refusal = refused(&cluster.api, "/v1/toolsets", &toolset, ProblemCode::ServerNotMcp).await?;
    ensure!(refusal.problem.detail.context("a detail")?.contains("broken"));

    let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
    let pages = json!([{"cursor": null, "tools": [tool], "nextCursor": "2"}, {"cursor": "2", "status": 500}]);
    broken.change(&json!({"answer": "mcp", "pages": pages})).await?;
    refused(&cluster.api, "/v1/toolsets", &toolset, ProblemCode::ServerFailed).await?;

    // The same server, well again: registered, and as something new.
    broken.change(&json!({"pages": [{"cursor": null, "tools": [tool]}]})).await?;
    let answer = cluster.api.send(Method::POST, "/v1/toolsets", Some(toolset.to_string())).await?;
    ensure!(answer.status() == StatusCode::CREATED, "{answer:?}");
    let registered: RegisteredToolset = serde_json::from_str(&answer.text().await?)?;
    ensure!(registered.tools.len() == 2, "{registered:?}");
    Ok(())
}

#[tokio::test]
async fn every_wrong_request_has_a_problem_of_its_own() -> anyhow::Result<()> {
    let cluster = Cluster::start().await?;
    let toolset = host_toolset(&cluster).await?;
    let start = |script: &str| json!({"toolset": toolset, "script": script});

    let unknown = json!({"toolset": format!("ts_{}", "0".repeat(64)), "script": "export default async () => 1"});
    refused(&cluster.api, "/v1/runs", &unknown, ProblemCode::UnknownToolset).await?;
    let mut odd = start("export default async () => 1");
    odd["inptu"] = json!(1);
    let refusal = refused(&cluster.api, "/v1/runs", &odd, ProblemCode::InvalidRequest).await?;
    ensure!(refusal.problem.detail.context("a detail")?.contains("inptu"));
    let rejected =
        refused(&cluster.api, "/v1/runs", &start("export default async () => nope"), ProblemCode::ScriptRejected)
            .await?;
    let [diagnostic] = &rejected.problem.diagnostics[..] else { anyhow::bail!("{rejected:?}") };
    ensure!((diagnostic.line, diagnostic.column, diagnostic.code.as_str()) == (1, 28, "TS2304"), "{diagnostic:?}");
    let large = start(&format!("export default async () => 1 // {}", "x".repeat(300 << 10)));
    refused(&cluster.api, "/v1/runs", &large, ProblemCode::ScriptTooLarge).await?;
    let huge = json!({"toolset": toolset, "script": "", "input": "x".repeat(30 << 20)});
    refused(&cluster.api, "/v1/runs", &huge, ProblemCode::BodyTooLarge).await?;

    let malformed = cluster.api.send(Method::POST, "/v1/runs", Some("{\"toolset\":".into())).await?;
    ensure!(malformed.status() == StatusCode::BAD_REQUEST && malformed.text().await?.contains("malformed-json"));
    // A key of the wrong form and one that nobody has are told the same.
    let mut told = Vec::new();
    for key in ["rw_wrong".to_owned(), format!("rw_{}", "0".repeat(64))] {
        let stranger = Api::new(&cluster.dev_file()?.api, &key)?;
        let answer = stranger.request::<Run>(Method::GET, "/v1/runs", None).await?.err().context("let in")?;
        ensure!(answer.status == StatusCode::UNAUTHORIZED, "{answer:?}");
        told.push(serde_json::to_string(&answer.problem)?);
    }
    ensure!(told[0] == told[1], "{told:?}");

    // And the system is none the worse for it.
    ensure!(result(&run_to_end(&cluster, &toolset, "export default async () => 1").await?)? == json!(1));
    Ok(())
}
