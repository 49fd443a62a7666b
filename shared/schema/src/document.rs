use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{keyword, uri};

/// Levels of a document that are searched for anchors.
const DEPTH: usize = 64;
/// What a document without a name of its own is called.
const NAMELESS: &str = "schema:///";

/// One schema document: what its references are resolved in.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub(crate) root: &'a Value,
    /// Before 2019-09 a `$ref` silences what stands beside it.
    pub(crate) ref_stands_alone: bool,
    /// 4, 6, 7, 2019 or 2020.
    pub(crate) dialect: u16,
    /// Does some schema in it ask what the others have spoken of?
    pub(crate) asks_evaluated: bool,
    /// The document, and the schemas in it that have a name of their own (`$id`).
    resources: Vec<Resource<'a>>,
    /// The resource of each schema that is not the document's own.
    of_resource: HashMap<*const Map<String, Value>, usize>,
}

#[derive(Debug)]
struct Resource<'a> {
    uri: String,
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    dynamic_anchors: HashMap<&'a str, &'a Value>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        let schema = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let dialects =
            [("draft-03", 4), ("draft-04", 4), ("draft-05", 4), ("draft-06", 6), ("draft-07", 7), ("2019-09", 2019)];
        let dialect = dialects.into_iter().find(|(name, _)| schema.contains(name)).map_or(2020, |(_, dialect)| dialect);
        let mut document = Self {
            root,
            ref_stands_alone: dialect < 2019,
            dialect,
            asks_evaluated: false,
            resources: vec![Resource::new(NAMELESS.into(), root)],
            of_resource: HashMap::new(),
        };
        document.collect(root, 0, 0);
        document
    }

    /// What the reference of `schema` names; `None` without one, `Some(None)` when it is elsewhere.
    pub(crate) fn target(&self, schema: &'a Map<String, Value>) -> Option<Option<&'a Value>> {
        let resource = self.of_resource.get(&std::ptr::from_ref(schema)).copied().unwrap_or(0);
        Some(self.resolve_in(resource, keyword_of_reference(schema)?, reference(schema)?))
    }

    /// As [`Document::target`], of a copy of a schema that stands in `resource`.
    pub(crate) fn resolve_in(&self, resource: usize, keyword: &str, reference: &str) -> Option<&'a Value> {
        let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let uri = uri::join(&self.resources[resource].uri, path);
        let named =
            |uri: &str| self.resources.iter().position(|one| one.uri == uri || one.uri.trim_end_matches('/') == uri);
        let resource = if path.is_empty() { resource } else { named(&uri)? };
        let resource = &self.resources[resource];
        let fragment = percent_decode(fragment)?;
        let target = if keyword == "$recursiveRef" {
            Some(self.outermost(
                |one| one.is_recursive().then_some(one.root),
                resource.is_recursive(),
                resource.root,
            )?)
        } else if fragment.is_empty() || fragment.starts_with('/') {
            // RFC 6901; `pointer` undoes `~1` and `~0`.
            resource.root.pointer(&fragment)
        } else {
            let name = fragment.as_str();
            let anchor = *resource.anchors.get(name)?;
            let dynamic = keyword == "$dynamicRef" && resource.dynamic_anchors.contains_key(name);
            Some(self.outermost(|one| one.dynamic_anchors.get(name).copied(), dynamic, anchor)?)
        };
        target.filter(|target| keyword::is_schema(target))
    }

    /// What a dynamic reference leads to: in the document itself, which is where evaluation starts, if that
    /// has it; where several others have it, that depends on the way to it, and is not known.
    fn outermost(
        &self,
        find: impl Fn(&Resource<'a>) -> Option<&'a Value>,
        dynamic: bool,
        anchor: &'a Value,
    ) -> Option<&'a Value> {
        if !dynamic {
            return Some(anchor);
        }
        if let Some(found) = find(&self.resources[0]) {
            return Some(found);
        }
        (self.resources.iter().filter(|one| find(one).is_some()).count() < 2).then_some(anchor)
    }

    /// The resource that `schema`, which stands in `resource`, begins or belongs to.
    pub(crate) fn resource(&self, schema: &Map<String, Value>, resource: usize) -> usize {
        let Some(id) = self.own_id(schema) else { return resource };
        let uri = uri::join(&self.resources[resource].uri, id);
        self.resources.iter().position(|one| one.uri == uri).unwrap_or(resource)
    }

    fn own_id<'s>(&self, schema: &'s Map<String, Value>) -> Option<&'s str> {
        if self.ref_stands_alone && schema.contains_key("$ref") {
            return None;
        }
        let id = schema.get(if self.dialect == 4 { "id" } else { "$id" }).and_then(Value::as_str)?;
        let id = id.split_once('#').map_or(id, |(before, _)| before);
        (!id.is_empty()).then_some(id)
    }

    fn collect(&mut self, schema: &'a Value, resource: usize, depth: usize) {
        let Value::Object(map) = schema else { return };
        if depth > DEPTH {
            return;
        }
        self.asks_evaluated |= self.dialect >= 2019
            && ["unevaluatedProperties", "unevaluatedItems"].into_iter().any(|one| map.contains_key(one));
        let mut resource = resource;
        if let Some(id) = self.own_id(map) {
            let uri = uri::join(&self.resources[resource].uri, id);
            if depth == 0 {
                self.resources[0].uri = uri;
            } else {
                resource = self.resources.len();
                self.resources.push(Resource::new(uri, schema));
            }
        }
        if resource > 0 {
            self.of_resource.insert(std::ptr::from_ref(map), resource);
        }
        let text = |keyword| map.get(keyword).and_then(Value::as_str);
        let legacy = |keyword| {
            text(keyword)
                .and_then(|id| Some(id.split_once('#')?.1))
                .filter(|anchor| !anchor.is_empty() && !anchor.starts_with('/'))
        };
        let own = &mut self.resources[resource];
        for anchor in [text("$anchor"), text("$dynamicAnchor"), legacy("$id"), legacy("id")].into_iter().flatten() {
            own.anchors.entry(anchor).or_insert(schema);
        }
        if let Some(anchor) = text("$dynamicAnchor") {
            own.dynamic_anchors.entry(anchor).or_insert(schema);
        }
        for child in keyword::children(map) {
            self.collect(child, resource, depth + 1);
        }
    }
}

impl<'a> Resource<'a> {
    fn new(uri: String, root: &'a Value) -> Self {
        Self { uri, root, anchors: HashMap::new(), dynamic_anchors: HashMap::new() }
    }

    fn is_recursive(&self) -> bool {
        self.root.get("$recursiveAnchor") == Some(&Value::Bool(true))
    }
}

impl<'a> Document<'a> {
    /// The schemas that `schema` holds against the same value as itself.
    pub(crate) fn in_place(&self, schema: &'a Map<String, Value>) -> impl Iterator<Item = &'a Value> {
        let target = self.target(schema).flatten();
        let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array());
        let single = ["not", "if", "then", "else"].into_iter().filter_map(|keyword| schema.get(keyword));
        let members =
            ["dependentSchemas", "dependencies"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_object());
        target.into_iter().chain(lists.flatten()).chain(single).chain(members.flat_map(Map::values))
    }
}

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

pub(crate) fn keyword_of_reference(schema: &Map<String, Value>) -> Option<&'static str> {
    REFERENCES.into_iter().find(|keyword| schema.get(*keyword).is_some_and(Value::is_string))
}

pub(crate) fn reference(schema: &Map<String, Value>) -> Option<&str> {
    REFERENCES.into_iter().find_map(|keyword| schema.get(keyword)?.as_str())
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
        let title =
            |reference| document.resolve_in(0, "$ref", reference).and_then(|schema| schema.get("title")?.as_str());
        assert_eq!(title("#/$defs/a~1b"), Some("slash"));
        assert_eq!(title("#/$defs/c%20d"), Some("space"));
        assert_eq!(title("#here"), Some("anchor"));
        assert_eq!(title("#/properties/p"), Some("property"));
        assert_eq!(title("https://example.com/s#/properties/p"), Some("property"));
        assert!(document.resolve_in(0, "$ref", "#").is_some());
        for elsewhere in
            ["https://example.com/other", "other.json#/a", "#/$defs/n", "#/$defs/missing", "#nowhere", "#/%zz"]
        {
            assert_eq!(document.resolve_in(0, "$ref", elsewhere), None, "{elsewhere}");
        }
    }
}
