use serde_json::{Map, Value};

use crate::{
    kinds::Kinds,
    lower::Lowering,
    ty::{List, Type},
};

/// A longer tuple is written as an array.
const LONGEST_TUPLE: usize = 64;
/// An array of a fixed length up to this one is written as a tuple.
const FIXED: usize = 6;

impl<'a> Lowering<'a, '_> {
    pub(crate) fn array(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type<'a> {
        let count = |keyword| map.get(keyword).and_then(Value::as_f64).map(|n| n as usize);
        let (prefix, rest, evaluated) = match (map.get("prefixItems"), map.get("items")) {
            (Some(Value::Array(prefix)), rest) if self.document.dialect >= 2020 => {
                (prefix.as_slice(), rest, rest.is_some())
            }
            (_, Some(Value::Array(prefix))) => {
                (prefix.as_slice(), map.get("additionalItems"), map.contains_key("additionalItems"))
            }
            (_, items) => (&[][..], items, items.is_some()),
        };
        let evaluated = evaluated || map.get("unevaluatedItems") == Some(&Value::Bool(true));
        let rest = rest.map_or(Type::ANY_VALUE, |rest| self.schema(rest, Kinds::ALL, depth + 1));
        let mut items: Vec<_> = prefix.iter().map(|item| self.schema(item, Kinds::ALL, depth + 1)).collect();
        let (least, mut most) = (count("minItems").unwrap_or(0), count("maxItems").unwrap_or(usize::MAX));
        if let Some(at) = items.iter().position(|item| *item == Type::Never) {
            most = most.min(at);
        }
        if items.len() > LONGEST_TUPLE {
            let item = Type::union(items.into_iter().chain([rest]));
            return Type::list(List { rest_evaluated: evaluated, ..List::of(item) });
        }
        if least == most && most <= FIXED && rest != Type::Never && rest.size() < 8 {
            items.resize(items.len().max(most), rest.clone());
        }
        items.truncate(most);
        let rest = if items.len() >= most { Type::Never } else { rest };
        if rest == Type::Never {
            most = most.min(items.len());
        }
        if least > most {
            return Type::Never;
        }
        Type::list(List { items, rest, least, most, rest_evaluated: evaluated })
    }
}
