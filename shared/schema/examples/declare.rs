//! `declare < schema.json`: the declarations of one tool with this input schema, both renderings.

use rewind_model::{Rendering, Toolset};

fn main() {
    let schema: serde_json::Value = serde_json::from_reader(std::io::stdin()).expect("a JSON Schema on stdin");
    let policy = serde_json::to_value(rewind_model::Policy::default()).expect("writable");
    let toolset: Toolset = serde_json::from_value(serde_json::json!({"v": 1, "mcp_servers": {"server": {
        "url": "http://localhost/mcp", "tools": {"t": {"input_schema": schema, "policy": policy}}}}}))
    .expect("a toolset");
    for rendering in [Rendering::Full, Rendering::Compact] {
        let text = rewind_schema::render(&toolset, rendering);
        let own = text.lines().skip_while(|line| !line.contains("sleep(")).skip(1);
        eprintln!("{}", own.collect::<Vec<_>>().join("\n"));
    }
}
