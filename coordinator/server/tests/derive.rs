//! Toolsets that are derived from others, their workflows, and choosing among a server's tools.

mod support;

use rewind_model::{Digest, Toolset};
use serde_json::{Value, json};
use support::{Coordinator, Nats, host_toolset};

const REFUND: &str = r#"import { host } from "rewind:tools";
export default async function main(input: { id: string }) {
  return (await host.lookup_order({ id: input.id })).total;
}
"#;

fn refund() -> Value {
    let input = json!({"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]});
    json!({"script": REFUND, "description": "Refunds an order.", "input_schema": input, "output_schema": {"type": "number"}})
}

fn calling(workflow: &str) -> Value {
    let script = format!(
        "import {{ workflows }} from \"rewind:tools\";\nexport default async function main() {{ return await workflows.{workflow}({{ id: \"1\" }}); }}\n"
    );
    json!({"script": script})
}

async fn canonical(coordinator: &Coordinator, id: &Value) -> Toolset {
    let path = format!("/v1/toolsets/{}?canonical", id.as_str().expect("an id"));
    let answer = coordinator.request(reqwest::Method::GET, &path).send().await.expect("an answer");
    let bytes = answer.bytes().await.expect("bytes");
    assert_eq!(*id, format!("ts_{}", Digest::of(&bytes)));
    Toolset::from_bytes(&bytes).expect("a toolset")
}

#[tokio::test]
async fn a_derived_toolset_pins_the_same_tools_and_contacts_nobody() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let (url, server) = support::stoppable_mcp_server().await;
    let mut request = host_toolset();
    request["mcp_servers"] = json!({"orders": {"url": url, "headers": {"X-Team": "a"}}});
    let (status, base) = coordinator.post("/v1/toolsets", &request).await;
    assert_eq!(status, 201, "{base}");
    // Whoever asks the server from here on is not answered.
    server.abort();

    let derive = |workflows: Value| json!({"base": base["id"], "workflows": workflows});
    let (status, derived) = coordinator.post("/v1/toolsets", &derive(json!({"refund": refund()}))).await;
    assert_eq!((status, &derived["tools"]["workflows"]), (201, &json!(1)), "{derived}");
    assert_eq!(derived["warnings"], base["warnings"]);
    let (old, new) = (canonical(&coordinator, &base["id"]).await, canonical(&coordinator, &derived["id"]).await);
    let bytes = |value: Value| value.to_string();
    assert_eq!(bytes(json!(old.mcp_servers)), bytes(json!(new.mcp_servers)));
    assert_eq!(bytes(json!(old.host_tools)), bytes(json!(new.host_tools)));
    assert_eq!(new.workflows["refund"].script, Digest::of(REFUND.as_bytes()));
    let (_, entry) = coordinator.get(&format!("/v1/toolsets/{}", derived["id"].as_str().expect("an id"))).await;
    assert_eq!(entry["base"], base["id"]);

    assert_eq!(coordinator.post("/v1/toolsets", &derive(json!({"refund": refund()}))).await.0, 200);
    // Without workflows it is the base itself, also when it is derived from a derived one.
    let plain = json!({"base": derived["id"]});
    assert_eq!(coordinator.post("/v1/toolsets", &plain).await.1["id"], base["id"]);
    let both = json!({"base": base["id"], "host_tools": host_toolset()["host_tools"]});
    assert_eq!(coordinator.post("/v1/toolsets", &both).await.1["type"], "/problems/invalid-toolset");
    let unknown = json!({"base": format!("ts_{}", "0".repeat(64))});
    assert_eq!(coordinator.post("/v1/toolsets", &unknown).await.1["type"], "/problems/unknown-toolset");
}

#[tokio::test]
async fn workflows_are_checked_against_what_they_will_have() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let with = |workflows: Value| {
        let mut request = host_toolset();
        request["workflows"] = workflows;
        request
    };
    let good = with(json!({"refund": refund(), "all": calling("refund"), "of-all": calling("all")}));
    let (status, registered) = coordinator.post("/v1/toolsets", &good).await;
    assert_eq!((status, &registered["tools"]["workflows"]), (201, &json!(3)), "{registered}");
    let id = registered["id"].as_str().expect("an id");
    for rendering in ["full", "compact"] {
        let path = format!("/v1/toolsets/{id}/declarations?rendering={rendering}");
        let text = coordinator.request(reqwest::Method::GET, &path).send().await.expect("an answer");
        let text = text.text().await.expect("text");
        let text = text.replace(' ', "");
        assert!(text.contains("exportconstworkflows:{") && text.contains("Promise<number>"), "{text}");
    }
    let script =
        "import { workflows } from \"rewind:tools\";\nexport default async () => await workflows.refund({ id: 5 });\n";
    let (_, checked) = coordinator.post(&format!("/v1/toolsets/{id}/check"), &json!({"script": script})).await;
    assert_eq!(checked["diagnostics"][0]["code"], "TS2322", "{checked}");

    let broken = with(json!({"refund": {"script": REFUND.replace("lookup_order", "look_up")}}));
    let (status, problem) = coordinator.post("/v1/toolsets", &broken).await;
    assert_eq!((status, &problem["type"]), (422, &json!("/problems/script-rejected")));
    let found = &problem["diagnostics"][0];
    assert_eq!((&found["file"], &found["line"]), (&json!("workflows/refund.ts"), &json!(3)), "{problem}");

    for circle in [
        json!({"self": calling("self")}),
        json!({"a": calling("b"), "b": calling("c"), "c": calling("a"), "refund": refund()}),
    ] {
        let (status, problem) = coordinator.post("/v1/toolsets", &with(circle)).await;
        assert_eq!((status, &problem["type"]), (422, &json!("/problems/invalid-toolset")), "{problem}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains("circle") && !detail.contains("refund"), "{detail}");
    }

    // A workflow with a toolset of its own is checked against that one, and may call what it calls.
    let mut own = calling("refund");
    own["toolset"] = json!(id);
    let (status, body) = coordinator.post("/v1/toolsets", &with(json!({"refund": own}))).await;
    assert_eq!(status, 201, "{body}");
    for wrong in [json!({"refund": {"script": REFUND, "input_schema": {"type": "objekt"}}}), json!({"": refund()})] {
        assert_eq!(coordinator.post("/v1/toolsets", &with(wrong)).await.1["type"], "/problems/invalid-toolset");
    }
}

#[tokio::test]
async fn only_the_tools_that_are_wanted_are_pinned() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let url = support::mcp_server().await;
    let with = |more: Value| {
        let mut server = json!({"url": url});
        server.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"mcp_servers": {"orders": server}})
    };
    let (_, chosen) = coordinator.post("/v1/toolsets", &with(json!({"include": ["loo*"]}))).await;
    assert_eq!((&chosen["tools"]["orders"], &chosen["warnings"]), (&json!(1), &json!([])), "{chosen}");
    let (_, all) = coordinator.post("/v1/toolsets", &with(json!({"exclude": ["twice", "bad"]}))).await;
    assert_eq!(all["id"], chosen["id"], "what is not wanted is not part of the toolset");
    let (_, none) = coordinator.post("/v1/toolsets", &with(json!({"include": ["loook"]}))).await;
    assert_eq!((&none["tools"]["orders"], &none["warnings"][0]["tool"]), (&json!(0), &json!("orders.loook")), "{none}");
    for wrong in [json!({"command": "node"}), json!({"args": ["x"]}), json!({"includes": []})] {
        assert_eq!(coordinator.post("/v1/toolsets", &with(wrong)).await.0, 422);
    }
}

#[tokio::test]
async fn nothing_of_a_registration_is_lost_without_a_word() {
    let nats = Nats::start();
    let coordinator = Coordinator::start(&nats).await;
    let send = async |body: &str| {
        let request =
            coordinator.request(reqwest::Method::POST, "/v1/toolsets").header("content-type", "application/json");
        support::send(request.body(body.to_owned())).await
    };
    let tool = r#""host_tools": {"pay": {"description": "", "input_schema": {}}, "bad": {"description": "", "input_schema": 1}}"#;
    let policies = |policies: &str| format!("{{{tool}, \"policies\": {{{policies}}}}}");
    let (status, body) =
        send(&policies(r#""host.pay": {"approval": "always"}, "host.bad": {"approval": "always"}"#)).await;
    assert_eq!((status, &body["tools"]["host"]), (201, &json!(1)), "a tool that is left out costs no other: {body}");
    for (wrong, said) in [
        (policies(r#""host.pay": {"approval": "always"}, "host.pay": {"timeout": "2s"}"#), "twice"),
        (policies(r#""host.pay": {"approval": true}"#), "approval"),
        (policies(r#""host.nobody": {}"#), "names no tool"),
        ("[]".to_owned(), "array"),
    ] {
        let (status, problem) = send(&wrong).await;
        assert_eq!(status, 422, "{wrong}: {problem}");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(said) || said == "approval", "{wrong}: {detail}");
    }
    let error = json!({"mcp_servers": {"Error": {"url": "http://127.0.0.1:1/"}}});
    assert_eq!(coordinator.post("/v1/toolsets", &error).await.1["type"], "/problems/invalid-toolset");
}
