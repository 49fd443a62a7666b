//! Registering toolsets, their declarations, and checking scripts against them.

mod support;

use std::{
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use reqwest::Method;
use rewind_model::{Digest, Toolset};
use serde_json::json;
use support::{Coordinator, Nats, SCRIPT, host_toolset, send};

#[tokio::test]
async fn the_same_toolset_has_the_same_id_which_is_the_digest_of_its_canonical_bytes() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let toolset = host_toolset();
    let mut at_once = futures::future::join_all((0..6).map(|_| coordinator.post("/v1/toolsets", &toolset))).await;
    at_once.sort_by_key(|(status, _)| *status);
    let statuses: Vec<_> = at_once.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 201]);
    let first = at_once.pop().expect("six").1;
    assert_eq!((&first["tools"]["host"], &first["warnings"]), (&json!(1), &json!([])));
    let (status, second) = coordinator.post("/v1/toolsets", &host_toolset()).await;
    assert_eq!((status, &second["id"]), (200, &first["id"]));

    let path = format!("/v1/toolsets/{}", first["id"].as_str().expect("an id"));
    let canonical = coordinator.request(Method::GET, &format!("{path}?canonical")).send().await.expect("an answer");
    assert_eq!(canonical.headers()["content-type"], "application/json");
    let bytes = canonical.bytes().await.expect("bytes");
    assert_eq!(first["id"], format!("ts_{}", Digest::of(&bytes)));

    let (status, entry) = coordinator.get(&path).await;
    assert_eq!((status, &entry["id"], &entry["warnings"]), (200, &first["id"], &json!([])));
    let document: Toolset = serde_json::from_value(entry["toolset"].clone()).expect("a toolset");
    assert_eq!(document, Toolset::from_bytes(&bytes).expect("a toolset"));
}

#[tokio::test]
async fn declarations_are_text_in_two_renderings() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let id = coordinator.toolset().await;
    let mut texts = Vec::new();
    for rendering in ["full", "compact"] {
        let path = format!("/v1/toolsets/{id}/declarations?rendering={rendering}");
        let answer = coordinator.request(Method::GET, &path).send().await.expect("an answer");
        assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
        texts.push(answer.text().await.expect("text"));
    }
    assert!(texts.iter().all(|text| text.contains("lookup_order")));
    assert!(texts[1].len() < texts[0].len());
    assert_eq!(coordinator.get(&format!("/v1/toolsets/{id}/declarations?rendering=tiny")).await.0, 422);
}

#[tokio::test]
async fn a_slip_that_the_schema_allows_is_a_warning_with_a_hint() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let order = json!({"type": "object", "properties": {"id": {"type": "string"}, "per_page": {"type": "integer"}}, "required": ["id"]});
    let result = json!({"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]});
    let toolset =
        json!({"host_tools": {"lookup": {"description": "", "input_schema": order, "output_schema": result}}});
    let (_, registered) = coordinator.post("/v1/toolsets", &toolset).await;
    let path = format!("/v1/toolsets/{}/check", registered["id"].as_str().expect("an id"));
    let script = "import { host } from \"rewind:tools\";\nexport default async () => (await host.lookup({ id: \"1\", perPage: 5 })).totl;\n";
    let (_, checked) = coordinator.post(&path, &json!({"script": script})).await;
    assert_eq!((&checked["ok"], &checked["diagnostics"]), (&json!(true), &json!([])), "{checked}");
    let warnings = checked["warnings"].as_array().expect("a list");
    let found = |part: &str| warnings.iter().any(|warning| warning.to_string().contains(part));
    assert!(found("per_page") && found("total"), "{checked}");
}

#[tokio::test]
async fn tools_are_found_and_disclosed_with_their_types() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let money = json!({"$defs": {"Money": {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}},
        "type": "object", "properties": {"amount": {"$ref": "#/$defs/Money"}}, "required": ["amount"]});
    let tool =
        |description: &str, schema: &serde_json::Value| json!({"description": description, "input_schema": schema});
    let toolset = json!({"host_tools": {
        "issue_refund": tool("Gives money back. Slowly.", &money), "lookup-order": tool("Looks up an order.", &json!({"type": "object"})),
        "list_orders": tool("Lists orders.", &json!({}))}});
    let (_, registered) = coordinator.post("/v1/toolsets", &toolset).await;
    let path = format!("/v1/toolsets/{}/tools", registered["id"].as_str().expect("an id"));
    let (status, found) = coordinator.get(&format!("{path}?query=refunding+money")).await;
    assert_eq!((status, found["tools"].as_array().map(Vec::len)), (200, Some(1)), "{found}");
    assert_eq!(found["tools"][0]["tool"], "host.issue_refund");
    assert_eq!(
        found["tools"][0]["signature"],
        "type Money={cents:number,[k:string]:any}\nhost.issue_refund:Tool<{amount:Money}> // Gives money back"
    );
    let (_, found) = coordinator.get(&format!("{path}?query=order&limit=1")).await;
    assert_eq!(found["tools"].as_array().map(Vec::len), Some(1));
    let (_, all) = coordinator.get(&path).await;
    let signature =
        all["tools"].as_array().and_then(|tools| tools.iter().find(|tool| tool["tool"] == "host.lookup-order"));
    assert!(signature.expect("listed")["signature"].as_str().expect("text").starts_with("host[\"lookup-order\"]:"));
    assert_eq!(all["tools"].as_array().map(Vec::len), Some(3));
    assert_eq!(coordinator.get(&format!("{path}?limit=0")).await.0, 422);
    assert_eq!(coordinator.get(&format!("{path}?query=weather")).await.1, json!({"tools": []}));
}

#[tokio::test]
async fn what_cannot_be_used_is_left_out_and_what_cannot_be_named_is_refused() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let mut toolset = host_toolset();
    toolset["host_tools"]["broken"] = json!({"description": "", "input_schema": {"type": "objekt"}});
    let (status, body) = coordinator.post("/v1/toolsets", &toolset).await;
    assert_eq!((status, &body["tools"]["host"], &body["warnings"][0]["tool"]), (201, &json!(1), &json!("host.broken")));

    let (status, problem) =
        coordinator.post("/v1/toolsets", &json!({"mcp_servers": {"await": {"url": "http://127.0.0.1:1/"}}})).await;
    assert_eq!((status, &problem["type"]), (422, &json!("/problems/invalid-toolset")));
    let closed = format!("http://127.0.0.1:{}/mcp", support::free_port());
    let (status, problem) =
        coordinator.post("/v1/toolsets", &json!({"mcp_servers": {"github": {"url": closed}}})).await;
    assert_eq!((status, &problem["type"]), (502, &json!("/problems/server-unreachable")));
    assert!(problem["detail"].as_str().expect("a detail").contains("github"), "{problem}");
}

#[tokio::test]
async fn an_mcp_server_s_tools_are_pinned() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let url = support::mcp_server().await;
    let (status, body) = coordinator.post("/v1/toolsets", &json!({"mcp_servers": {"orders": {"url": url}}})).await;
    assert_eq!((status, &body["tools"]["orders"]), (201, &json!(1)), "{body}");
    let left_out: Vec<_> =
        body["warnings"].as_array().expect("a list").iter().map(|warning| warning["tool"].as_str()).collect();
    assert_eq!(left_out, [Some("orders.bad"), Some("orders.twice")]);
    // Something answers there, and it is no MCP server.
    let (status, problem) = coordinator
        .post("/v1/toolsets", &json!({"mcp_servers": {"api": {"url": format!("{}/healthz", coordinator.api)}}}))
        .await;
    assert_eq!((status, &problem["type"]), (502, &json!("/problems/server-not-mcp")), "{problem}");
}

#[tokio::test]
async fn a_wrong_script_is_answered_with_places_and_hints() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let id = coordinator.toolset().await;
    let check = async |script: &str| {
        let (status, body) = coordinator.post(&format!("/v1/toolsets/{id}/check"), &json!({"script": script})).await;
        assert_eq!(status, 200, "{body}");
        body
    };
    assert_eq!(check(SCRIPT).await, json!({"ok": true, "diagnostics": [], "warnings": []}));

    let wrong = SCRIPT.replace("lookup_order({ id: input.id })", "lookupOrder({ id: 5 })");
    let body = check(&wrong).await;
    let found = &body["diagnostics"][0];
    assert_eq!((&found["file"], &found["line"], &found["column"]), (&json!("script.ts"), &json!(3), &json!(28)));
    assert!(format!("{} {}", found["message"], found["hint"]).contains("lookup_order"), "{found}");

    let cases = [
        (SCRIPT.replace("await ", ""), "TS2339", "await"),
        (SCRIPT.replace("export default ", ""), "RW1001", "export default"),
        (SCRIPT.replace("input.id }", "5 }"), "TS2322", ""),
        (SCRIPT.replace("{ id: input.id }", ""), "TS2554", ""),
        (format!("import fs from 'node:fs';\n{SCRIPT}"), "TS2591", "rewind:tools"),
        (format!("import x from '/etc/passwd';\n{SCRIPT}"), "TS2307", "rewind:tools"),
        (format!("/// <reference lib=\"dom\" />\n{SCRIPT}"), "RW1005", ""),
        (format!("const deep = {}{};\n{SCRIPT}", "[".repeat(10_000), "]".repeat(10_000)), "RW1002", ""),
        ("export default 5".to_owned(), "RW1001", "main(input)"),
        ("export default async function main( {".to_owned(), "TS1005", ""),
    ];
    for (script, code, hint) in cases {
        let body = check(&script).await;
        let codes: Vec<_> =
            body["diagnostics"].as_array().expect("a list").iter().map(|found| found["code"].as_str()).collect();
        assert!(codes.contains(&Some(code)), "{code}: {body}");
        assert!(hint.is_empty() || body["diagnostics"].to_string().contains(hint), "{code}: {body}");
        assert_eq!(body["ok"], false);
    }
    let body = check(&format!("// @ts-nocheck\n{}", SCRIPT.replace("lookup_order", "nothing"))).await;
    assert_eq!((&body["ok"], &body["warnings"][0]["code"]), (&json!(true), &json!("RW1003")));
}

#[tokio::test]
async fn the_compiler_runs_once_for_a_script_however_often_and_wherever_it_is_checked() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (counting, runs) = (folder.path().join("tsc"), folder.path().join("runs"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = -p ] && echo run >> {}\nexec {} \"$@\"\n",
        runs.display(),
        support::tsc().display()
    );
    std::fs::write(&counting, text).expect("written");
    std::fs::set_permissions(&counting, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let (one, two) = (Coordinator::spawn_with(&nats.url(), &counting), Coordinator::spawn_with(&nats.url(), &counting));
    tokio::join!(one.ready(), two.ready());
    let path = format!("/v1/toolsets/{}/check", one.toolset().await);
    let counted = || std::fs::read_to_string(&runs).unwrap_or_default().lines().count();
    // What is wrong is measured a second time, by what a script is held to at last.
    for (script, after) in [(SCRIPT.to_owned(), 1), (SCRIPT.replace("lookup_order", "nothing"), 3)] {
        let body = json!({"script": script});
        let answers = futures::future::join_all((0..8).map(|_| one.post(&path, &body))).await;
        assert!(answers.iter().all(|(status, answer)| *status == 200 && answer == &answers[0].1));
        assert_eq!((one.post(&path, &body).await.1, counted()), (answers[0].1.clone(), after));
    }
    // What passed is in the catalog, where another coordinator finds it.
    assert_eq!((two.post(&path, &json!({"script": SCRIPT})).await.1["ok"].clone(), counted()), (json!(true), 3));
}

#[tokio::test]
async fn a_script_that_is_too_much_for_the_compiler_does_not_hold_it_up() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let id = coordinator.toolset().await;
    let check =
        async |script: String| coordinator.post(&format!("/v1/toolsets/{id}/check"), &json!({"script": script})).await;
    // Each type is a text twice as long as the one before; and a chain that takes square time.
    let memory = "type D<S extends string> = `${S}${S}`;\n\
        type E<S extends string> = D<D<D<D<D<D<D<D<S>>>>>>>>;\n\
        export const s: E<E<E<E<'ab'>>>> = 'x';\nexport default async function main() {}\n";
    let time = format!("export default async function main(x: any) {{ return x{} }}", "?.a".repeat(80_000));
    let started = Instant::now();
    for ((status, body), what) in [(check(memory.to_owned()).await, "memory"), (check(time).await, "10s")] {
        assert_eq!((status, &body["diagnostics"][0]["code"]), (200, &json!("RW1004")), "{body}");
        assert!(body["diagnostics"][0]["message"].as_str().expect("text").contains(what), "{body}");
    }
    assert!(started.elapsed() < Duration::from_secs(30));
    let (_, body) = check(SCRIPT.to_owned()).await;
    assert_eq!(body["ok"], true);
}

#[tokio::test]
async fn a_wrong_request_is_told_what_is_wrong() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let id = coordinator.toolset().await;
    let post = |path: &str, body: String| {
        send(coordinator.request(Method::POST, path).header("content-type", "application/json").body(body))
    };
    let over = json!({"toolset": id, "script": "", "input": "x".repeat(1 << 20)}).to_string();
    let large = json!({"toolset": id, "script": "x".repeat(300 << 10)}).to_string();
    let cases = [
        (post("/v1/runs", "{\"toolset\":\n  nope}".into()).await, 400, "malformed-json", "line 2 column 4"),
        (
            post("/v1/runs", json!({"toolset": id, "script": "", "sript": 1}).to_string()).await,
            422,
            "invalid-request",
            "`sript`",
        ),
        (post("/v1/runs", json!({"toolset": id}).to_string()).await, 422, "invalid-request", "`script`"),
        (post("/v1/toolsets", "x".repeat((1 << 20) + 1)).await, 413, "body-too-large", "1048576"),
        (post("/v1/runs", over).await, 413, "body-too-large", "1048576"),
        (post("/v1/runs", large).await, 413, "script-too-large", "262144"),
        (
            post("/v1/runs", json!({"toolset": format!("ts_{}", "0".repeat(64)), "script": SCRIPT}).to_string()).await,
            404,
            "unknown-toolset",
            "",
        ),
        (
            send(coordinator.request(Method::POST, "/v1/runs").body("{}")).await,
            415,
            "unsupported-media-type",
            "application/json",
        ),
        (coordinator.get("/v1/toolsets/nothing").await, 404, "unknown-toolset", ""),
        (
            post("/v1/toolsets", r#"{"host_tools": {"ask": {"input_schema": {}}}}"#.into()).await,
            422,
            "invalid-request",
            "host_tools.ask: missing field `description`",
        ),
        (coordinator.get("/v1/runs/nothing").await, 404, "unknown-run", ""),
        (coordinator.get("/v1/runs/%ff%fe").await, 404, "not-found", "UTF-8"),
        (post("/v1/runs/x/calls/%ff/approve", "{}".into()).await, 404, "not-found", "UTF-8"),
        (coordinator.get(&format!("/v1/runs/run_{}?wait=1s", "0".repeat(32))).await, 404, "unknown-run", ""),
        (coordinator.get(&format!("/v1/runs/run_{}/journal", "0".repeat(32))).await, 404, "unknown-run", ""),
        (coordinator.get("/v1/runs?staus=failed").await, 422, "invalid-request", "`staus`"),
        (coordinator.get("/v1/runs?status=done").await, 422, "invalid-request", "status"),
        (coordinator.get("/v1/runs?limit=0").await, 422, "invalid-request", "200"),
        (coordinator.get("/v1/runs?cursor=x").await, 422, "invalid-request", "cursor"),
        (coordinator.get("/v2/nothing").await, 404, "not-found", "/v2/nothing"),
        (send(coordinator.request(Method::DELETE, "/v1/runs")).await, 405, "method-not-allowed", "DELETE"),
        (send(coordinator.anonymous(Method::GET, "/problems/nothing")).await, 404, "not-found", "store-unavailable"),
    ];
    for ((status, problem), expected, slug, detail) in cases {
        assert_eq!((status, &problem["type"]), (expected, &json!(format!("/problems/{slug}"))), "{problem}");
        assert!(problem["detail"].as_str().expect("a detail").contains(detail), "{problem}");
        let page =
            coordinator.anonymous(Method::GET, problem["type"].as_str().expect("a path")).send().await.expect("a page");
        assert_eq!(page.status(), 200);
    }
}

#[tokio::test]
async fn without_a_valid_key_nothing_is_told() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let get = |path: &str| coordinator.anonymous(Method::GET, path);
    let mut details = std::collections::BTreeSet::new();
    for request in [
        get("/v1/runs"),
        get("/v1/runs").bearer_auth("rw_ffffffffffffffffffffffffffffffff"),
        get("/v1/runs").bearer_auth("short"),
        get("/v1/runs").header("authorization", "Basic cnc6eA=="),
        get("/v1/toolsets/ts_0"),
    ] {
        let (status, problem) = send(request).await;
        assert_eq!((status, &problem["type"]), (401, &json!("/problems/unauthorized")));
        details.insert(problem["detail"].to_string());
    }
    assert_eq!(details.len(), 1);
    for open in ["/healthz", "/readyz", "/openapi.json", "/problems/", "/problems/busy"] {
        assert_eq!(get(open).send().await.expect("an answer").status(), 200, "{open}");
    }
}

#[tokio::test]
async fn every_route_is_in_the_document_with_its_problems() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let (_, document) = coordinator.get("/openapi.json").await;
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            operations.push(format!("{} {path}", method.to_uppercase()));
            let responses = operation["responses"].as_object().expect("responses");
            let problem = &responses["default"]["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(problem, "#/components/schemas/Problem", "{method} {path}");
            assert_eq!(responses.contains_key("401"), path.starts_with("/v1/"), "{method} {path}");
            // What the document names is there: the answer is about the request, not the route.
            let method = method.to_uppercase().parse().expect("a method");
            let answer = coordinator.request(method, &path.replace(['{', '}'], "_")).send().await.expect("an answer");
            let (status, text) = (answer.status().as_u16(), answer.text().await.expect("text"));
            assert!(status != 405 && !text.contains("there is nothing at"), "{path}: {status} {text}");
        }
    }
    operations.sort();
    assert_eq!(
        operations,
        [
            "GET /healthz",
            "GET /problems/",
            "GET /problems/{slug}",
            "GET /readyz",
            "GET /v1/parked",
            "GET /v1/runs",
            "GET /v1/runs/{id}",
            "GET /v1/runs/{id}/cassette",
            "GET /v1/runs/{id}/journal",
            "GET /v1/toolsets/{id}",
            "GET /v1/toolsets/{id}/declarations",
            "GET /v1/toolsets/{id}/drift",
            "GET /v1/toolsets/{id}/tools",
            "GET /v1/webhooks/dead",
            "POST /v1/runs",
            "POST /v1/runs/{id}/calls/{seq}/approve",
            "POST /v1/runs/{id}/calls/{seq}/reject",
            "POST /v1/runs/{id}/cancel",
            "POST /v1/runs/{id}/fork",
            "POST /v1/toolsets",
            "POST /v1/toolsets/{id}/check",
            "POST /v1/webhooks/dead/{id}/resend",
        ]
    );
}
