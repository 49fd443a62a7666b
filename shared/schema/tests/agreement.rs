//! The compiler and the validator agree on arguments, wherever TypeScript can express the reason.

mod tsc;

use rewind_model::{Limits, Rendering};
use rewind_schema::{Validator, render, render_strict};
use serde_json::{Value, json};

/// Schema, arguments that both accept, arguments that both refuse.
fn cases() -> Vec<(Value, Vec<Value>, Vec<Value>)> {
    vec![
        (
            json!({"type": "object", "properties": {"title": {"type": "string"}, "n": {"type": "integer"}, "state": {"enum": ["open", "closed"]},
                "labels": {"type": "array", "items": {"type": "string"}}}, "required": ["title"], "additionalProperties": false}),
            vec![
                json!({"title": "x"}),
                json!({"title": "", "n": 1, "state": "open", "labels": []}),
                json!({"title": "x", "labels": ["a"]}),
            ],
            vec![
                json!({}),
                json!({"title": 1}),
                json!({"title": null}),
                json!({"title": "x", "state": "opne"}),
                json!({"title": "x", "n": null}),
                json!({"title": "x", "labels": "a"}),
                json!({"title": "x", "labels": [1]}),
                json!({"title": "x", "titel": 1}),
                json!([]),
                json!("x"),
            ],
        ),
        (
            json!({"type": "object", "properties": {"who": {"type": ["string", "null"]}, "old": {"type": "number", "nullable": true}, "id": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}),
            vec![json!({}), json!({"who": null}), json!({"old": null, "id": 1}), json!({"id": "1"})],
            vec![json!({"who": 1}), json!({"id": true}), json!({"id": null}), json!({"old": "1"})],
        ),
        (
            json!({"type": "object", "properties": {"shape": {"oneOf": [
                {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
                {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]}]}}, "required": ["shape"]}),
            vec![json!({"shape": {"kind": "circle", "r": 1}}), json!({"shape": {"kind": "square", "side": 1.5}})],
            vec![
                json!({"shape": {"kind": "circle"}}),
                json!({"shape": {"kind": "square", "side": "1"}}),
                json!({"shape": {"kind": "line"}}),
                json!({"shape": null}),
            ],
        ),
        (
            json!({"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "number"}}, "anyOf": [{"required": ["name"]}, {"required": ["id"]}]}),
            vec![json!({"name": "x"}), json!({"id": 1}), json!({"id": 1, "name": "x"})],
            vec![json!({}), json!({"name": 1}), json!({"id": 1, "name": 2})],
        ),
        (
            json!({"type": "object", "properties": {"node": {"$ref": "#/$defs/Node"}}, "required": ["node"],
                "$defs": {"Node": {"type": "object", "properties": {"value": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}, "required": ["value"]}}}),
            vec![
                json!({"node": {"value": "a"}}),
                json!({"node": {"value": "a", "next": {"value": "b", "next": null}}}),
            ],
            vec![
                json!({"node": {}}),
                json!({"node": {"value": "a", "next": {"value": 1}}}),
                json!({"node": {"value": "a", "next": {"next": null}}}),
            ],
        ),
        (
            json!({"type": "object", "properties": {"pair": {"prefixItems": [{"type": "string"}, {"type": "number"}], "items": false, "minItems": 1, "type": "array"},
                "open": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "boolean"}}, "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}}}),
            vec![
                json!({"pair": ["a"]}),
                json!({"pair": ["a", 1]}),
                json!({"open": []}),
                json!({"open": ["a", true, false]}),
                json!({"matrix": [[], [1, 2]]}),
            ],
            vec![
                json!({"pair": []}),
                json!({"pair": ["a", 1, 2]}),
                json!({"pair": [1]}),
                json!({"open": ["a", 1]}),
                json!({"matrix": [1]}),
            ],
        ),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false, "minItems": 2}}}),
            vec![json!({"pair": ["a", 1]})],
            vec![json!({"pair": ["a"]}), json!({"pair": ["a", "b"]}), json!({"pair": ["a", 1, 2]})],
        ),
        (
            json!({"type": "object", "properties": {"env": {"type": "object", "additionalProperties": {"type": "string"}}, "count": {"type": "number"}}, "required": ["count"],
                "additionalProperties": {"type": "number"}}),
            vec![json!({"count": 1}), json!({"count": 1, "more": 2, "env": {"a": "b"}})],
            vec![json!({"count": "1"}), json!({"count": 1, "more": "2"}), json!({"count": 1, "env": {"a": 1}})],
        ),
        (
            json!({"type": "object", "properties": {"x-id": {"type": "string"}}, "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false}),
            vec![json!({}), json!({"x-id": "1", "x-other": "2"})],
            vec![json!({"x-other": 1}), json!({"y": "1"})],
        ),
        (
            json!({"type": "object", "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"properties": {"b": {"type": "number"}}, "required": ["b"]}]}),
            vec![json!({"a": "x", "b": 1})],
            vec![json!({"a": "x"}), json!({"b": 1}), json!({"a": 1, "b": 1})],
        ),
        (
            json!({"type": "object", "properties": {"no": false, "yes": true, "never": {"not": {}}, "one": {"const": 1}, "object": {"const": {"a": [1, null]}}, "empty": {"enum": [{}, []]}}}),
            vec![
                json!({"yes": {"a": [1]}}),
                json!({"yes": null, "one": 1, "object": {"a": [1, null]}}),
                json!({"empty": {}}),
                json!({"empty": []}),
            ],
            vec![
                json!({"no": 1}),
                json!({"never": null}),
                json!({"one": 2}),
                json!({"object": {"a": [1]}}),
                json!({"empty": {"a": 1}}),
            ],
        ),
        (
            json!({"type": "object", "properties": {}}),
            vec![json!({}), json!({"anything": 1})],
            vec![json!(1), json!("x"), json!([1])],
        ),
        (json!({"type": "object", "additionalProperties": false}), vec![json!({})], vec![json!({"a": 1}), json!("x")]),
    ]
}

#[test]
fn compiler_and_validator_agree() {
    let cases = cases();
    let tools =
        cases.iter().enumerate().map(|(n, (schema, ..))| (format!("t{n}"), json!({"input_schema": schema}))).collect();
    let toolset = tsc::toolset("server", Value::Object(tools));
    // A call a line, so that the line of a diagnostic names the call.
    let mut script = String::from("import { server } from \"rewind:tools\";\n");
    let mut calls = Vec::new();
    for (n, (schema, valid, invalid)) in cases.iter().enumerate() {
        let (validator, warnings) = Validator::new(schema, &Limits::DEFAULT).expect("a valid schema");
        assert_eq!(warnings, [""; 0]);
        for (arguments, accepted) in valid.iter().map(|v| (v, true)).chain(invalid.iter().map(|v| (v, false))) {
            assert_eq!(
                validator.validate(arguments).is_ok(),
                accepted,
                "the validator, of {arguments} against {schema}"
            );
            script.push_str(&format!("server.t{n}({arguments});\n"));
            calls.push((schema, arguments, accepted));
        }
    }
    for rendering in [Rendering::Full, Rendering::Compact] {
        let declarations = render(&toolset, rendering);
        let said = tsc::check(&[("tools.d.ts", &declarations), ("script.ts", &script)]);
        for (at, (schema, arguments, accepted)) in calls.iter().enumerate() {
            let place = format!("script.ts({},", at + 2);
            let found: Vec<_> = said.iter().filter(|line| line.starts_with(&place)).collect();
            assert_eq!(found.is_empty(), *accepted, "the compiler, of {arguments} against {schema}: {found:?}");
        }
        assert!(said.iter().all(|line| line.starts_with("script.ts(")), "{said:#?}");
    }
}

#[test]
fn the_argument_is_optional_when_nothing_is_required() {
    let toolset = tsc::toolset(
        "server",
        json!({
            "all_optional": {"input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "through_a_reference": {"input_schema": {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}},
            "some_alternative": {"input_schema": {"type": "object", "anyOf": [{"required": ["a"]}, {"properties": {"b": {}}}]}},
            "required": {"input_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        }),
    );
    let script = "import { server as s } from \"rewind:tools\";\n\
        s.all_optional(); s.through_a_reference(); s.some_alternative.raw(); s.all_optional({ a: undefined });\n\
        s.required();\n";
    let said = tsc::check(&[("tools.d.ts", &render(&toolset, Rendering::Full)), ("script.ts", script)]);
    assert!(said.len() == 1 && said[0].starts_with("script.ts(3,"), "{said:?}");
}

/// Whoever checks a script against both can tell a slip of the pen from an error.
#[test]
fn members_that_no_schema_names_are_found_by_the_strict_rendering() {
    let toolset = tsc::toolset(
        "server",
        json!({
            "open": {"input_schema": {"type": "object", "properties": {"per_page": {"type": "number"}, "filter": {"type": "object", "properties": {"state": {}}}}}},
            "said_to_be_open": {"input_schema": {"type": "object", "properties": {"a": {}}, "additionalProperties": true}},
            "map": {"input_schema": {"type": "object"}},
        }),
    );
    let script = "import { server as s } from \"rewind:tools\";\n\
        s.said_to_be_open({ b: 1 }); s.map({ b: 1 }); s.open({ per_page: 1, filter: { state: 1 } });\n\
        s.open({ perPage: 1 });\ns.open({ filter: { sate: 1 } });\n";
    let check = |declarations: &str| tsc::check(&[("tools.d.ts", declarations), ("script.ts", script)]);
    assert_eq!(check(&render(&toolset, Rendering::Full)), [""; 0]);
    let said = check(&render_strict(&toolset, &rewind_schema::Observations::default()));
    assert!(said.len() == 2 && said[0].starts_with("script.ts(3,") && said[1].starts_with("script.ts(4,"), "{said:?}");
    assert!(said.iter().all(|line| line.contains("does not exist in type")), "{said:?}");
}

/// A variable is no literal: its type may be an interface, and have more members than the tool names.
#[test]
fn arguments_come_from_variables_of_any_type() {
    let toolset = tsc::toolset(
        "server",
        json!({"t": {"input_schema": {"type": "object", "properties": {"a": {"type": "string"}, "list": {"type": "array", "minItems": 1, "items": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}}}, "required": ["a"]}},
            "optional": {"input_schema": {"type": "object", "properties": {"a": {"type": "string"}, "list": {"type": "array"}}}}, "closed": {"input_schema": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}}}),
    );
    let script = "import { server as s } from \"rewind:tools\";\n\
        interface Item { n: number; m?: string } interface Args { a: string; list: Item[] }\n\
        export default async (args: Args, items: Item[]) => { const a = { a: \"x\" };\n\
        s.t(args); s.t({ a: \"x\", list: items }); s.t(a); s.t({ ...a, list: items.map((item) => item) }); s.closed(a); s.closed(args);\n\
        s.optional(); s.optional(args); s.optional(a); s.optional({ b: 1 });\n\
        class C { a = \"x\" } s.t(new C()); }\n";
    for rendering in [Rendering::Full, Rendering::Compact] {
        let said = tsc::check(&[("tools.d.ts", &render(&toolset, rendering)), ("script.ts", script)]);
        assert_eq!(said, [""; 0]);
    }
}
