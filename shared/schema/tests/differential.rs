//! The declarations against the validator, on corpora: the traps of `tests/corpus`, the official
//! JSON-Schema-Test-Suite, and tools of real servers where those are at hand. `--nocapture` shows the
//! table; `REWIND_MISSES=folder` writes what each disagreed on.

mod measure;
mod sample;
mod tsc;

use std::{
    fs,
    path::{Path, PathBuf},
};

use measure::{Case, Figures};
use rewind_model::{Limits, Rendering};
use rewind_schema::Validator;
use serde_json::Value;

fn above(name: &str) -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join(name)).find(|path| path.exists())
}

fn at_hand(variable: &str, name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from).or_else(|| above(name));
    if found.is_none() {
        eprintln!("not measured: {name} is not here, and {variable} is not set");
    }
    found
}

fn json_files(folder: &Path) -> Vec<(String, Value)> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let read = |path: &PathBuf| serde_json::from_str(&fs::read_to_string(path).expect("a text")).expect("JSON");
    paths.iter().map(|path| (path.file_stem().expect("a name").to_string_lossy().into_owned(), read(path))).collect()
}

fn report(name: &str, cases: &[Case]) -> Vec<Figures> {
    let renderings = [(Rendering::Full, "full"), (Rendering::Compact, "compact")];
    let of = |(rendering, label): (Rendering, &str)| {
        let figures = measure::measure(cases, rendering);
        eprintln!("{}", measure::row(&format!("{name}, {label}"), &figures));
        if let Some(folder) = std::env::var_os("REWIND_MISSES") {
            let text = figures.misses.join("\n");
            fs::write(Path::new(&folder).join(format!("{}.{label}.txt", name.replace('/', "-"))), text)
                .expect("written");
        }
        figures
    };
    renderings.map(of).into()
}

/// Groups of the official suite whose instances are refused for a reason that TypeScript has no words for,
/// besides the keywords that [`sample::expressible`] leaves out: `minimum` and its like, lengths, counts,
/// `pattern`, `format`, `contains`, integers.
const WORDLESS: [&str; 9] = [
    // A member and all others, of types that exclude one another (TS2411).
    "additionalProperties with schema",
    "properties, patternProperties, additionalProperties interaction",
    // Keys that match `[0-9]{2,}`.
    "regexes are not anchored by default and are case sensitive",
    "float and integers are equal up to 64-bit representation limits",
    // Every object has a `toString`.
    "required properties whose names are Javascript object property names",
    // What a reference means depends on the way that evaluation took to it.
    "multiple dynamic paths to the $dynamicRef keyword",
    "$dynamicRef skips over intermediate resources - direct reference",
    "strict-tree schema, guards against misspelled properties",
    "collect annotations inside a 'not', even if collection is disabled",
];

/// Schemas with instances, in the suite's own form.
fn groups(file: &str, groups: &Value, dialect: Option<&str>) -> Vec<Case> {
    let groups = groups.as_array().expect("groups").iter().enumerate();
    groups
        .map(|(n, group)| {
            let mut schema = group["schema"].clone();
            if let (Some(dialect), Value::Object(map)) = (dialect, &mut schema) {
                map.entry("$schema").or_insert(dialect.into());
            }
            let tests = |valid| {
                let tests = group["tests"].as_array().expect("tests").iter();
                tests.filter(move |test| test["valid"] == Value::Bool(valid))
            };
            Case {
                name: format!("{file} {n}: {}", group["description"].as_str().unwrap_or_default()),
                schema,
                valid: tests(true).map(|test| test["data"].clone()).collect(),
                invalid: if WORDLESS.iter().any(|one| group["description"] == *one) {
                    Vec::new()
                } else {
                    tests(false)
                        .map(|test| (test["description"].as_str().unwrap_or_default().to_owned(), test["data"].clone()))
                        .collect()
                },
            }
        })
        .collect()
}

#[test]
fn traps() {
    let folder = above("tests/corpus").expect("the corpus");
    let cases: Vec<_> = json_files(&folder).iter().flat_map(|(file, value)| groups(file, value, None)).collect();
    for figures in report("traps", &cases) {
        assert_eq!(figures.contradicted, 0, "the corpus is wrong of some instance");
        assert_eq!((figures.compile, figures.valid.1), (figures.schemas, figures.valid.0), "{:#?}", figures.misses);
        assert!(figures.invalid.1 * 100 >= figures.invalid.0 * 97, "{:#?}", figures.misses);
    }
}

#[test]
fn official_suite() {
    let Some(suite) = at_hand("REWIND_JSON_SCHEMA_SUITE", ".tools/json-schema-suite") else { return };
    for (draft, dialect) in [
        ("draft4", "http://json-schema.org/draft-04/schema#"),
        ("draft6", "http://json-schema.org/draft-06/schema#"),
        ("draft7", "http://json-schema.org/draft-07/schema#"),
        ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
    ] {
        let files = json_files(&suite.join(draft));
        let cases: Vec<_> = files.iter().flat_map(|(file, value)| groups(file, value, Some(dialect))).collect();
        for figures in report(draft, &cases) {
            assert_eq!((figures.compile, figures.valid.1), (figures.schemas, figures.valid.0), "{:#?}", figures.misses);
        }
    }
}

/// A file for each server: its `tools/list`, as `list_tools.py` saves it.
#[test]
fn real_tools() {
    let Some(folder) = at_hand("REWIND_SERVERS", ".tools/servers") else { return };
    let mut cases = Vec::new();
    for (server, tools) in json_files(&folder) {
        for tool in tools.as_array().expect("tools") {
            for keyword in ["inputSchema", "outputSchema"] {
                if let Some(schema) = tool.get(keyword) {
                    cases.extend(sampled(format!("{server} {} {keyword}", tool["name"]), schema));
                }
            }
        }
    }
    for figures in report("real tools", &cases) {
        assert_eq!((figures.compile, figures.valid.1), (figures.schemas, figures.valid.0), "{:#?}", figures.misses);
    }
}

/// Of one schema; more take the compiler minutes.
const MUTANTS: usize = 12;

fn sampled(name: String, schema: &Value) -> Option<Case> {
    let schema = rewind_schema::normalize(schema.clone());
    let (validator, _) =
        Validator::new(&schema, &Limits::DEFAULT).inspect_err(|error| eprintln!("{name}: {error}")).ok()?;
    let mut valid = sample::instances(&schema);
    valid.retain(|value| value.is_object() && validator.validate(value).is_ok());
    valid.dedup();
    let mutants = valid.iter().take(2).flat_map(sample::mutants);
    let mut seen = std::collections::HashSet::new();
    let mut invalid: Vec<_> =
        mutants.filter(|(_, value)| seen.insert(value.to_string()) && validator.validate(value).is_err()).collect();
    let step = invalid.len().div_ceil(MUTANTS).max(1);
    invalid = invalid.into_iter().step_by(step).collect();
    Some(Case {
        name,
        schema,
        valid,
        invalid: invalid.into_iter().map(|(kind, value)| (kind.to_owned(), value)).collect(),
    })
}

/// Bytes here; `REWIND_RENDERED=folder` keeps the texts, for a tokenizer to count.
#[test]
fn compact_sizes() {
    let Some(folder) = at_hand("REWIND_SERVERS", ".tools/servers") else { return };
    for (server, listed) in json_files(&folder) {
        let mut tools = serde_json::Map::new();
        for tool in listed.as_array().expect("tools") {
            let schema = |keyword: &str| tool.get(keyword).map(|schema| rewind_schema::normalize(schema.clone()));
            let mut pinned =
                serde_json::json!({"description": tool["description"], "input_schema": schema("inputSchema")});
            if let Some(schema) = schema("outputSchema") {
                pinned["output_schema"] = schema;
            }
            tools.insert(tool["name"].as_str().expect("a name").into(), pinned);
        }
        let toolset = tsc::toolset("server", Value::Object(tools));
        let texts = [Rendering::Full, Rendering::Compact].map(|rendering| rewind_schema::render(&toolset, rendering));
        let raw = listed.to_string();
        eprintln!(
            "{server:<14} raw {:>7} compact {:>7} bytes: {:.1} %",
            raw.len(),
            texts[1].len(),
            100.0 * texts[1].len() as f64 / raw.len() as f64
        );
        if let Some(folder) = std::env::var_os("REWIND_RENDERED") {
            let file = |suffix: &str| Path::new(&folder).join(format!("{server}.{suffix}"));
            for (suffix, text) in [("raw.json", &raw), ("full.d.ts", &texts[0]), ("compact.d.ts", &texts[1])] {
                fs::write(file(suffix), text).expect("written");
            }
        }
    }
}
