//! Observed shapes: any order of merging gives the same, and nothing of a value is in them.

use proptest::prelude::*;
use rewind_schema::{Observations, Observed};
use serde_json::{Value, json};

/// Values whose texts and odd keys are easily found again.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "SECRET[a-z]{3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        let name = prop_oneof![
            4 => "[a-e]{1,2}",
            1 => Just("created_at".to_owned()),
            1 => "SECRET[a-z]{2}@x\\.io",
            1 => "SECRET[0-9]{6}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn same(one: &Observed, two: &Observed) {
    assert!(one.same_shape(two), "{one:?}\n{two:?}");
}

proptest! {
    #[test]
    fn joining_is_associative_commutative_and_idempotent(a in value(), b in value(), c in value()) {
        let [a, b, c] = [a, b, c].map(|value| Observed::of(&value));
        same(&a.clone().join(b.clone()), &b.clone().join(a.clone()));
        same(&a.clone().join(b.clone()).join(c.clone()), &a.clone().join(b.clone().join(c.clone())));
        same(&a.clone().join(a.clone()), &a);
        let both = a.clone().join(b);
        same(&both.clone().join(a), &both);
        prop_assert_eq!(both.results, 2);
    }

    #[test]
    fn no_value_and_no_key_that_is_data_is_stored(values in proptest::collection::vec(value(), 1..5)) {
        let seen = values.iter().map(Observed::of).reduce(Observed::join).expect("some");
        let stored = serde_json::to_string(&seen).expect("JSON");
        prop_assert!(!stored.contains("SECRET"), "{stored}");
        let back: Observed = serde_json::from_str(&stored).expect("reads back");
        prop_assert_eq!(back, seen);
    }
}

/// Wide and deep ones, which have to lose something.
#[test]
fn large_shapes_are_bounded_in_any_order() {
    fn wide(prefix: &str, width: usize, depth: usize) -> Value {
        if depth == 0 {
            return json!(1);
        }
        let member = |n: usize| {
            let name = format!("{prefix}{}", char::from(b'a' + u8::try_from(n % 26).unwrap_or(0)));
            // Not all alike, or it would be a map.
            let value = if n == 0 { json!("text") } else { wide(prefix, width, depth - 1) };
            (name, value)
        };
        Value::Object((0..width).map(member).collect())
    }
    let many: Vec<Observed> = [("x", 12, 4), ("y", 20, 3), ("x", 3, 7), ("z", 26, 3)]
        .map(|(prefix, width, depth)| Observed::of(&wide(prefix, width, depth)))
        .into();
    let all = |order: &[usize]| order.iter().map(|at| many[*at].clone()).reduce(Observed::join).expect("some");
    let one = all(&[0, 1, 2, 3]);
    for order in [[3, 2, 1, 0], [1, 0, 3, 2], [2, 3, 0, 1]] {
        same(&one, &all(&order));
    }
    same(&one, &all(&[0, 1]).join(all(&[2, 3])));
    assert!(serde_json::to_string(&one).expect("JSON").len() < 200_000);
    let mut observations = Observations::default();
    for n in 0..200 {
        observations.merge(&Observations { v: 1, tools: [(format!("s.t{n}"), one.clone())].into() });
    }
    assert!(serde_json::to_string(&observations).expect("JSON").len() < 512 << 10);
}

#[test]
fn maps_are_told_from_records() {
    let shape = |value: Value| serde_json::to_value(Observed::of(&value)).expect("JSON")["shape"]["object"].clone();
    let is_map = |value: Value| shape(value).get("map").is_some();
    assert!(is_map(json!({"ada@example.com": 1, "total": 2})));
    assert!(is_map(json!({"2026-01-01": {"n": 1}})));
    let people: serde_json::Map<_, _> = ["ada", "bob", "cyd", "dan", "eve", "fay", "gus", "hal"]
        .map(|name| (name.to_owned(), json!({"age": 1})))
        .into_iter()
        .collect();
    assert!(is_map(Value::Object(people)));
    let many: serde_json::Map<_, _> = (0..200)
        .map(|n| {
            (format!("k{}", "x".repeat(n % 40) + &"y".repeat(n / 40)), if n % 2 == 0 { json!(1) } else { json!("") })
        })
        .collect();
    assert!(is_map(Value::Object(many)));
    assert!(!is_map(json!({"id": 1, "title": "x", "labels": [], "user": {"login": "y"}})));
    let merged = Observed::of(&json!({"id": 1, "a": null})).join(Observed::of(&json!({"id": "x"})));
    assert_eq!(
        serde_json::to_value(&merged).expect("JSON")["shape"]["object"]["named"],
        json!({"a": {"shape": {"null": true}}, "id": {"required": true, "shape": {"number": true, "string": true}}})
    );
}
