use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::{
    doc::Doc,
    index::Index,
    kinds::Kinds,
    lower::{Lowering, list},
    ty::{Member, Object, Pattern, Type},
    validator,
};

/// Members of which one has to be there.
const FEW: usize = 6;

impl<'a> Lowering<'a, '_> {
    pub(crate) fn object(&mut self, map: &'a Map<String, Value>, depth: usize) -> Type<'a> {
        let patterns = self.patterns(map, depth);
        let additional = map.get("additionalProperties");
        let uncompiled = patterns.iter().any(|pattern| self.matches(pattern.source, "").is_none());
        let rest = match additional {
            // Which members are additional cannot be told where a pattern cannot be compiled.
            Some(schema) if !uncompiled => self.schema(schema, Kinds::ALL, depth + 1),
            _ => Type::ANY_VALUE,
        };
        let rest_evaluated = additional.is_some() || map.get("unevaluatedProperties") == Some(&Value::Bool(true));
        let mut object = Object { patterns, rest, rest_evaluated, ..Object::OPEN };
        if map.get("maxProperties").and_then(Value::as_f64) == Some(0.0) {
            (object.rest, object.patterns) = (Type::Never, Vec::new());
        }
        for (name, schema) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let (own, by_pattern) = (self.schema(schema, Kinds::ALL, depth + 1), self.by_pattern(&object, name));
            let value = self.meet(own, by_pattern);
            let doc = if self.docs { Doc::of(schema) } else { Doc::default() };
            object.members.push(Member { name, optional: true, value, doc, evaluated: true });
        }
        self.everywhere(&mut object);
        self.require(map, &mut object);
        self.names(map, &mut object, depth);
        if object.members.iter().any(|member| !member.optional && member.value == Type::Never) {
            return Type::Never;
        }
        Self::at_least_one(map, object.tidy())
    }

    /// A pattern that every name matches says what all further members hold, one that a single name
    /// matches is a member.
    fn everywhere(&mut self, object: &mut Object<'a>) {
        let all = object.clone();
        let mut everywhere = None;
        for pattern in std::mem::take(&mut object.patterns) {
            if pattern.keys == Index::Template("*".into()) || self.matches_all(pattern.source) {
                let known = everywhere.unwrap_or(Type::ANY_VALUE);
                everywhere = Some(self.meet(known, pattern.value));
            } else if let Some(name) = pattern.keys.single(pattern.source) {
                if object.member(name).is_none() {
                    let value = self.by_pattern(&all, name);
                    object.members.push(Member { evaluated: true, ..Member::new(name, true, value) });
                }
            } else {
                object.patterns.push(pattern);
            }
        }
        let Some(everywhere) = everywhere else { return };
        for pattern in &mut object.patterns {
            pattern.value = self.meet(pattern.value.clone(), everywhere.clone());
        }
        (object.rest, object.rest_evaluated) = (everywhere, true);
    }

    /// Without an anchor, what matches nothing at all matches anywhere.
    fn matches_all(&mut self, pattern: &'a str) -> bool {
        !pattern.contains(['^', '$', '\\', '(']) && self.matches(pattern, "") == Some(true)
    }

    /// What the patterns of an object say of the member `name`, which has a schema of its own.
    fn by_pattern(&mut self, object: &Object<'a>, name: &str) -> Type<'a> {
        if object.patterns.is_empty() {
            return Type::ANY_VALUE;
        }
        let patterns = Object { patterns: object.patterns.clone(), ..Object::OPEN };
        self.value_of(&patterns, name)
    }

    fn require(&mut self, map: &'a Map<String, Value>, object: &mut Object<'a>) {
        let required: HashSet<&str> = list(map, "required").iter().filter_map(Value::as_str).collect();
        if required.is_empty() {
            return;
        }
        for member in &mut object.members {
            member.optional = !required.contains(member.name);
        }
        let known: HashSet<&str> = object.members.iter().map(|member| member.name).collect();
        let mut undeclared: Vec<_> = required.into_iter().filter(|name| !known.contains(name)).collect();
        undeclared.sort_unstable();
        let members = undeclared.into_iter().map(|name| Member {
            evaluated: object.rest_evaluated,
            ..Member::new(name, false, self.value_of(object, name))
        });
        let members: Vec<_> = members.collect();
        object.members.extend(members);
    }

    /// `propertyNames` that lists the names, or their beginning.
    fn names(&mut self, map: &'a Map<String, Value>, object: &mut Object<'a>, depth: usize) {
        let Some(schema) = map.get("propertyNames").filter(|_| self.document.dialect > 4) else { return };
        let mut names = schema;
        if let Some(Some(target)) = names.as_object().and_then(|map| self.document.target(map)) {
            names = target;
        }
        let values = match (names.get("enum"), names.get("const")) {
            (Some(Value::Array(values)), _) => values.as_slice(),
            (_, Some(value)) => std::slice::from_ref(value),
            _ if *names == Value::Bool(false) => &[],
            _ if self.schema(names, Kinds::STRING, depth + 1) == Type::Never => &[],
            _ => return self.names_by_pattern(names, object),
        };
        let listed: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        for name in &listed {
            if object.member(name).is_none() {
                let value = self.value_of(object, name);
                object.members.push(Member { evaluated: object.rest_evaluated, ..Member::new(name, true, value) });
            }
        }
        for member in object.members.iter_mut().filter(|member| !listed.contains(&member.name)) {
            member.value = Type::Never;
        }
        (object.rest, object.patterns) = (Type::Never, Vec::new());
    }

    /// `propertyNames` with a pattern that an index signature can be for.
    fn names_by_pattern(&mut self, names: &'a Value, object: &mut Object<'a>) {
        let Some(source) = names.get("pattern").and_then(Value::as_str) else { return };
        let keys = Index::of_pattern(source);
        let matches: Option<Vec<bool>> =
            object.members.iter().map(|member| self.matches(source, member.name)).collect();
        let Some(matches) = matches.filter(|_| keys != Index::Every && object.patterns.is_empty()) else { return };
        if keys == Index::Template("*".into()) || keys.single(source).is_some() {
            return;
        }
        for (member, _) in object.members.iter_mut().zip(matches).filter(|(_, matches)| !matches) {
            member.value = Type::Never;
        }
        let value = std::mem::replace(&mut object.rest, Type::Never);
        object.patterns = vec![Pattern { source, keys, value }];
    }

    /// `minProperties: 1` where it can be said which ones those are.
    fn at_least_one(map: &Map<String, Value>, object: Object<'a>) -> Type<'a> {
        let least = map.get("minProperties").and_then(Value::as_f64);
        let few = (1..=FEW).contains(&object.members.len());
        if least != Some(1.0) || !few || !object.is_closed() || object.members.iter().any(|member| !member.optional) {
            return Type::object(object);
        }
        let there = |name| Member::new(name, false, Type::ANY_VALUE);
        let any = object
            .members
            .iter()
            .map(|member| Type::object(Object { beside: true, ..Object::with(vec![there(member.name)]) }));
        let any = Type::union(any);
        Type::intersection([Type::object(object), any])
    }

    fn patterns(&mut self, map: &'a Map<String, Value>, depth: usize) -> Vec<Pattern<'a>> {
        let patterns = map.get("patternProperties").and_then(Value::as_object);
        let mut patterns: Vec<_> = patterns.into_iter().flatten().collect();
        patterns.sort_by_key(|(pattern, _)| pattern.as_str());
        let own: Vec<_> = patterns
            .into_iter()
            .map(|(source, schema)| Pattern {
                source,
                keys: Index::of_pattern(source),
                value: self.schema(schema, Kinds::ALL, depth + 1),
            })
            .collect();
        // What matches a template within another matches both.
        let narrowed = own.iter().map(|pattern| {
            let wider = own.iter().filter(|other| {
                other.keys != Index::Every && other.keys != pattern.keys && other.keys.includes(&pattern.keys)
            });
            let value = wider.fold(pattern.value.clone(), |value, other| self.meet(value, other.value.clone()));
            Pattern { value, ..pattern.clone() }
        });
        narrowed.collect()
    }

    /// `None` when the pattern cannot be compiled.
    pub(crate) fn matches(&mut self, pattern: &'a str, name: &str) -> Option<bool> {
        let compiled = self
            .patterns
            .entry(pattern)
            .or_insert_with(|| validator::options().build(&json!({"pattern": pattern})).ok());
        compiled.as_ref().map(|compiled| compiled.is_valid(&Value::from(name)))
    }
}

/// The index signatures. TypeScript wants each to admit every member, and every narrower signature,
/// that its keys cover (TS2411, TS2413), so each is the union of its own type and theirs.
pub(crate) fn index<'a>(object: &Object<'a>) -> Vec<(Index, Type<'a>)> {
    let mut own: Vec<(Index, Type<'a>)> =
        object.patterns.iter().map(|pattern| (pattern.keys.clone(), pattern.value.clone())).collect();
    match &object.rest {
        Type::Unknown(_) if object.beside => {}
        // `{}` would be the type of everything but null and undefined.
        Type::Never if own.is_empty() && object.members.is_empty() => return vec![(Index::Every, Type::Never)],
        Type::Never => {}
        rest => own.push((Index::Every, rest.clone())),
    }
    let mut keys: Vec<Index> = own.iter().map(|(keys, _)| keys.clone()).collect();
    let mut seen = HashSet::new();
    keys.retain(|keys| seen.insert(keys.clone()));
    keys.sort_by_key(|keys| *keys == Index::Every);
    let with = |keys: Index| {
        let narrower = own.iter().filter(|(other, _)| keys.includes(other)).map(|(_, value)| value.clone());
        let covered: Vec<_> = object.members.iter().filter(|member| keys.covers(member.name)).collect();
        let undefined = covered.iter().any(|member| member.optional).then_some(Type::Named("undefined"));
        let value =
            Type::union(narrower.chain(covered.into_iter().map(|member| member.value.clone())).chain(undefined));
        (keys, value)
    };
    // Beside a signature for every key, one that says nothing adds nothing.
    let every = keys.contains(&Index::Every);
    let says = |value: &Type<'a>| !matches!(value, Type::Unknown(_) | Type::But(_));
    keys.into_iter().map(with).filter(|(keys, value)| *keys == Index::Every || !every || says(value)).collect()
}
