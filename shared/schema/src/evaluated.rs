//! `unevaluatedProperties` and `unevaluatedItems`: what a schema says of the members and items that no
//! keyword beside it, or inside those, speaks of.

use serde_json::{Map, Value};

use crate::{kinds::Kinds, lower::Lowering, ty::Type};

impl<'a> Lowering<'a, '_> {
    /// Closes what the keywords beside it, and inside those, do not speak of.
    pub(crate) fn unevaluated(
        &mut self,
        map: &'a Map<String, Value>,
        met: Type<'a>,
        kinds: Kinds,
        depth: usize,
    ) -> Type<'a> {
        let asks = |keyword| map.get(keyword).is_some_and(|schema| *schema != Value::Bool(true));
        if self.document.dialect < 2019 || !(asks("unevaluatedProperties") || asks("unevaluatedItems")) {
            return met;
        }
        let mut met = match met {
            Type::Unknown(None) | Type::But(_) => Type::Union(kinds.each().map(Type::of_kind).collect()),
            met => met,
        };
        // Without `anyOf`, no two alternatives hold at once.
        let alone = !matches!(met, Type::Union(_)) || !self.speaks(map, "anyOf", 0);
        if let Some(schema) = map.get("unevaluatedProperties") {
            let rest = self.schema(schema, Kinds::ALL, depth + 1);
            met = self.close(met, &rest, alone, 0);
        }
        // What `contains` matches is evaluated, and types do not know what that is.
        if let Some(schema) = map.get("unevaluatedItems").filter(|_| !self.speaks(map, "contains", 0)) {
            let rest = self.schema(schema, Kinds::ALL, depth + 1);
            met = self.close_lists(met, &rest, 0);
        }
        met
    }

    /// Is `keyword` in the schema, or in one that is held against the same value?
    fn speaks(&self, map: &'a Map<String, Value>, keyword: &str, depth: usize) -> bool {
        const LEVELS: usize = 8;
        let inner = || self.document.in_place(map).filter_map(Value::as_object);
        map.contains_key(keyword) || depth > LEVELS || inner().any(|one| self.speaks(one, keyword, depth + 1))
    }

    fn close(&mut self, met: Type<'a>, rest: &Type<'a>, alone: bool, depth: usize) -> Type<'a> {
        match met {
            Type::Union(parts) => {
                let objects = parts.iter().filter(|part| matches!(part, Type::Object(_) | Type::Alias(_))).count();
                Type::union(parts.into_iter().map(|part| self.close(part, rest, alone || objects < 2, depth)))
            }
            Type::Alias(alias) if depth < 4 => match self.expand(alias) {
                Some(value) => self.close(value, rest, alone, depth + 1),
                None => Type::Alias(alias),
            },
            Type::Object(mut object) => {
                for member in object.members.iter_mut().filter(|member| !member.evaluated) {
                    let value = std::mem::replace(&mut member.value, Type::Never);
                    member.value = self.meet(value, rest.clone());
                    member.evaluated = true;
                }
                if object.members.iter().any(|member| !member.optional && member.value == Type::Never) {
                    return Type::Never;
                }
                // Of several alternatives that hold at once, each speaks of its own members.
                if !object.rest_evaluated && (alone || *rest == Type::Never) {
                    object.rest = self.meet(object.rest, rest.clone());
                    object.lenient |= !alone;
                }
                object.rest_evaluated = true;
                Type::object(object.tidy())
            }
            other => other,
        }
    }

    fn close_lists(&mut self, met: Type<'a>, rest: &Type<'a>, depth: usize) -> Type<'a> {
        match met {
            Type::Union(parts) => {
                // Of several that hold at once, the longest speaks of all the items that the others do.
                let lists = parts.iter().filter(|part| matches!(part, Type::List(_) | Type::Alias(_))).count();
                if lists > 1 && *rest != Type::Never {
                    return Type::Union(parts);
                }
                Type::union(parts.into_iter().map(|part| self.close_lists(part, rest, depth)))
            }
            Type::Alias(alias) if depth < 4 => match self.expand(alias) {
                Some(value) => self.close_lists(value, rest, depth + 1),
                None => Type::Alias(alias),
            },
            Type::List(mut list) if !list.rest_evaluated => {
                list.rest = self.meet(list.rest, rest.clone());
                if list.rest == Type::Never {
                    list.most = list.most.min(list.items.len());
                }
                list.rest_evaluated = true;
                if list.least > list.most { Type::Never } else { Type::List(list) }
            }
            other => other,
        }
    }
}
