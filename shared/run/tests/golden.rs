//! Every shape of record as version 1 writes it, kept for ever in `golden/v1/`: `<name>.json` for
//! people, `<name>.msgpack.hex` the journal message that holds the record alone.
//!
//! A new shape gets its files with `UPDATE_GOLDEN=1`. A file that exists is never written again:
//! a journal that holds such bytes may be somewhere.

#[path = "support/records.rs"]
mod records;

use std::{collections::BTreeSet, fs, io::Write, path::PathBuf};

use rewind_run::{Entry, Record};

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

#[test]
fn every_shape_has_a_golden_file() {
    let shapes: BTreeSet<_> = records::all().values().flat_map(records::shapes_of).collect();
    let missing: Vec<_> = records::all_shapes().filter(|shape| !shapes.contains(shape)).collect();
    assert!(missing.is_empty(), "no golden record has these shapes: {missing:?}");
}

#[test]
fn every_golden_file_is_still_read() {
    let names = records::all();
    let expected: BTreeSet<String> =
        names.keys().flat_map(|name| [format!("{name}.json"), format!("{name}.msgpack.hex")]).collect();
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
