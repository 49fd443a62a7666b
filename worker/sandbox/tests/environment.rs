//! What scripts are type-checked against is what there is: each declared global, and no other.

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Value, json};
use support::{main_of, play, pool};

/// Declared by `es5` and refused by the type-checker in another way.
const NOT_THERE: [&str; 1] = ["Intl"];
/// Of the language itself: no library declares them.
const OF_THE_LANGUAGE: [&str; 2] = ["globalThis", "undefined"];

/// The text of a library and of all that it refers to.
fn library(folder: &Path, name: &str, read: &mut BTreeMap<String, String>) {
    if read.contains_key(name) {
        return;
    }
    let text = fs::read_to_string(folder.join(format!("lib.{name}.d.ts"))).expect("a library of TypeScript");
    read.insert(name.to_owned(), text.clone());
    for line in text.lines().filter_map(|line| line.strip_prefix("/// <reference lib=\"")) {
        library(folder, line.split('"').next().expect("a name"), read);
    }
}

fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.strip_prefix("declare ")?;
        let (kind, rest) = rest.split_once(' ')?;
        let value = ["var", "let", "const", "function", "class", "namespace"].contains(&kind);
        value.then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
    })
}

/// The libraries that the coordinator's compiler is told to use.
fn libraries() -> Vec<String> {
    let compiler = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../coordinator/server/src/typecheck/compiler.rs");
    let text = fs::read_to_string(compiler).expect("the compiler's options");
    let list = text.split("\"lib\": [").nth(1).and_then(|rest| rest.split(']').next()).expect("a list");
    list.split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect()
}

#[tokio::test]
async fn the_globals_are_those_that_are_declared() {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/npm/node_modules/@typescript");
    let mut installed = fs::read_dir(&tools).expect("`make tools`").flatten().map(|entry| entry.path().join("lib"));
    let folder = installed.find(|folder| folder.join("lib.es5.d.ts").exists()).expect("TypeScript's libraries");
    let mut read = BTreeMap::new();
    libraries().iter().for_each(|name| library(&folder, name, &mut read));
    let texts = read.values().map(String::as_str).chain([rewind_schema::ENVIRONMENT]);
    let mut expected: BTreeSet<&str> = texts.flat_map(declared).chain(OF_THE_LANGUAGE).collect();
    NOT_THERE.iter().for_each(|name| assert!(expected.remove(name), "{name}"));
    let story = play(&pool().await, main_of("return Object.getOwnPropertyNames(globalThis);")).await;
    let result = story.result();
    let found: BTreeSet<&str> = result.as_array().expect("names").iter().filter_map(Value::as_str).collect();
    let only = |one: &BTreeSet<&str>, other: &BTreeSet<&str>| {
        one.difference(other).map(|name| (*name).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((only(&expected, &found), only(&found, &expected)), (vec![], vec![]), "(declared only, there only)");
}

/// Interface or object type → the members that the environment declares in it.
fn members() -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in rewind_schema::ENVIRONMENT.lines() {
        if let Some(name) = line.strip_prefix("interface ") {
            found.push((name.split([' ', '<']).next().expect("a name").to_owned(), Vec::new()));
        } else if let Some(name) = line.strip_prefix("declare const ").and_then(|rest| rest.strip_suffix(": {")) {
            found.push((format!("{name} itself"), Vec::new()));
        } else if line.starts_with("  ") && !line.trim_start().starts_with(['/', '[', '*']) && !line.contains("new (") {
            let member = line.trim_start().trim_start_matches("readonly ");
            let name = member.split(['(', ':', '<', '?']).next().expect("a name");
            if let Some((_, members)) = found.last_mut() {
                members.push(name.to_owned());
            }
        }
    }
    found
}

#[tokio::test]
async fn every_declared_member_can_be_used() {
    let members = members();
    assert!(members.iter().map(|(_, members)| members.len()).sum::<usize>() > 40, "{members:?}");
    let script = format!(
        r#"
        const instances = {{
          Console: console, Crypto: crypto, TextEncoder: new TextEncoder(), TextDecoder: new TextDecoder("utf-8", {{ fatal: true }}),
          URL: new URL("https://user:pass@example.com:8080/a?b=c#d"), URLSearchParams: new URLSearchParams({{ a: "1" }}),
          "TextEncoder itself": TextEncoder, "TextDecoder itself": TextDecoder, "URL itself": URL, "URLSearchParams itself": URLSearchParams,
        }};
        const missing = [];
        for (const [type, members] of {}) {{
          const instance = instances[type];
          if (instance === undefined) {{ missing.push(type); continue; }}
          for (const name of members) if (!(name in instance)) missing.push(type + "." + name);
        }}
        return missing;"#,
        json!(members)
    );
    assert_eq!(play(&pool().await, main_of(&script)).await.result(), json!([]));
}

/// Each global function and method of the environment, called as its declaration says.
#[tokio::test]
async fn every_declared_global_works_as_declared() {
    let story = play(
        &pool().await,
        main_of(
            r##"
        for (const level of ["debug", "log", "info", "warn", "error"]) console[level](level, { n: 1 });
        const timer = setTimeout((a, b) => console.log(a + b), 1, 1, 2);
        clearTimeout(timer); clearTimeout(undefined);
        await new Promise((done) => queueMicrotask(done));
        const copy = structuredClone({ a: [1, new Date(0), new Map([[1, 2]])] });
        const url = new URL("/p?q=1", "https://example.com");
        url.searchParams.append("r", "2"); url.hash = "#h"; url.port = "81"; url.username = "u"; url.password = "p"; url.protocol = "http:";
        const params = new URLSearchParams([["a", "1"], ["b", "2"], ["a", "3"]]);
        params.sort(); params.delete("b"); params.set("c", "4");
        const seen = []; params.forEach((value, key) => seen.push(key + value));
        const encoder = new TextEncoder(), decoder = new TextDecoder();
        return [
          copy.a[0], copy.a[1].getTime(), copy.a[2].get(1), atob(btoa("ab")), typeof crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(4)).length,
          url.href, url.toString() === url.toJSON(), url.origin, url.host, url.hostname, url.pathname, url.search, URL.canParse("nope"),
          params.toString(), params.size, params.has("a", "3"), params.get("zz"), params.getAll("a"), [...params].length, [...params.keys()], [...params.values()], [...params.entries()].length, seen,
          encoder.encoding, decoder.decode(encoder.encode("é")), decoder.encoding, decoder.fatal, decoder.ignoreBOM, encoder.encode().length,
        ];"##,
        ),
    )
    .await;
    assert_eq!(
        story.result(),
        json!([
            1,
            0,
            2,
            "ab",
            "string",
            4,
            "http://u:p@example.com:81/p?q=1&r=2#h",
            true,
            "http://example.com:81",
            "example.com:81",
            "example.com",
            "/p",
            "?q=1&r=2",
            false,
            "a=1&a=3&c=4",
            3,
            true,
            null,
            ["1", "3"],
            3,
            ["a", "a", "c"],
            ["1", "3", "4"],
            3,
            ["a1", "a3", "c4"],
            "utf-8",
            "é",
            "utf-8",
            false,
            false,
            0
        ])
    );
    assert_eq!(story.logs.len(), 5);
}
