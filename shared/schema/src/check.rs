use std::collections::HashMap;

use rewind_model::Limits;
use serde_json::Value;

use crate::{Validator, comment, document::Document, error::SchemaError, keyword};

/// Schemas that one value may be checked against, one inside the other, without stepping into the
/// value: each costs stack.
const CHAIN: usize = 64;
/// Schemas that one value may be checked against in all, without stepping into it.
const STEPS: u64 = 100_000;

/// Can a tool with this schema be used? Checked when a toolset is registered, with the default
/// limits (256 KiB, 64 levels of JSON).
///
/// # Errors
/// When the schema is none, is over a limit, or says something that JSON Schema does not allow.
pub fn check_schema(schema: &Value) -> Result<(), SchemaError> {
    Validator::new(schema, &Limits::DEFAULT).map(|_| ())
}

/// The bounds alone: what has to hold before anything that recurses may look at `schema`. Answers
/// how many schemas at most are checked one inside the other for one value.
pub(crate) fn check_bounds(schema: &Value, limits: &Limits) -> Result<usize, SchemaError> {
    if !keyword::is_schema(schema) {
        return Err(SchemaError::NotASchema { got: keyword::type_name(schema) });
    }
    if depth_over(schema, limits.schema_depth) {
        return Err(SchemaError::TooDeep { limit: limits.schema_depth });
    }
    let bytes = json_bytes(schema);
    if bytes > limits.schema_bytes {
        return Err(SchemaError::TooLarge { bytes, limit: limits.schema_bytes });
    }
    let document = Document::new(schema);
    let mut work = Work { document: &document, known: HashMap::new() };
    let mut open = vec![schema];
    let mut longest = 0;
    while let Some(schema) = open.pop() {
        longest = longest.max(work.of(schema, 0)?.chain);
        if let Value::Object(map) = schema {
            open.extend(keyword::children(map));
        }
    }
    Ok(longest)
}

/// Does `value` nest deeper than `limit`? Without recursion, for nothing is known of it yet.
pub(crate) fn depth_over(value: &Value, limit: usize) -> bool {
    let mut open = vec![(value, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > limit {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(map) => open.extend(map.values().map(|member| (member, depth + 1))),
            _ => {}
        }
    }
    false
}

fn json_bytes(value: &Value) -> usize {
    #[derive(Default)]
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count::default();
    serde_json::to_writer(&mut count, value).expect("a Value is JSON, and counting does not fail");
    count.0
}

/// What checking one value against a schema costs, without stepping into the value.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Schemas one inside the other.
    chain: usize,
    steps: u64,
}

/// Where `part` stands in `root`, as `properties.a`. `root` nests no deeper than the limit.
fn path_of(root: &Value, part: &Value) -> String {
    fn find(at: &Value, part: &Value, path: &mut Vec<String>) -> bool {
        if std::ptr::eq(at, part) {
            return true;
        }
        let mut inside = |name: String, value| {
            path.push(name);
            let found = find(value, part, path);
            if !found {
                path.pop();
            }
            found
        };
        match at {
            Value::Array(items) => items.iter().enumerate().any(|(n, item)| inside(n.to_string(), item)),
            Value::Object(map) => map.iter().any(|(name, member)| inside(name.clone(), member)),
            _ => false,
        }
    }
    let mut path = Vec::new();
    find(root, part, &mut path);
    if path.is_empty() { "its root".into() } else { comment::cut(&path.join("."), 200).to_string() }
}

struct Work<'d, 'a> {
    document: &'d Document<'a>,
    /// By address; `None` while it is being computed, that is, where a reference goes round in a circle.
    known: HashMap<*const Value, Option<Cost>>,
}

impl<'a> Work<'_, 'a> {
    fn of(&mut self, schema: &'a Value, depth: usize) -> Result<Cost, SchemaError> {
        let nothing = Cost { chain: 0, steps: 1 };
        let Value::Object(map) = schema else {
            return Ok(nothing);
        };
        if depth > CHAIN {
            return Err(SchemaError::TooDeep { limit: CHAIN });
        }
        let address = std::ptr::from_ref(schema);
        if let Some(known) = self.known.get(&address) {
            return known.ok_or_else(|| SchemaError::Circular { path: path_of(self.document.root, schema) });
        }
        self.known.insert(address, None);
        let mut cost = Cost { chain: 0, steps: 1 };
        for part in self.document.in_place(map) {
            let inner = self.of(part, depth + 1)?;
            cost.chain = cost.chain.max(inner.chain + 1);
            cost.steps = cost.steps.saturating_add(inner.steps);
        }
        if cost.chain > CHAIN {
            return Err(SchemaError::TooDeep { limit: CHAIN });
        }
        if cost.steps > STEPS {
            return Err(SchemaError::TooComplex { limit: STEPS });
        }
        self.known.insert(address, Some(cost));
        Ok(cost)
    }
}
