use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::keyword;

/// Levels of a document that are searched for anchors.
const DEPTH: usize = 64;

/// One schema document: what its references are resolved in.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) root: &'a Value,
    /// Before 2019-09 a `$ref` silences what stands beside it.
    pub(crate) ref_stands_alone: bool,
    anchors: HashMap<&'a str, &'a Value>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        let dialect = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let old = ["draft-03", "draft-04", "draft-05", "draft-06", "draft-07"];
        let mut anchors = HashMap::new();
        collect_anchors(root, 0, &mut anchors);
        Self { root, ref_stands_alone: old.iter().any(|draft| dialect.contains(draft)), anchors }
    }

    /// The schema that `reference` names in this document; `None` for one elsewhere.
    pub(crate) fn resolve(&self, reference: &str) -> Option<&'a Value> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own_id = || self.root.get("$id").or(self.root.get("id")).and_then(Value::as_str);
        if !resource.is_empty() && own_id().is_none_or(|id| id.trim_end_matches('#') != resource) {
            return None;
        }
        let fragment = percent_decode(fragment)?;
        let target = if fragment.is_empty() || fragment.starts_with('/') {
            // RFC 6901; `pointer` undoes `~1` and `~0`.
            self.root.pointer(&fragment)
        } else {
            self.anchors.get(fragment.as_str()).copied()
        };
        target.filter(|target| keyword::is_schema(target))
    }
}

impl<'a> Document<'a> {
    /// The schemas that `schema` holds against the same value as itself.
    pub(crate) fn in_place(&self, schema: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
        let target = reference(schema).and_then(|reference| self.resolve(reference));
        let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        let single = ["not", "if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
        let members =
            ["dependentSchemas", "dependencies"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
        target.into_iter().chain(lists.flatten()).chain(single).chain(members.flat_map(Map::values))
    }
}

/// `$ref`, or the dynamic ones, which mean the same unless schemas of several documents are combined.
pub(crate) fn reference(schema: &Map<String, Value>) -> Option<&str> {
    ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().find_map(|keyword| schema.get(keyword)?.as_str())
}

fn collect_anchors<'a>(schema: &'a Value, depth: usize, anchors: &mut HashMap<&'a str, &'a Value>) {
    let Value::Object(map) = schema else { return };
    if depth > DEPTH {
        return;
    }
    let legacy = |keyword| map.get(keyword).and_then(Value::as_str).and_then(|id| id.strip_prefix('#'));
    let text = |keyword| map.get(keyword).and_then(Value::as_str);
    for anchor in [text("$anchor"), text("$dynamicAnchor"), legacy("$id"), legacy("id")].into_iter().flatten() {
        anchors.entry(anchor).or_insert(schema);
    }
    for child in keyword::children(map) {
        collect_anchors(child, depth + 1, anchors);
    }
}

/// `None` when the escapes do not give UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn local_references_resolve() {
        let root = json!({
            "$id": "https://example.com/s",
            "$defs": {"a/b": {"title": "slash"}, "c d": {"title": "space"}, "e": {"$anchor": "here", "title": "anchor"}, "n": 1},
            "properties": {"p": {"title": "property"}},
        });
        let document = Document::new(&root);
        let title = |reference| document.resolve(reference).and_then(|schema| schema.get("title")?.as_str());
        assert_eq!(title("#/$defs/a~1b"), Some("slash"));
        assert_eq!(title("#/$defs/c%20d"), Some("space"));
        assert_eq!(title("#here"), Some("anchor"));
        assert_eq!(title("#/properties/p"), Some("property"));
        assert_eq!(title("https://example.com/s#/properties/p"), Some("property"));
        assert!(document.resolve("#").is_some());
        for elsewhere in
            ["https://example.com/other", "other.json#/a", "#/$defs/n", "#/$defs/missing", "#nowhere", "#/%zz"]
        {
            assert_eq!(document.resolve(elsewhere), None, "{elsewhere}");
        }
    }
}
