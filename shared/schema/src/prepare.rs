use std::collections::HashMap;

use serde_json::{Map, Value, json};

use crate::{
    comment,
    document::{self, Document},
    keyword, validator,
};

/// The dialects of JSON Schema that there are; `$schema` may end with `#`, and be http or https.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
];

/// A schema as real servers send it, made into one that can be compiled: what cannot be checked is
/// left out, and said in a warning, so that one keyword does not cost the whole tool.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) schema: Value,
    pub(crate) warnings: Vec<String>,
}

/// `schema` is within the limits.
pub(crate) fn prepare(schema: &Value) -> Prepared {
    let document = Document::new(schema);
    let mut pass = Pass { document: &document, warnings: Vec::new(), compiles: HashMap::new() };
    let mut prepared = schema.clone();
    pass.schema(&mut prepared, 0);
    Prepared { schema: prepared, warnings: pass.warnings }
}

struct Pass<'d, 'a> {
    document: &'d Document<'a>,
    warnings: Vec<String>,
    /// By regular expression.
    compiles: HashMap<String, bool>,
}

impl Pass<'_, '_> {
    fn schema(&mut self, schema: &mut Value, resource: usize) {
        let Value::Object(map) = schema else { return };
        let resource = self.document.resource(map, resource);
        self.dialect(map);
        if let (Some(reference), Some(keyword)) = (document::reference(map), document::keyword_of_reference(map))
            && !reference.starts_with('#')
            && self.document.resolve_in(resource, keyword, reference).is_none()
        {
            let reference = comment::cut(reference, 200);
            self.warnings
                .push(format!("the $ref {reference:?} leads out of the schema; it is not fetched, and not checked"));
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                map.remove(keyword);
            }
            if self.document.ref_stands_alone {
                map.clear();
            }
        }
        self.patterns(map);
        allow_null(map);
        keyword::for_each_child_mut(map, |child| self.schema(child, resource));
    }

    /// An unknown dialect is read as the newest one.
    fn dialect(&mut self, map: &mut Map<String, Value>) {
        let Some(uri) = map.get("$schema").and_then(Value::as_str) else {
            return;
        };
        let bare = uri.trim_end_matches('#');
        let bare = bare.strip_prefix("http://").or(bare.strip_prefix("https://")).unwrap_or(bare);
        match DIALECTS.iter().find(|dialect| **dialect == bare) {
            Some(dialect) => {
                let scheme = if dialect.contains("draft-0") { "http" } else { "https" };
                map.insert("$schema".into(), format!("{scheme}://{dialect}").into());
            }
            None => {
                let uri = comment::cut(uri, 200);
                self.warnings
                    .push(format!("the dialect {uri:?} is unknown; the schema is read as JSON Schema 2020-12"));
                map.remove("$schema");
            }
        }
    }

    fn patterns(&mut self, map: &mut Map<String, Value>) {
        if map.get("pattern").and_then(Value::as_str).is_some_and(|pattern| !self.compiles(pattern)) {
            map.remove("pattern");
        }
        let Some(Value::Object(patterns)) = map.get_mut("patternProperties") else {
            return;
        };
        let before = patterns.len();
        let keys: Vec<_> = patterns.keys().cloned().collect();
        for pattern in keys {
            if !self.compiles(&pattern) {
                patterns.remove(&pattern);
            }
        }
        if patterns.len() < before {
            // Which members are additional cannot be told any more.
            map.remove("additionalProperties");
            map.remove("unevaluatedProperties");
        }
    }

    fn compiles(&mut self, pattern: &str) -> bool {
        if let Some(known) = self.compiles.get(pattern) {
            return *known;
        }
        let compiles = validator::options().build(&json!({"pattern": pattern})).is_ok();
        if !compiles {
            let shown = comment::cut(pattern, 200);
            self.warnings.push(format!(
                "the pattern {shown:?} is no regular expression that can be compiled; it is not checked"
            ));
        }
        self.compiles.insert(pattern.to_owned(), compiles);
        compiles
    }
}

/// OpenAPI's way to add `null` to a type.
fn allow_null(map: &mut Map<String, Value>) {
    if map.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    let types = match map.get("type") {
        Some(Value::String(one)) if one != "null" => json!([one, "null"]),
        Some(Value::Array(many)) if !many.contains(&"null".into()) => {
            many.iter().cloned().chain(["null".into()]).collect()
        }
        _ => return,
    };
    map.insert("type".into(), types);
}
