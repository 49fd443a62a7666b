//! Every shape of record as version 1 writes it, kept for ever in `golden/v1/`: `<name>.json` for
//! people, `<name>.msgpack.hex` the journal message that holds the record alone.
//!
//! A new shape gets its files with `UPDATE_GOLDEN=1`. A file that exists is never written again:
//! a journal that holds such bytes may be somewhere.

#[path = "support/documents.rs"]
mod documents;
#[path = "support/records.rs"]
mod records;

use std::{collections::BTreeSet, fs, io::Write, path::PathBuf};

use rewind_model::Payload;
use rewind_run::{Cassette, Entry, History, Record};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1")
}

fn to_hex(bytes: &[u8]) -> String {
    let lines: Vec<String> =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    lines.join("\n") + "\n"
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.split_whitespace().flat_map(str::chars).collect();
    assert_eq!(digits.len() % 2, 0, "hex digits come in pairs");
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex digits");
    digits.chunks(2).map(byte).collect()
}

/// The file's text; written first if it is absent and `UPDATE_GOLDEN=1`.
fn golden(file: &str, text: &str) -> String {
    let path = directory().join(file);
    if std::env::var("UPDATE_GOLDEN").is_ok_and(|value| value == "1") && !path.exists() {
        fs::create_dir_all(directory()).expect("the directory can be made");
        let mut file = fs::File::create_new(&path).expect("a new file");
        file.write_all(text.as_bytes()).expect("the file can be written");
    }
    fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; a new shape is written with UPDATE_GOLDEN=1", path.display()))
}

#[test]
fn every_record_is_read_and_written_as_ever() {
    for (name, record) in records::all() {
        let entry = Entry::new(vec![record.clone()]);
        let bytes = entry.to_bytes().expect("writable");
        let json = serde_json::to_string_pretty(&record).expect("writable") + "\n";

        let golden_bytes = from_hex(&golden(&format!("{name}.msgpack.hex"), &to_hex(&bytes)));
        assert_eq!(Entry::from_bytes(&golden_bytes).expect("an old message is read"), entry, "{name}");
        assert_eq!(bytes, golden_bytes, "{name} is written otherwise than before");

        let golden_json = golden(&format!("{name}.json"), &json);
        assert_eq!(json, golden_json, "{name}");
        let read: Record = serde_json::from_str(&golden_json).expect("the JSON is a record");
        assert_eq!(read, record, "{name}");
    }
}

/// What a fork or a run on a cassette reads beside its journal.
#[test]
fn a_history_is_read_and_written_as_ever() {
    let history = documents::history();
    let bytes = history.to_bytes().expect("writable");
    let golden_bytes = from_hex(&golden("history.msgpack.hex", &to_hex(&bytes)));
    assert_eq!(History::from_bytes(&golden_bytes).expect("an old history is read"), history);
    assert_eq!(bytes, golden_bytes, "it is written otherwise than before");
    let json = serde_json::to_string_pretty(&history).expect("writable") + "\n";
    assert_eq!(json, golden("history.json", &json));
}

/// What people keep beside their tests.
#[test]
fn a_cassette_is_read_and_written_as_ever() {
    let cassette = documents::cassette();
    let json = serde_json::to_string_pretty(&cassette).expect("writable") + "\n";
    let golden_json = golden("cassette.json", &json);
    let read: Cassette = serde_json::from_str(&golden_json).expect("an old cassette is read");
    assert_eq!(read, cassette);
    assert_eq!(json, golden_json, "it is written otherwise than before");
}

#[test]
fn every_shape_has_a_golden_file() {
    let shapes: BTreeSet<_> = records::all().values().flat_map(records::shapes_of).collect();
    let missing: Vec<_> = records::all_shapes().filter(|shape| !shapes.contains(shape)).collect();
    assert!(missing.is_empty(), "no golden record has these shapes: {missing:?}");
}

#[test]
fn every_golden_file_is_still_read() {
    let names = records::all();
    let records = names.keys().flat_map(|name| [format!("{name}.json"), format!("{name}.msgpack.hex")]);
    let documents = ["history.json", "history.msgpack.hex", "cassette.json"].map(str::to_string);
    let expected: BTreeSet<String> = records.chain(documents).collect();
    let found: BTreeSet<String> = fs::read_dir(directory())
        .expect("golden files")
        .map(|file| file.expect("readable").file_name().into_string().expect("a name in UTF-8"))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn the_name_of_a_record_is_its_name_on_the_wire() {
    for (name, record) in records::all() {
        let json = serde_json::to_value(&record).expect("writable");
        let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
        assert_eq!(keys, [record.name()], "{name}");
    }
}

/// One that is missing here would never become a blob, however long it is.
#[test]
fn every_payload_of_a_record_can_be_kept_as_a_blob() {
    for (name, mut record) in records::all() {
        let shapes = records::shapes_of(&record);
        let has_payload = records::PAYLOADS.iter().any(|shape| shapes.contains(shape));
        assert_eq!(record.payload_mut().is_some(), has_payload, "{name}");
        let kept = match record.payload_mut() {
            Some(Payload::Blob { digest, .. }) => Some(*digest),
            Some(Payload::Inline(_)) | None => None,
        };
        let named: Vec<_> = record.blobs().collect();
        if let Record::Created { spec, .. } = &record {
            let history = spec.past.as_ref().map(|past| past.history);
            assert!(history.is_none_or(|digest| named.contains(&digest)), "{name} names its history");
        }
        assert!(kept.is_none_or(|digest| named.contains(&digest)), "{name} names its blob");
    }
}
