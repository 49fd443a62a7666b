//! Observed shapes as types.

use crate::{
    shape::{Members, Shape},
    ty::{List, Member, Object, Type},
};

const ANY: Type<'static> = Type::Named("any");

/// The type of what was seen. Objects stay open, with members of any type: what was not seen yet may come.
/// Strictly, they have what was seen, so that a misspelt name is found.
pub(crate) fn of(shape: &Shape, strict: bool) -> Type<'_> {
    let scalars = [
        (shape.any, "any"),
        (shape.string, "string"),
        (shape.number, "number"),
        (shape.bigint, "bigint"),
        (shape.boolean, "boolean"),
    ];
    let object = shape.object.as_ref().map(|members| of_object(members, strict));
    let items = shape.items.as_ref().map(|items| Type::List(Box::new(List::of(of(items, strict)))));
    let scalars = scalars.into_iter().filter_map(|(seen, name)| seen.then_some(Type::Named(name)));
    let null = shape.null.then_some(Type::Named("null"));
    match Type::union(object.into_iter().chain(items).chain(scalars).chain(null)) {
        // Nothing was seen: the items of arrays that were all empty.
        Type::Never => ANY,
        seen => seen,
    }
}

fn of_object(members: &Members, strict: bool) -> Type<'_> {
    let object = match members {
        Members::Map(values) => Object { rest: of(values, strict), ..Object::OPEN },
        Members::Named(named) => {
            let members =
                named.iter().map(|(name, member)| Member::new(name, !member.required, of(&member.shape, strict)));
            let rest = if strict { Type::ANY_VALUE } else { ANY };
            Object { rest, ..Object::with(members.collect()) }.tidy()
        }
    };
    Type::Object(Box::new(object))
}
