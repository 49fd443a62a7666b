//! Journal messages from other builds, and bytes that are none: read, or refused with a reason.

#[path = "support/records.rs"]
mod records;

use proptest::prelude::*;
use rewind_run::{Entry, EntryError, Record};
use serde_json::{Value, json};

/// All records in one message.
fn entry() -> Entry {
    Entry::new(records::all().into_values().collect())
}

fn bytes() -> Vec<u8> {
    entry().to_bytes().expect("writable")
}

/// MessagePack of any value, the way that entries are written.
fn pack(value: &Value) -> Vec<u8> {
    rmp_serde::to_vec_named(value).expect("writable")
}

/// A message's content without its types. Journals hold no MessagePack that JSON has no word for.
fn unpack(bytes: &[u8]) -> Value {
    rmp_serde::from_slice(bytes).expect("readable")
}

/// Names of enum variants that stand before a value: a map of one such name is no structure.
const VARIANTS: [&str; 10] = ["inline", "blob", "ok", "err", "tool", "sleep", "completed", "failed", "outcome", "past"];

/// Adds a field to each structure, as a later minor version might.
fn add_fields(value: &mut Value, fields: &mut usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add_fields(item, fields)),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                if name != "labels" {
                    add_fields(member, fields);
                }
            }
            let variant = |name: &str| VARIANTS.contains(&name) || records::RECORDS.contains(&name);
            if members.len() > 1 || members.keys().any(|name| !variant(name)) {
                members.insert("later".into(), json!({"a": [1, null, "text"], "b": {}}));
                *fields += 1;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn unknown_fields_of_a_later_build_are_skipped() {
    let mut value = unpack(&bytes());
    let mut fields = 0;
    add_fields(&mut value, &mut fields);
    assert!(fields > 2 * entry().records.len(), "{fields} structures");
    assert_eq!(Entry::from_bytes(&pack(&value)).expect("readable"), entry());
}

#[test]
fn an_unknown_record_is_refused_by_name() {
    let bytes = pack(&json!({"v": 1, "records": [{"teleported": {"at": 1}}]}));
    let refused = Entry::from_bytes(&bytes).expect_err("this build knows no such record");
    assert!(matches!(refused, EntryError::Malformed(_)));
    assert!(refused.to_string().contains("teleported"), "{refused}");
}

#[test]
fn a_later_envelope_is_refused_by_its_version() {
    for records in [json!([]), json!([{"teleported": {"at": 1}}]), json!({"packed": "otherwise"})] {
        let refused = Entry::from_bytes(&pack(&json!({"v": 2, "records": records, "more": 1})))
            .expect_err("this build reads version 1");
        assert!(matches!(refused, EntryError::Version(2)), "{refused}");
        assert!(refused.to_string().contains("version 2; this build reads version 1"), "{refused}");
    }
}

#[test]
fn a_message_that_goes_on_is_refused() {
    for more in [&[0xc0][..], &bytes(), &[0xdb], &[0xc1]] {
        let long = [&bytes(), more].concat();
        assert!(matches!(Entry::from_bytes(&long), Err(EntryError::Trailing)), "{more:?}");
    }
}

#[test]
fn a_message_that_was_cut_is_refused_at_every_byte() {
    for (name, record) in records::all() {
        let bytes = Entry::new(vec![record]).to_bytes().expect("writable");
        for length in 0..bytes.len() {
            let refused = Entry::from_bytes(&bytes[..length]);
            assert!(matches!(refused, Err(EntryError::Malformed(_))), "{name}, {length} bytes: {refused:?}");
        }
    }
}

/// A node divides what it appends by these sizes: the rest of a message is small.
#[test]
fn the_size_of_a_record_is_nearly_that_of_its_bytes() {
    for (name, record) in records::all() {
        let size = record.size();
        let bytes = Entry::new(vec![record]).to_bytes().expect("writable").len();
        assert!(size < bytes && bytes < size + 700, "{name}: {size}, {bytes} bytes");
    }
}

#[test]
fn the_texts_of_a_divergence_are_a_part_of_its_size() {
    let (then, now) = (Some("x".repeat(1_000)), Some("y".repeat(2_000)));
    let at = rewind_model::Timestamp::default();
    assert_eq!(Record::Diverged { at, seq: 1, then: then.clone(), now }.size(), 3_000);
    assert_eq!(Record::Diverged { at, seq: 1, then, now: None }.size(), 1_000);
}

/// Lengths are promises of whoever wrote the bytes: nothing is allocated for them.
#[test]
fn promised_lengths_and_depths_are_not_believed() {
    let field = |name: &str, value: &[u8]| {
        let head = [0x82, 0xa1, b'v', 0x01, 0xa0 | name.len() as u8];
        [&head[..], name.as_bytes(), value].concat()
    };
    let deep = vec![0x91; 1 << 20];
    for (name, value) in [
        ("records", &[0xdd, 0xff, 0xff, 0xff, 0xff][..]),
        ("records", &[0xdb, 0xff, 0xff, 0xff, 0xff]),
        ("later", &[0xdf, 0xff, 0xff, 0xff, 0xff]),
        ("later", &[0xc6, 0xff, 0xff, 0xff, 0xff]),
        ("later", &deep),
        ("records", &deep),
    ] {
        assert!(matches!(Entry::from_bytes(&field(name, value)), Err(EntryError::Malformed(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Entry::from_bytes(&bytes).is_err());
    }

    /// What is read from damaged bytes is an entry that can be written, or an error.
    #[test]
    fn damaged_bytes_never_panic(
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
        record in any::<proptest::sample::Index>(),
    ) {
        let all: Vec<_> = records::all().into_values().collect();
        let record = all[record.index(all.len())].clone();
        let mut bytes = Entry::new(vec![record]).to_bytes().expect("writable");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(entry) = Entry::from_bytes(&bytes) {
            let again = entry.to_bytes().expect("writable");
            prop_assert_eq!(Entry::from_bytes(&again).expect("readable"), entry);
        }
    }
}
