//! JSON values as literal types.

use serde_json::{Number, Value};

use crate::{
    name,
    ty::{List, Member, Object, Type},
};

/// Levels of a value that are written out; below, it is `unknown`.
const DEPTH: usize = 16;
/// The largest integer up to which a double holds every one: 2^53.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(crate) fn of(value: &Value, depth: usize) -> Type<'_> {
    if depth > DEPTH {
        return Type::ANY_VALUE;
    }
    match value {
        Value::Null => Type::Named("null"),
        Value::Bool(flag) => Type::Literal(flag.to_string()),
        Value::String(text) => Type::Literal(name::string(text)),
        Value::Number(number) => of_number(number),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| of(item, depth + 1)).collect();
            let length = items.len();
            Type::list(List { items, rest: Type::Never, least: length, most: length, rest_evaluated: true })
        }
        Value::Object(map) => {
            let members = map
                .iter()
                .map(|(name, value)| Member { evaluated: true, ..Member::new(name, false, of(value, depth + 1)) });
            let members = members.collect();
            Type::object(Object { rest: Type::Never, rest_evaluated: true, ..Object::with(members) }.tidy())
        }
    }
}

/// `1.0` is the integer 1. What a double does not hold exactly is a `number`: as a literal, it would
/// mean another one.
fn of_number<'a>(number: &Number) -> Type<'a> {
    match number.as_f64() {
        Some(double) if double.fract() == 0.0 && double.abs() < EXACT => Type::Literal(format!("{}", double as i64)),
        Some(double) if double.is_finite() && number.is_f64() && double.fract() != 0.0 => {
            Type::Literal(format!("{double}"))
        }
        _ => Type::Named("number"),
    }
}

/// How many types [`of`] makes of `value`, its depth bounded.
pub(crate) fn nodes(value: &Value) -> usize {
    fn count(value: &Value, depth: usize) -> usize {
        if depth > DEPTH {
            return 1;
        }
        match value {
            Value::Array(items) => 1 + items.iter().map(|item| count(item, depth + 1)).sum::<usize>(),
            Value::Object(map) => 1 + map.values().map(|value| count(value, depth + 1)).sum::<usize>(),
            _ => 1,
        }
    }
    count(value, 0)
}
