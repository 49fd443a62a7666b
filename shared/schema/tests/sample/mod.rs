//! Instances of a schema: valid ones by construction, and ones that differ from them in one place.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use serde_json::{Map, Value, json};

/// Levels of a schema, its references followed, that a sample fills in.
const DEPTH: usize = 8;
/// Places of one instance that are changed.
const PLACES: usize = 40;

/// Instances that may be valid: the caller asks the validator. `variant` 0 has only what is required.
pub(crate) fn instances(schema: &Value) -> Vec<Value> {
    (0..4).filter_map(|variant| Sampler { root: schema, variant }.of(schema, 0)).collect()
}

struct Sampler<'a> {
    root: &'a Value,
    variant: usize,
}

impl Sampler<'_> {
    fn of(&self, schema: &Value, depth: usize) -> Option<Value> {
        let Value::Object(map) = schema else { return (schema != &json!(false)).then(|| json!("any")) };
        if depth > DEPTH {
            return None;
        }
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            return self.of(self.root.pointer(reference.strip_prefix('#')?)?, depth + 1);
        }
        if let Some(value) = map.get("const") {
            return Some(value.clone());
        }
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            return values.get(self.variant % values.len().max(1)).cloned();
        }
        for keyword in ["anyOf", "oneOf"] {
            let Some(list) = map.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty()) else {
                continue;
            };
            let mut merged = map.clone();
            merged.remove(keyword);
            return self.both(&merged, &list[self.variant % list.len()], depth);
        }
        if let Some(list) = map.get("allOf").and_then(Value::as_array) {
            let mut merged = map.clone();
            merged.remove("allOf");
            return list.iter().try_fold(self.of(&Value::Object(merged), depth + 1)?, |value, one| {
                Some(together(value, self.of(one, depth + 1)?))
            });
        }
        self.plain(map, depth)
    }

    fn both(&self, base: &Map<String, Value>, one: &Value, depth: usize) -> Option<Value> {
        let shaped = ["type", "properties", "required", "items"].iter().any(|keyword| base.contains_key(*keyword));
        let one = self.of(one, depth + 1)?;
        if shaped { Some(together(self.of(&Value::Object(base.clone()), depth + 1)?, one)) } else { Some(one) }
    }

    fn plain(&self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let kind = match map.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.get(self.variant % kinds.len().max(1))?.as_str()?,
            _ if map.contains_key("properties") || map.contains_key("required") => "object",
            _ if map.contains_key("items") => "array",
            _ => "string",
        };
        let number = |keyword| map.get(keyword).and_then(Value::as_f64);
        Some(match kind {
            "object" => self.object(map, depth)?,
            "array" => {
                let least = number("minItems").unwrap_or(f64::from(u8::from(self.variant > 0))) as usize;
                match map.get("prefixItems").or(map.get("items")) {
                    Some(Value::Array(prefix)) => {
                        prefix.iter().map(|item| self.of(item, depth + 1)).collect::<Option<_>>()?
                    }
                    Some(items) => match self.of(items, depth + 1) {
                        Some(item) => (0..least).map(|_| item.clone()).collect(),
                        None => json!([]),
                    },
                    None => (0..least).map(|n| json!(n)).collect(),
                }
            }
            "integer" | "number" => {
                let least = number("minimum").or(number("exclusiveMinimum").map(|n| n + 1.0));
                let value = least.unwrap_or_else(|| number("maximum").unwrap_or(7.0).min(7.0));
                if value.fract() == 0.0 { json!(value as i64) } else { json!(value) }
            }
            "boolean" => json!(self.variant % 2 == 1),
            "null" => Value::Null,
            _ => json!("a".repeat(number("minLength").unwrap_or(1.0) as usize)),
        })
    }

    /// The last variant has a member that the schema does not name, should it allow one.
    fn object(&self, map: &Map<String, Value>, depth: usize) -> Option<Value> {
        let required: Vec<&str> =
            map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut made = Map::new();
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            match self.of(schema, depth + 1) {
                Some(value) if self.variant > 0 || required.contains(&name.as_str()) => {
                    drop(made.insert(name.clone(), value))
                }
                None if required.contains(&name.as_str()) => return None,
                _ => {}
            }
        }
        for name in required {
            made.entry(name).or_insert(json!("any"));
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(false)) => {}
            Some(schema) if self.variant > 0 => {
                drop(self.of(schema, depth + 1).map(|value| made.insert("zz_more".into(), value)))
            }
            None if self.variant == 3 && depth < 3 => drop(made.insert("zz_more".into(), json!([1]))),
            _ => {}
        }
        Some(Value::Object(made))
    }
}

fn together(one: Value, other: Value) -> Value {
    match (one, other) {
        (Value::Object(mut one), Value::Object(other)) => {
            one.extend(other);
            Value::Object(one)
        }
        (one, Value::String(_)) => one,
        (_, other) => other,
    }
}

/// `instance` with one thing changed, and what that is.
pub(crate) fn mutants(instance: &Value) -> Vec<(&'static str, Value)> {
    let mut places = Vec::new();
    places_in(instance, String::new(), &mut places);
    let mut made = Vec::new();
    for place in places.into_iter().take(PLACES) {
        let mut with = |kind, change: &dyn Fn(&mut Value)| {
            let mut changed = instance.clone();
            change(changed.pointer_mut(&place).expect("a place of the instance"));
            made.push((kind, changed));
        };
        with("null", &|value| *value = Value::Null);
        with("number", &|value| *value = json!(4242));
        with("text", &|value| *value = json!("zz_unknown"));
        with("boolean", &|value| *value = json!(true));
        with("object", &|value| *value = json!({"zz": {"zz": 1}}));
        with("array", &|value| *value = json!([[["zz"]]]));
        match instance.pointer(&place) {
            Some(Value::Object(members)) => {
                with("extra member", &|value| value["zz_extra"] = json!({"zz": 1}));
                for name in members.keys() {
                    with("member missing", &|value| drop(value.as_object_mut().map(|members| members.remove(name))));
                }
            }
            Some(Value::Array(_)) => with("one more item", &|value| {
                value.as_array_mut().into_iter().for_each(|items| items.push(json!({"zz": 1})))
            }),
            _ => {}
        }
    }
    made
}

fn places_in(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            places_in(member, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), places);
        }),
        Value::Array(items) => {
            items.iter().take(2).enumerate().for_each(|(n, item)| places_in(item, format!("{at}/{n}"), places))
        }
        _ => {}
    }
    places.push(at);
}

/// `schema` without what TypeScript has no words for: what this refuses, types can refuse.
pub(crate) fn expressible(schema: &Value) -> Value {
    const WORDLESS: [&str; 19] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "divisibleBy",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "minItems",
        "maxItems",
        "contentSchema",
    ];
    match schema {
        Value::Object(map) => {
            let mut kept = Map::new();
            for (keyword, value) in map {
                let inner = match keyword.as_str() {
                    "enum" | "const" | "default" | "examples" | "required" => value.clone(),
                    "type" => serde_json::from_str(&value.to_string().replace("integer", "number")).expect("a type"),
                    "minItems" | "maxItems"
                        if map.get("minItems") == map.get("maxItems")
                            || map.contains_key("prefixItems")
                            || map.get("items").is_some_and(Value::is_array) =>
                    {
                        value.clone()
                    }
                    wordless if WORDLESS.contains(&wordless) && !value.is_object() | (wordless == "contains") => {
                        continue;
                    }
                    _ => expressible(value),
                };
                // Where less said inside means more refused, nothing is said.
                let turned = matches!(keyword.as_str(), "not" | "if" | "oneOf" | "then" | "else") && inner != *value;
                match keyword.as_str() {
                    "oneOf" if turned => drop(kept.insert("anyOf".into(), inner)),
                    "not" | "if" | "then" | "else" if turned => {}
                    _ => drop(kept.insert(keyword.clone(), inner)),
                }
            }
            // What `contains` matches counts as spoken of.
            if schema.to_string().contains("\"contains\"") {
                kept.remove("unevaluatedItems");
            }
            if !kept.contains_key("if") {
                kept.remove("then");
                kept.remove("else");
            }
            Value::Object(kept)
        }
        Value::Array(list) => list.iter().map(expressible).collect(),
        other => other.clone(),
    }
}
