use serde_json::{Map, Value};

use crate::{
    kinds::Kinds,
    literal,
    lower::Lowering,
    ty::{Member, Object, Type},
};

/// Levels of `not` inside `not` and of members that are looked into.
const DEPTH: usize = 6;

/// Keywords that refuse nothing.
const ANNOTATIONS: [&str; 15] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "$comment",
    "$id",
    "$schema",
    "$defs",
    "definitions",
    "$anchor",
    "id",
];

impl<'a> Lowering<'a, '_> {
    /// The values that `schema` refuses, and perhaps more: [`Type::Unknown`] where types do not know.
    pub(crate) fn negate(&mut self, schema: &'a Value, depth: usize) -> Type<'a> {
        let map = match schema {
            Value::Bool(true) => return Type::Never,
            Value::Object(map) if depth <= DEPTH && self.spend(1) => map,
            _ => return Type::ANY_VALUE,
        };
        let mut refused = Vec::new();
        for (keyword, value) in map {
            refused.push(match (keyword.as_str(), value) {
                ("type", _) => Self::not_of_type(map),
                ("const", value) => Self::but(std::slice::from_ref(value)),
                ("enum", Value::Array(values)) => Self::but(values),
                ("required", Value::Array(_)) => self.missing(map),
                ("properties", Value::Object(properties)) => self.wrong_members(properties, map, depth),
                ("not", value) => self.schema(value, Kinds::ALL, depth + 1),
                ("allOf", Value::Array(all)) => Type::union(all.iter().map(|one| self.negate(one, depth + 1))),
                ("anyOf", Value::Array(any)) => any.iter().fold(Type::ANY_VALUE, |met, one| {
                    let refused = self.negate(one, depth + 1);
                    self.meet(met, refused)
                }),
                ("$ref", Value::String(_)) => match self.document.target(map) {
                    Some(Some(target)) => self.negate(target, depth + 1),
                    _ => return Type::ANY_VALUE,
                },
                ("additionalProperties", Value::Bool(true)) => continue,
                (annotation, _) if ANNOTATIONS.contains(&annotation) => continue,
                _ => return Type::ANY_VALUE,
            });
        }
        Type::union(refused)
    }

    /// A number that is no integer cannot be told from one that is.
    fn not_of_type(map: &Map<String, Value>) -> Type<'a> {
        let Some(kinds) = Kinds::declared(map) else { return Type::ANY_VALUE };
        let text = map["type"].to_string();
        let kinds = if text.contains("\"number\"") { kinds } else { kinds.and(Kinds::NUMBER.not()) };
        Type::of_kinds(kinds.not())
    }

    fn but(values: &[Value]) -> Type<'a> {
        let written = |value| match literal::of(value, 0) {
            Type::Literal(text) => Some(text),
            Type::Named("null") => Some("null".to_owned()),
            _ => None,
        };
        values.iter().map(written).collect::<Option<_>>().map_or(Type::ANY_VALUE, Type::But)
    }

    fn missing(&mut self, map: &'a Map<String, Value>) -> Type<'a> {
        let named = |name: &str| map.get("properties").is_some_and(|properties| properties.get(name).is_some());
        let names =
            map["required"].as_array().into_iter().flatten().filter_map(Value::as_str).filter(|name| !named(name));
        Type::union(names.map(|name| Type::object(Object::with(vec![Member::new(name, true, Type::Never)]))))
    }

    /// Also where a member of them is missing that is required.
    fn wrong_members(
        &mut self,
        properties: &'a Map<String, Value>,
        map: &'a Map<String, Value>,
        depth: usize,
    ) -> Type<'a> {
        let required = |name: &str| {
            map.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|one| one == name))
        };
        let mut refused = Vec::new();
        for (name, schema) in properties {
            let value = self.negate(schema, depth + 1);
            let optional = required(name);
            if value == Type::Never && !optional {
                continue;
            }
            if matches!(value, Type::Unknown(_)) && optional {
                return Type::open_object();
            }
            refused.push(Type::object(Object::with(vec![Member::new(name, optional, value)])));
        }
        Type::union(refused)
    }
}
