//! Observed shapes as types.

use crate::{
    doc::Doc,
    shape::{Members, Shape},
    ty::{Index, Member, Object, Type},
};

const ANY: Type<'static> = Type::Named("any");

/// The type of what was seen. Objects stay open, with members of any type: what was not seen yet may come.
pub(crate) fn of(shape: &Shape) -> Type<'_> {
    let scalars = [
        (shape.any, "any"),
        (shape.string, "string"),
        (shape.number, "number"),
        (shape.bigint, "bigint"),
        (shape.boolean, "boolean"),
    ];
    let object = shape.object.as_ref().map(of_object);
    let items = shape.items.as_ref().map(|items| Type::Array(Box::new(of(items))));
    let scalars = scalars.into_iter().filter_map(|(seen, name)| seen.then_some(Type::Named(name)));
    let null = shape.null.then_some(Type::Named("null"));
    match Type::union(object.into_iter().chain(items).chain(scalars).chain(null)) {
        // Nothing was seen: the items of arrays that were all empty.
        Type::Never => ANY,
        seen => seen,
    }
}

fn of_object(members: &Members) -> Type<'_> {
    let object = match members {
        Members::Map(values) => Object { members: Vec::new(), index: vec![(Index::Every, of(values))] },
        Members::Named(named) => {
            let mut members: Vec<_> = named
                .iter()
                .map(|(name, member)| Member {
                    name,
                    optional: !member.required,
                    value: of(&member.shape),
                    doc: Doc::default(),
                })
                .collect();
            members.sort_by_key(|member| (member.optional, member.name));
            Object { members, index: vec![(Index::Every, ANY)] }
        }
    };
    Type::Object(Box::new(object))
}
