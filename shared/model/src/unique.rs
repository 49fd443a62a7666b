//! Maps in which a name stands once: of two, one would be dropped without a word.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, Visitor},
};

/// For `deserialize_with`.
///
/// # Errors
/// When a name stands twice.
pub(crate) fn map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    struct Unique<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Unique<T> {
        type Value = BTreeMap<String, T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some(name) = members.next_key::<String>()? {
                if map.contains_key(&name) {
                    return Err(de::Error::custom(format_args!("{name:?} stands here twice")));
                }
                map.insert(name, members.next_value()?);
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Unique(PhantomData))
}
