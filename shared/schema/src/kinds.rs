use serde_json::{Map, Value};

/// A set of JSON's kinds of value. Integers are numbers here, as they are in TypeScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const OBJECT: Self = Self(1);
    pub(crate) const ARRAY: Self = Self(2);
    pub(crate) const STRING: Self = Self(4);
    pub(crate) const NUMBER: Self = Self(8);
    pub(crate) const BOOLEAN: Self = Self(16);
    pub(crate) const NULL: Self = Self(32);
    pub(crate) const ALL: Self = Self(63);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn not(self) -> Self {
        Self(Self::ALL.0 & !self.0)
    }
    pub(crate) fn each(self) -> impl Iterator<Item = Self> {
        [Self::OBJECT, Self::ARRAY, Self::STRING, Self::NUMBER, Self::BOOLEAN, Self::NULL]
            .into_iter()
            .filter(move |kind| self.has(*kind))
    }

    pub(crate) fn named(name: &str) -> Self {
        match name {
            "object" => Self::OBJECT,
            "array" => Self::ARRAY,
            "string" => Self::STRING,
            "number" | "integer" => Self::NUMBER,
            "boolean" => Self::BOOLEAN,
            "null" => Self::NULL,
            _ => Self::NONE,
        }
    }

    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// What `type` (and OpenAPI's `nullable`) says; `None` when it says nothing that JSON Schema knows.
    pub(crate) fn declared(schema: &Map<String, Value>) -> Option<Self> {
        let mut kinds = match schema.get("type")? {
            Value::String(name) => Self::named(name),
            Value::Array(names) => {
                names.iter().filter_map(Value::as_str).fold(Self::NONE, |kinds, name| kinds.or(Self::named(name)))
            }
            _ => Self::NONE,
        };
        if kinds != Self::NONE && schema.get("nullable") == Some(&Value::Bool(true)) {
            kinds = kinds.or(Self::NULL);
        }
        (kinds != Self::NONE).then_some(kinds)
    }
}
