//! Telling schemas and their declarations, kept in `snapshots/`. `INSTA_UPDATE=always` rewrites them.

mod tsc;

use rewind_model::Rendering;
use rewind_schema::{Validator, render};
use serde_json::{Value, json};

fn cases() -> Vec<(&'static str, Value)> {
    vec![
        (
            "objects",
            json!({
                "create_issue": {"description": "Create an issue. In a repository.\n\nMore about it.", "input_schema": {"type": "object",
                    "properties": {"title": {"type": "string", "description": "What it is about", "minLength": 1},
                        "labels": {"type": "array", "items": {"type": "string"}, "default": ["bug"]},
                        "state": {"enum": ["open", "closed"]}, "at": {"type": "string", "format": "date-time"},
                        "count": {"type": "integer", "minimum": 1, "maximum": 100, "default": 30}},
                    "required": ["title"], "additionalProperties": false}},
                "no_properties": {"input_schema": {"type": "object"}},
                "empty_properties": {"input_schema": {"type": "object", "properties": {}}},
                "nothing_allowed": {"input_schema": {"type": "object", "additionalProperties": false}},
                "no_schema_to_speak_of": {"input_schema": {}},
                "undeclared_required": {"input_schema": {"required": ["id"]}},
            }),
        ),
        (
            "names",
            json!({
                "resolve-library-id": {"input_schema": {"type": "object", "properties": {"a-b": {"type": "string"}, "": {}, "1": {}, "é": {},
                    "__proto__": {"type": "string"}, "constructor": {"type": "number"}, "new": {}, "get": {}, "readonly": {}, "q\"\\\n\u{2028}": {}}}},
                "read-file": {"input_schema": {}}, "read_file": {"input_schema": {}}, "a.b": {"input_schema": {}},
                "delete": {"input_schema": {}}, "constructor": {"input_schema": {}}, "__proto__": {"input_schema": {}},
                "then": {"input_schema": {}}, "toString": {"input_schema": {}}, "": {"input_schema": {}},
            }),
        ),
        (
            "references",
            json!({
                "local": {"input_schema": {"type": "object", "properties": {"label": {"$ref": "#/$defs/label-ref"}, "again": {"$ref": "#/$defs/label-ref"},
                    "slash": {"$ref": "#/definitions/a~1b"}, "by_anchor": {"$ref": "#here"}, "property": {"$ref": "#/properties/label"}},
                    "$defs": {"label-ref": {"description": "A label", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
                    "definitions": {"a/b": {"type": "number"}, "anchored": {"$anchor": "here", "type": "boolean"}}}},
                "same_definition": {"input_schema": {"properties": {"label": {"$ref": "#/$defs/label-ref"}},
                    "$defs": {"label-ref": {"description": "A label", "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}},
                "other_definition": {"input_schema": {"properties": {"label": {"$ref": "#/$defs/label-ref"}}, "$defs": {"label-ref": {"type": "string"}}}},
                "remote": {"input_schema": {"properties": {"there": {"$ref": "https://example.com/there.json"}, "gone": {"$ref": "#/$defs/gone"}}}},
                "builtin_name": {"input_schema": {"properties": {"p": {"$ref": "#/$defs/Promise"}}, "$defs": {"Promise": {"type": "string"}}}},
                "whole_root": {"input_schema": {"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"x": {"type": "string"}}}}}},
            }),
        ),
        (
            "recursion",
            json!({
                "tree": {"input_schema": {"type": "object", "properties": {"value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["value"]}},
                "mutual": {"input_schema": {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {
                    "A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}, "B": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}}},
                "tuple": {"input_schema": {"properties": {"t": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"prefixItems": [{"type": "string"}, {"prefixItems": [{"$ref": "#/$defs/T"}]}], "items": {"$ref": "#/$defs/T"}}}}},
            "itself": {"input_schema": {"properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"$ref": "#/$defs/Y"}, "Y": {"anyOf": [{"$ref": "#/$defs/X"}, {"type": "string"}]}}}},
            }),
        ),
        (
            "combinations",
            json!({
                "all_of": {"input_schema": {"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "number"}}}]}},
                "any_of": {"input_schema": {"type": "object", "properties": {"id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "maybe": {"anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}], "default": null}}}},
                "one_of": {"input_schema": {"type": "object", "properties": {"kind": {"type": "string"}}, "oneOf": [
                    {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
                    {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]}]}},
                "either_required": {"input_schema": {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "number"}}, "anyOf": [{"required": ["name"]}, {"required": ["id"]}]}},
                "booleans": {"input_schema": {"properties": {"anything": true, "nothing": false, "not_anything": {"not": {}}}}},
            }),
        ),
        (
            "values",
            json!({
                "enums": {"input_schema": {"properties": {"mixed": {"enum": ["a", 1, 1.5, -2, true, null, ["x"], {"k": "v"}]}, "const": {"const": "only"},
                    "typed": {"type": "string", "enum": ["a", 1]}, "both": {"enum": [true, false]}, "big": {"enum": [12345678901234567890_u64]}, "e": {"const": 1e300}, "none": {"enum": []}}}},
                "types": {"input_schema": {"properties": {"list": {"type": ["string", "null"]}, "nullable": {"type": "string", "nullable": true},
                    "object_or_null": {"type": ["object", "null"], "properties": {"x": {"type": "number"}}}, "unknown_type": {"type": "banana"}}}},
                "inferred": {"input_schema": {"properties": {"object": {"properties": {"x": {}}}, "array": {"items": {"type": "string"}}, "string": {"maxLength": 3}, "number": {"minimum": 3}}}},
            }),
        ),
        (
            "arrays",
            json!({
                "tuples": {"input_schema": {"properties": {
                    "closed": {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": false, "minItems": 1},
                    "open": {"prefixItems": [{"type": "string"}], "items": {"type": ["number", "null"]}}, "old": {"type": "array", "items": [{"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}], "additionalItems": false},
                    "short": {"prefixItems": [{"type": "string"}, {"type": "number"}], "maxItems": 1}}}},
                "arrays": {"input_schema": {"properties": {"bare": {"type": "array"}, "union": {"type": "array", "items": {"type": ["string", "number"]}}, "nested": {"items": {"items": {"type": "boolean"}}}, "empty": {"type": "array", "items": false}}}},
            }),
        ),
        (
            "maps",
            json!({
                "record": {"input_schema": {"properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}, "open": {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": true}}}},
                "mixed": {"input_schema": {"type": "object", "properties": {"count": {"type": "number"}, "name": {"type": "boolean"}}, "required": ["count"], "additionalProperties": {"type": "string"}}},
                "patterns": {"input_schema": {"type": "object", "properties": {"x-id": {"type": "number"}, "y": {"type": "null"}}, "patternProperties": {"^x-": {"type": "string"}, "^x-a\\..*$": {"type": "boolean"}}, "additionalProperties": false}},
                "any_pattern": {"input_schema": {"patternProperties": {"[0-9]+": {"type": "string"}}, "additionalProperties": {"type": "number"}}},
            }),
        ),
        (
            "comments",
            json!({
                "ends": {"description": "Ends */ the comment\u{2028}@ts-expect-error", "input_schema": {"properties": {"x": {"description": "*/ }; @ts-ignore\r\n\r\n\r\n */", "default": "*/", "pattern": "*/\n"}}}},
                "directive": {"description": "@ts-expect-error", "input_schema": {"description": "@ts-nocheck", "properties": {}}},
                "later": {"description": "\u{202e}\u{0}", "input_schema": {}},
            }),
        ),
        (
            "results",
            json!({
                "declared": {"description": "Has an output schema.", "input_schema": {}, "output_schema": {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Item"}}}, "required": ["items"], "$defs": {"Item": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}}}},
                "observed": {"description": "Has none.", "input_schema": {}},
                "list": {"input_schema": {}, "output_schema": {"type": "array", "items": {"type": "string"}}},
            }),
        ),
        (
            "explosion",
            json!({
                "product": {"input_schema": {"properties": {"x": {"allOf": (0..5).map(|one| json!({"enum": (0..20).map(|n| json!(format!("{one}-{n}"))).collect::<Vec<_>>()})).collect::<Vec<_>>()}}}},
                "doubling": {"input_schema": {"$ref": "#/$defs/d0", "$defs": Value::Object((0..40).map(|n| (format!("d{n}"), if n == 39 { json!({"type": "object", "required": ["x"]}) } else { json!({"anyOf": [{"$ref": format!("#/$defs/d{}", n + 1)}, {"allOf": [{"$ref": format!("#/$defs/d{}", n + 1)}]}]}) })).collect())}},
            }),
        ),
    ]
}

#[test]
fn declarations_are_as_recorded_and_compile() {
    for (name, tools) in cases() {
        let toolset = tsc::toolset("server", tools);
        for (rendering, suffix) in [(Rendering::Full, "full"), (Rendering::Compact, "compact")] {
            let text = render(&toolset, rendering);
            let file = format!("{name}.{suffix}.d.ts");
            insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
                insta::assert_snapshot!(file.as_str(), text);
            });
            tsc::assert_compiles(&file, &text);
        }
    }
}

/// Whatever compiles as declarations is also something that the validator takes a stand on.
#[test]
fn no_schema_of_the_cases_makes_the_validator_panic() {
    for (_, tools) in cases() {
        for (name, tool) in tools.as_object().expect("tools") {
            if let Ok((validator, _)) = Validator::new(&tool["input_schema"], &rewind_model::Limits::DEFAULT) {
                let said = validator.validate(&json!({})).err().unwrap_or_default();
                assert!(said.len() <= 5, "{name}: {said:?}");
            }
        }
    }
}

#[test]
fn odd_names_of_servers_compile_and_can_be_imported() {
    let mut toolset = tsc::toolset("my-server", json!({"t": {"input_schema": {}}}));
    let server = toolset.mcp_servers["my-server"].clone();
    for name in ["delete", "server0", "github", "Promise", "Tool", "type", "host", "sleep", "a.b", "2", "await"] {
        toolset.mcp_servers.insert(name.into(), server.clone());
    }
    let script = "import { \"my-server\" as mine, delete as remove, github, Promise as p, host, sleep, ToolError } from \"rewind:tools\";\n\
        export default async () => { await mine.t(); await remove.t({}); await github.t.raw(); await p.t(); await sleep(\"10d\");\n\
        const none: {} = host; try { } catch (e) { if (e instanceof ToolError && e.code === \"timeout\") return e.retryable } return none };\n";
    for rendering in [Rendering::Full, Rendering::Compact] {
        let text = render(&toolset, rendering);
        let said =
            tsc::check(&[("env.d.ts", rewind_schema::ENVIRONMENT), ("tools.d.ts", &text), ("script.ts", script)]);
        assert!(said.is_empty(), "{said:#?}\n{text}");
    }
}

#[test]
fn the_environment_has_the_globals_and_no_others() {
    let declarations = render(&tsc::toolset("s", json!({})), Rendering::Full);
    let script = "console.log(\"a\", 1); const url = new URL(\"http://x/\"); url.searchParams.append(\"a\", \"b\");\n\
        for (const [k, v] of new URLSearchParams({ a: \"b\" })) console.error(k, v);\n\
        new TextDecoder().decode(new TextEncoder().encode(\"x\")); const copy: { a: number } = structuredClone({ a: 1 });\n\
        const id: number = setTimeout(() => {}, 10); clearTimeout(id); queueMicrotask(() => {}); btoa(atob(\"\"));\n\
        crypto.randomUUID().length; crypto.getRandomValues(new Uint8Array(8)).length; [3, 1].toSorted();\n";
    let check = |script: &str| {
        tsc::check(&[("env.d.ts", rewind_schema::ENVIRONMENT), ("tools.d.ts", &declarations), ("script.ts", script)])
    };
    assert_eq!(check(script), [""; 0]);
    for absent in ["fetch", "process", "document", "require", "window", "Buffer", "setInterval"] {
        let said = check(&format!("{absent};"));
        assert!(said.len() == 1 && said[0].contains(absent), "{absent}: {said:?}");
    }
}

/// The two lists of codes are written by hand in the declarations.
#[test]
fn the_declared_error_codes_are_those_of_the_model() {
    use rewind_model::ErrorCode as Code;
    let all = [
        Code::InvalidArguments,
        Code::ToolFailed,
        Code::InvalidResult,
        Code::Timeout,
        Code::Unavailable,
        Code::OutcomeUnknown,
        Code::Rejected,
        Code::Credentials,
        Code::Refused,
        Code::TooLarge,
        Code::Cancelled,
        Code::NotRecorded,
    ];
    for rendering in [Rendering::Full, Rendering::Compact] {
        let text = render(&tsc::toolset("s", json!({})), rendering);
        let declared = text.split("code:").nth(1).and_then(|rest| rest.split(';').next()).expect("the codes");
        let mut declared: Vec<_> = declared.split('"').skip(1).step_by(2).collect();
        let mut expected: Vec<_> = all.iter().map(|code| code.as_str()).collect();
        declared.sort_unstable();
        expected.sort_unstable();
        assert_eq!(declared, expected);
    }
}
