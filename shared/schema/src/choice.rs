//! Keywords of which one of several things holds: `anyOf`, `oneOf`, `if`, `dependentSchemas`.

use serde_json::{Map, Value};

use crate::{
    kinds::Kinds,
    lower::{Lowering, list},
    ty::{Member, Object, Type},
};

/// Alternatives of a `oneOf` that are told from one another.
const EXCLUSIVE: usize = 8;
/// Names that others depend on, of one schema.
const DEPENDENT: usize = 4;

impl<'a> Lowering<'a, '_> {
    /// One of each holds. `vague` when of some keyword nothing is said.
    pub(crate) fn alternatives(
        &mut self,
        map: &'a Map<String, Value>,
        kinds: Kinds,
        depth: usize,
        vague: &mut bool,
    ) -> Vec<Type<'a>> {
        let mut all = Vec::new();
        let any = list(map, "anyOf");
        if !any.is_empty() {
            let parts: Vec<_> = any.iter().map(|one| self.schema(one, kinds, depth + 1)).collect();
            all.push(self.union(parts));
        }
        let one = list(map, "oneOf");
        if !one.is_empty() {
            let parts = self.exclusive(one, kinds, depth);
            all.push(self.union(parts));
        }
        if self.document.dialect > 6
            && let Some(condition) = map.get("if")
        {
            let parts = self.conditional(condition, map, kinds, depth);
            all.push(self.union(parts));
        }
        let dependencies = self.dependencies(map, kinds, depth);
        *vague |= dependencies.len() > DEPENDENT || map.contains_key("dependencies");
        if dependencies.len() <= DEPENDENT {
            all.extend(dependencies);
        }
        all
    }

    /// What holds of one alternative and of no other, as far as that can be said cheaply.
    fn exclusive(&mut self, schemas: &'a [Value], kinds: Kinds, depth: usize) -> Vec<Type<'a>> {
        let parts: Vec<_> = schemas.iter().map(|one| self.schema(one, kinds, depth + 1)).collect();
        if parts.len() > EXCLUSIVE {
            return parts;
        }
        let mut alone = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let mut only = part.clone();
            for (other, schema) in schemas.iter().enumerate().filter(|(other, _)| *other != at) {
                if self.disjoint(&only, &parts[other]) {
                    continue;
                }
                let refused = self.negate(schema, 0).unspoken();
                let narrowed = self.meet(only.clone(), refused);
                if narrowed.size() <= 3 * only.size() + 16 {
                    only = narrowed;
                }
            }
            alone.push(only);
        }
        alone
    }

    fn conditional(
        &mut self,
        condition: &'a Value,
        map: &'a Map<String, Value>,
        kinds: Kinds,
        depth: usize,
    ) -> Vec<Type<'a>> {
        let mut branch =
            |keyword| map.get(keyword).map_or(Type::ANY_VALUE, |schema| self.schema(schema, kinds, depth + 1));
        let (then, otherwise) = (branch("then"), branch("else"));
        let holds = self.schema(condition, kinds, depth + 1);
        let fails = self.negate(condition, 0).unspoken();
        let then = self.meet(holds, then);
        let otherwise = self.meet(fails, otherwise);
        vec![then, otherwise]
    }

    /// For each name: it is missing, or what depends on it holds.
    fn dependencies(&mut self, map: &'a Map<String, Value>, kinds: Kinds, depth: usize) -> Vec<Type<'a>> {
        // The validator knows the old keyword in every dialect.
        let keywords = ["dependencies", "dependentRequired", "dependentSchemas"];
        let keywords = if self.document.dialect < 2019 { &keywords[..1] } else { &keywords };
        let members = keywords.iter().filter_map(|keyword| map.get(*keyword)?.as_object());
        let dependencies: Vec<_> = members.flatten().collect();
        if dependencies.len() > DEPENDENT {
            return vec![Type::ANY_VALUE; DEPENDENT + 1];
        }
        dependencies.into_iter().map(|(name, then)| self.dependency(name, then, kinds, depth)).collect()
    }

    fn dependency(&mut self, name: &'a str, then: &'a Value, kinds: Kinds, depth: usize) -> Type<'a> {
        let member = |optional, value| Type::object(Object::with(vec![Member::new(name, optional, value)]));
        let there = member(false, Type::ANY_VALUE);
        let holds = match then {
            Value::Array(names) => {
                let names = names.iter().filter_map(Value::as_str).filter(|one| *one != name);
                let mut members: Vec<_> = names.map(|name| Member::new(name, false, Type::ANY_VALUE)).collect();
                members.sort_by_key(|member| member.name);
                members.dedup_by_key(|member| member.name);
                Type::object(Object::with(members))
            }
            then => self.schema(then, kinds, depth + 1),
        };
        let holds = self.meet(there, holds);
        Type::union([member(true, Type::Never), holds, Type::of_kinds(kinds.and(Kinds::OBJECT.not()))])
    }
}
