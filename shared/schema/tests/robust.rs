//! No schema, whatever a server sends, ends in a panic, a stack overflow or declarations that do not compile.

mod exercise;
mod measure;
mod sample;
mod tsc;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};
use rewind_model::{Limits, Rendering};
use rewind_schema::{SchemaError, Validator, check_schema, normalize, render};
use serde_json::{Map, Value, json};

use exercise::{KEYWORDS, TEXTS, nested, on_a_small_stack, use_schema};

/// JSON that looks like a schema, in the way in which a careless generator's does.
fn schema_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        3 => proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => (0..5_i64).prop_map(Value::from),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => Just(Value::Null),
        1 => any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 96, 6, |inner| {
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            3 => proptest::collection::vec((proptest::sample::select(&KEYWORDS[..]), inner), 0..7)
                .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

/// Mostly valid: where a keyword wants a schema there is one.
fn valid_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"enum": ["a", 1, null, true]})),
        Just(json!({"const": {"a": 1}})),
        Just(json!({"$ref": "#/$defs/a"})),
        Just(json!({"$ref": "#/$defs/b"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"type": "object", "additionalProperties": false})),
    ];
    let inner = leaf.prop_recursive(5, 48, 4, |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..4);
        let members = || proptest::collection::vec((proptest::sample::select(&["a", "b", "x-y", "x-yz", "c d"][..]), inner.clone()), 1..4)
            .prop_map(|members| members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>());
        let part = prop_oneof![
            list().prop_map(|list| json!({"anyOf": list})),
            list().prop_map(|list| json!({"oneOf": list, "type": "object"})),
            list().prop_map(|list| json!({"allOf": list})),
            list().prop_map(|list| json!({"prefixItems": list, "minItems": 1})),
            inner.clone().prop_map(|one| json!({"type": "array", "items": one})),
            (members(), inner.clone()).prop_map(|(members, rest)| json!({"properties": members, "additionalProperties": rest, "required": ["a", "c d"]})),
            members().prop_map(|members| json!({"properties": members, "patternProperties": {"^x-": {"type": "string"}, "^x-y": {"type": "number"}}})),
            inner.clone().prop_map(|one| json!({"not": one})),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (members(), members()).prop_map(|(a, b)| json!({"oneOf": [{"properties": a, "required": ["a"], "additionalProperties": false}, {"properties": b, "required": ["b"], "additionalProperties": false}]})),
            (members(), inner.clone()).prop_map(|(members, one)| json!({"properties": members, "allOf": [one], "unevaluatedProperties": false})),
            members().prop_map(|members| json!({"dependentSchemas": members, "type": "object"})),
            members().prop_map(|members| json!({"dependencies": members})),
            Just(json!({"dependencies": {"a": ["b"], "x-y": ["c d", "e"]}, "minProperties": 1})),
            list().prop_map(|list| json!({"items": {"anyOf": list}, "contains": {"type": "string"}, "unevaluatedItems": false})),
            list().prop_map(|list| json!({"anyOf": list, "unevaluatedProperties": {"type": "string"}})),
            list().prop_map(|list| json!({"oneOf": list, "unevaluatedItems": false})),
            members().prop_map(|members| json!({"patternProperties": {"a": {"type": ["string", "object"]}, "^x-.*z$": {"type": "null"}}, "properties": members, "minItems": 1, "maxItems": 2, "required": ["b"]})),
            inner.clone().prop_map(|one| json!({"propertyNames": {"enum": ["a", "b", "e"]}, "additionalProperties": one})),
            members().prop_map(|members| json!({"type": ["object", "null"], "properties": members, "additionalProperties": false})),
        ];
        proptest::collection::vec(part, 1..3).prop_map(|parts| {
            Value::Object(parts.into_iter().flat_map(|part| part.as_object().cloned().unwrap_or_default()).collect())
        })
    });
    (inner.clone(), inner.clone(), inner).prop_map(|(root, a, b)| {
        let mut root = root.as_object().cloned().unwrap_or_default();
        root.insert("$defs".into(), json!({"a": a, "b": b}));
        Value::Object(root)
    })
}

/// What the schemas above may be about.
fn instance() -> impl Strategy<Value = Value> {
    let leaf = proptest::sample::select(&["1", "\"a\"", "\"zz\"", "null", "true", "1.5", "{}", "[]", "{\"a\":1}"][..])
        .prop_map(|text| serde_json::from_str(text).expect("JSON"));
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = proptest::sample::select(&["a", "b", "x-y", "x-yz", "c d", "e"][..]);
        prop_oneof![
            1 => proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            3 => proptest::collection::vec((name, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
        ]
    })
}

/// Both as an argument and as a result, in both renderings.
#[test]
fn the_compiler_accepts_what_the_validator_accepts() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let mut cases = Vec::new();
    for _ in 0..150 {
        let schema = valid_schema().new_tree(&mut runner).expect("a schema").current();
        let Ok((validator, _)) = Validator::new(&schema, &Limits::DEFAULT) else { continue };
        let mut values: Vec<_> =
            (0..60).map(|_| instance().new_tree(&mut runner).expect("a value").current()).collect();
        values.sort_by_key(Value::to_string);
        values.dedup();
        let (valid, invalid): (Vec<_>, Vec<_>) =
            values.into_iter().partition(|value| validator.validate(value).is_ok());
        let invalid = invalid.into_iter().map(|value| (String::new(), value)).collect();
        cases.push(measure::Case { name: String::new(), schema, valid, invalid });
    }
    for rendering in [Rendering::Full, Rendering::Compact] {
        let figures = measure::measure(&cases, rendering);
        assert!(figures.valid.0 > 500, "{figures:?}");
        let missed: Vec<_> = figures.misses.iter().filter(|miss| !miss.starts_with("ACCEPTED")).take(3).collect();
        assert!(missed.is_empty(), "{missed:#?}");
        // Some of what is refused is refused for a reason that types do not know.
        eprintln!("{}", measure::row("random schemas", &figures));
        assert!(figures.invalid.1 * 100 >= figures.invalid.0 * 85, "{figures:?}");
        if let Some(folder) = std::env::var_os("REWIND_MISSES") {
            std::fs::write(std::path::Path::new(&folder).join("random.txt"), figures.misses.join("\n"))
                .expect("written");
        }
    }
}

#[test]
fn arbitrary_json_is_survived() {
    on_a_small_stack(|| {
        let mut runner = TestRunner::new(Config { failure_persistence: None, cases: 400, ..Config::default() });
        runner
            .run(&prop_oneof![schema_like(), valid_schema()], |schema| {
                use_schema(&schema);
                Ok(())
            })
            .expect("no failure");
    });
}

#[test]
fn declarations_of_arbitrary_schemas_compile() {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let mut sample = |count: usize| -> Map<String, Value> {
        (0..count)
            .map(|n| {
                let strategy = prop_oneof![schema_like(), valid_schema()];
                let schema = strategy.new_tree(&mut runner).expect("a sample").current();
                (format!("t{n}"), json!({"description": "d */", "input_schema": schema, "output_schema": schema}))
            })
            .collect()
    };
    let toolset = tsc::toolset("s", Value::Object(sample(300)));
    for rendering in [Rendering::Full, Rendering::Compact] {
        let said = tsc::check(&[("tools.d.ts", &render(&toolset, rendering))]);
        if let Some(first) = said.first() {
            let text = render(&toolset, rendering);
            let line: usize = first.split(['(', ',']).nth(1).and_then(|n| n.parse().ok()).expect("a line");
            let around: Vec<_> = text.lines().skip(line.saturating_sub(4)).take(20).collect();
            panic!("{said:#?}\n{}", around.join("\n"));
        }
    }
}

#[test]
fn hostile_schemas_are_refused_with_the_reason() {
    on_a_small_stack(|| {
        let chain = |length: usize, link: &dyn Fn(String) -> Value| {
            let defs = (0..length)
                .map(|n| (format!("d{n}"), link(format!("#/$defs/d{}", n + 1))))
                .chain([(format!("d{length}"), json!({"type": "string"}))]);
            json!({"$ref": "#/$defs/d0", "$defs": Map::from_iter(defs)})
        };
        // As deep as serde_json reads, less what a toolset is around a schema.
        let deep = (0..115).fold(json!({}), |inner, _| json!({"items": inner}));
        use_schema_bounded(&deep);
        assert!(matches!(check_schema(&deep), Err(SchemaError::TooDeep { .. })));
        assert!(matches!(
            check_schema(&(0..400).fold(json!({}), |inner, _| json!({"items": inner}))),
            Err(SchemaError::TooDeep { .. })
        ));
        let large = json!({"enum": (0..60_000).map(|n| json!(format!("{n:06}"))).collect::<Vec<_>>()});
        assert!(matches!(check_schema(&large), Err(SchemaError::TooLarge { .. })));
        use_schema_bounded(&large);
        let long = chain(5_000, &|next| json!({"$ref": next}));
        assert!(matches!(check_schema(&long), Err(SchemaError::TooDeep { .. })));
        use_schema_bounded(&long);
        let doubling = chain(28, &|next| json!({"anyOf": [{"$ref": next}, {"$ref": next, "description": "x"}]}));
        assert!(matches!(check_schema(&doubling), Err(SchemaError::TooComplex { .. })));
        use_schema_bounded(&doubling);
        let braided = |name: &str| {
            let link = |n: usize| json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"$ref": format!("#/$defs/{name}{}", n + 1)}, "b": {"$ref": format!("#/$defs/{name}{}", n + 1)}}});
            (0..60)
                .map(|n| (format!("{name}{n}"), if n == 59 { json!({"type": "object"}) } else { link(n) }))
                .collect::<Vec<_>>()
        };
        let braids = json!({"oneOf": [{"$ref": "#/$defs/x0"}, {"$ref": "#/$defs/y0"}, {"allOf": [{"$ref": "#/$defs/x0"}, {"$ref": "#/$defs/y0"}]}],
            "$defs": Map::from_iter(braided("x").into_iter().chain(braided("y")))});
        use_schema_bounded(&braids);
        let wide =
            |from: usize| Map::from_iter((from..from + 4_000).map(|n| (format!("m{n}"), json!({"type": "string"}))));
        use_schema_bounded(
            &json!({"oneOf": (0..6).map(|n| json!({"properties": wide(n), "required": ["m3"]})).collect::<Vec<_>>()}),
        );
        let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [true, {"type": "object", "anyOf": [{"$ref": "#/$defs/a"}]}]}}});
        let Err(SchemaError::Circular { path }) = check_schema(&circle) else { panic!("refused") };
        assert_eq!(path, "$defs.a");
        use_schema_bounded(&circle);
        for none in [json!(1), json!("x"), json!([]), json!(null)] {
            assert!(matches!(check_schema(&none), Err(SchemaError::NotASchema { .. })));
        }
        let wrong = json!({"type": "object", "properties": {"a": {"type": "strin"}}});
        let Err(SchemaError::Invalid { path, reason }) = check_schema(&wrong) else { panic!("refused") };
        assert!(path == "properties.a.type" && reason.contains("strin"), "{path}: {reason}");
        assert!(matches!(check_schema(&json!({"$ref": "#/$defs/gone"})), Err(SchemaError::Invalid { .. })));
    });
}

/// A schema that registration refuses is rendered all the same, in bounded space.
fn use_schema_bounded(schema: &Value) {
    let toolset = tsc::toolset("s", json!({"t": {"input_schema": normalize(schema.clone())}}));
    for rendering in [Rendering::Full, Rendering::Compact] {
        assert!(render(&toolset, rendering).len() < 2 << 20);
    }
}

/// The stack that a value takes: as deep as the validator lets it be, in a schema as long as it lets it be.
#[test]
fn the_deepest_values_fit_the_stack() {
    on_a_small_stack(|| {
        for links in [0, 1, 4, 16, 31] {
            let next = |n: usize| {
                if n == links { "#".to_owned() } else { format!("#/$defs/d{n}") }
            };
            let defs = (0..links).map(|n| (format!("d{n}"), if n + 1 == links { json!({"type": ["array", "object", "string"], "items": {"$ref": "#"}, "properties": {"a": {"$ref": "#"}}}) } else { json!({"allOf": [{"$ref": next(n + 1)}]}) }));
            let schema = if links == 0 {
                json!({"type": ["array", "object", "string"], "items": {"$ref": "#"}, "properties": {"a": {"$ref": "#"}}})
            } else {
                json!({"$ref": "#/$defs/d0", "$defs": Map::from_iter(defs)})
            };
            let (validator, _) =
                Validator::new(&schema, &Limits::DEFAULT).unwrap_or_else(|error| panic!("{links} links: {error}"));
            for levels in [1, 2, 3, 4, 5, 8, 16, 32, 64, 126, 127] {
                assert_eq!(validator.validate(&nested(levels)), Ok(()), "{links} links, {levels} levels");
            }
            let wrong = (0..126).fold(json!(1), |inner, _| json!([inner]));
            assert!(validator.validate(&wrong).expect_err("refused")[0].to_string().contains("the integer 1"));
            assert!(
                validator.validate(&nested(128)).expect_err("refused")[0].to_string().contains("levels of nesting")
            );
        }
    });
}
