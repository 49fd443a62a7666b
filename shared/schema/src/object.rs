use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::{
    doc::Doc,
    kinds::Kinds,
    lower::Lowering,
    ty::{Index, Member, Object, Type},
};

impl<'a> Lowering<'a, '_> {
    /// An object without `additionalProperties` accepts further members, and so does its type; a
    /// literal with one is still refused by the compiler, which is what finds a misspelt argument.
    pub(crate) fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type<'a> {
        let patterns = self.patterns(map, depth);
        let additional = map.get("additionalProperties");
        let rest = match additional {
            None | Some(Value::Bool(false)) => None,
            Some(schema) => Some(self.schema(schema, Kinds::ALL, depth + 1)),
        };
        let members = self.members(map, &patterns, rest.as_ref(), additional, depth);
        let index = if members.is_empty() && patterns.is_empty() && rest.is_none() {
            // `{}` would be the type of everything but null and undefined.
            let value = if additional.is_none() { Type::ANY_VALUE } else { Type::Never };
            vec![(Index::Every, value)]
        } else {
            index(&members, patterns, rest)
        };
        Type::Object(Box::new(Object { members, index }))
    }

    /// The required ones first, each group by name, whatever order the map keeps.
    fn members(
        &mut self,
        map: &'a Map<String, Value>,
        patterns: &[(Index, Type<'a>)],
        rest: Option<&Type<'a>>,
        additional: Option<&Value>,
        depth: usize,
    ) -> Vec<Member<'a>> {
        let required: HashSet<&str> =
            map.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = map.get("properties").and_then(Value::as_object);
        let mut members: Vec<_> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| Member {
                name,
                optional: !required.contains(name.as_str()),
                value: self.schema(schema, Kinds::ALL, depth + 1),
                doc: if self.docs { Doc::of(schema) } else { Doc::default() },
            })
            .collect();
        let undeclared = required.into_iter().filter(|name| properties.is_none_or(|known| !known.contains_key(*name)));
        members.extend(undeclared.map(|name| {
            let pattern = patterns.iter().find(|(keys, _)| keys.covers(name)).map(|(_, value)| value);
            let value = match pattern.or(rest) {
                Some(value) => value.clone(),
                None if additional == Some(&Value::Bool(false)) && patterns.is_empty() => Type::Never,
                None => Type::ANY_VALUE,
            };
            Member { name, optional: false, value, doc: Doc::default() }
        }));
        members.sort_by_key(|member| (member.optional, member.name));
        members
    }

    fn patterns(&mut self, map: &'a Map<String, Value>, depth: usize) -> Vec<(Index, Type<'a>)> {
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        let mut patterns: Vec<_> = patterns.into_iter().flatten().collect();
        patterns.sort_by_key(|(pattern, _)| pattern.as_str());
        patterns
            .into_iter()
            .map(|(pattern, schema)| (Index::of_pattern(pattern), self.schema(schema, Kinds::ALL, depth + 1)))
            .collect()
    }
}

/// The index signatures. TypeScript wants each to admit every member, and every narrower signature,
/// that its keys cover (TS2411, TS2413), so each is the union of its own type and theirs.
fn index<'a>(
    members: &[Member<'a>],
    patterns: Vec<(Index, Type<'a>)>,
    rest: Option<Type<'a>>,
) -> Vec<(Index, Type<'a>)> {
    let mut own = patterns;
    own.extend(rest.map(|rest| (Index::Every, rest)));
    let mut keys: Vec<Index> = own.iter().map(|(keys, _)| keys.clone()).collect();
    // Beside a signature for every key the others add nothing that TypeScript would check.
    if keys.contains(&Index::Every) {
        keys = vec![Index::Every];
    }
    let mut seen = HashSet::new();
    keys.retain(|keys| seen.insert(keys.clone()));
    keys.into_iter()
        .map(|keys| {
            let narrower = own.iter().filter(|(other, _)| keys.includes(other)).map(|(_, value)| value.clone());
            let covered: Vec<_> = members.iter().filter(|member| keys.covers(member.name)).collect();
            let undefined = covered.iter().any(|member| member.optional).then_some(Type::Named("undefined"));
            let value =
                Type::union(narrower.chain(covered.into_iter().map(|member| member.value.clone())).chain(undefined));
            (keys, value)
        })
        .collect()
}

impl Index {
    /// `^x-` is a beginning that TypeScript can write; of other patterns it cannot tell which keys match.
    fn of_pattern(pattern: &str) -> Self {
        let Some(rest) = pattern.strip_prefix('^') else {
            return Index::Every;
        };
        let rest = rest.strip_suffix('$').filter(|rest| rest.ends_with(".*") || rest.ends_with(".+")).unwrap_or(rest);
        let rest = rest.strip_suffix(".*").or(rest.strip_suffix(".+")).unwrap_or(rest);
        let mut beginning = String::new();
        let mut chars = rest.chars();
        while let Some(c) = chars.next() {
            let c = match c {
                '\\' => chars.next().filter(|c| matches!(c, '.' | '-' | '/')),
                c => Some(c).filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | ':' | '@')),
            };
            let Some(c) = c else { return Index::Every };
            beginning.push(c);
        }
        if beginning.is_empty() { Index::Every } else { Index::StartingWith(beginning) }
    }

    fn covers(&self, name: &str) -> bool {
        match self {
            Index::Every => true,
            Index::StartingWith(beginning) => name.starts_with(beginning.as_str()),
        }
    }

    /// Is every key of `other` one of these?
    fn includes(&self, other: &Index) -> bool {
        match (self, other) {
            (Index::Every, _) => true,
            (_, Index::Every) => false,
            (Index::StartingWith(own), Index::StartingWith(other)) => other.starts_with(own.as_str()),
        }
    }
}
