//! Schemas of the corpus, changed at random for a bounded time. No change ends in a panic, a stack overflow,
//! or declarations that do not compile. `REWIND_FUZZ_SECONDS=600` looks longer; a failure names its seed, and
//! `REWIND_FUZZ_SEED` takes that one up again.

mod exercise;
mod tsc;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use exercise::{KEYWORDS, TEXTS, on_a_small_stack, use_schema};
use rewind_model::Rendering;
use rewind_schema::render;
use serde_json::{Map, Value, json};

const SECONDS: u64 = 10;
/// Bytes: larger ones teach nothing that smaller ones do not, in more time.
const LARGEST: usize = 8 << 10;
/// Schemas of one compilation.
const COMPILED: usize = 200;

/// SplitMix64 (Steele et al., 2014): the same seed gives the same schemas.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap_or(0)
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn corpus() -> Vec<Value> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/corpus"));
    let folder = above.into_iter().find(|path| path.exists()).expect("the corpus");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("its files").map(|entry| entry.expect("a file").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let groups = files.iter().map(|path| fs::read_to_string(path).expect("a text"));
    let groups = groups.flat_map(|text| serde_json::from_str::<Vec<Value>>(&text).expect("groups of tests"));
    groups.map(|group| group["schema"].clone()).collect()
}

/// Any place in `value`, chosen by a walk down from its top.
fn somewhere<'v>(value: &'v mut Value, dice: &mut Dice) -> &'v mut Value {
    let inner = match value {
        Value::Object(members) => members.len(),
        Value::Array(items) => items.len(),
        _ => 0,
    };
    if inner == 0 || dice.below(4) == 0 {
        return value;
    }
    let which = dice.below(inner);
    let next = match value {
        Value::Object(members) => members.values_mut().nth(which),
        Value::Array(items) => items.get_mut(which),
        _ => None,
    };
    somewhere(next.expect("one of them"), dice)
}

fn odd(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => json!(null),
        1 => json!(dice.below(2) == 0),
        2 => json!([i64::MIN, -1, 0, 1, 3, i64::MAX][dice.below(6)]),
        3 => json!([1e300, -0.0, 0.5, 1e-7][dice.below(4)]),
        4 => json!({}),
        5 => json!([]),
        6 => json!([dice.of(&KEYWORDS), dice.of(&KEYWORDS)]),
        7 => json!({ *dice.of(&KEYWORDS): dice.of(&TEXTS) }),
        _ => json!(dice.of(&TEXTS)),
    }
}

fn change(schema: &mut Value, corpus: &[Value], dice: &mut Dice) {
    let mut other = dice.of(corpus).clone();
    let graft = somewhere(&mut other, dice).take();
    let place = somewhere(schema, dice);
    let keyword = (*dice.of(&KEYWORDS)).to_owned();
    *place = match (dice.below(8), place.take()) {
        (0, _) => graft,
        (1, _) => odd(dice),
        (2, Value::Object(mut members)) => {
            if let Some(name) = members.keys().nth(dice.below(members.len())).cloned() {
                members.remove(&name);
            }
            Value::Object(members)
        }
        (3, Value::Object(mut members)) => {
            members.insert(keyword, graft);
            Value::Object(members)
        }
        (4, Value::Object(mut members)) => {
            // A member under another name.
            if let Some(name) = members.keys().nth(dice.below(members.len())).cloned() {
                let moved = members.remove(&name).unwrap_or_default();
                members.insert(keyword, moved);
            }
            Value::Object(members)
        }
        (5, Value::Array(mut items)) => {
            items.push(graft);
            Value::Array(items)
        }
        (6, old) => json!({ keyword: [old, graft] }),
        (7, old) => json!({ keyword: old }),
        (_, old) => old,
    };
}

#[test]
fn changed_schemas_are_survived() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let seed = variable("REWIND_FUZZ_SEED").unwrap_or(u64::from(now.subsec_nanos()) ^ now.as_secs());
    eprintln!("REWIND_FUZZ_SEED={seed}");
    let until = Instant::now() + Duration::from_secs(variable("REWIND_FUZZ_SECONDS").unwrap_or(SECONDS));
    let corpus = corpus();
    on_a_small_stack(move || {
        let mut dice = Dice(seed);
        let mut last = Map::new();
        let mut count = 0_usize;
        while Instant::now() < until {
            let mut schema = dice.of(&corpus).clone();
            for _ in 0..=dice.below(6) {
                change(&mut schema, &corpus, &mut dice);
            }
            if schema.to_string().len() > LARGEST {
                continue;
            }
            count += 1;
            let started = Instant::now();
            let used = std::panic::catch_unwind(|| use_schema(&schema));
            assert!(
                used.is_ok() && started.elapsed() < Duration::from_secs(5),
                "after {:?}: {schema}",
                started.elapsed()
            );
            last.insert(format!("t{}", count % COMPILED), json!({"input_schema": schema, "output_schema": schema}));
            if count.is_multiple_of(COMPILED * 5) {
                compile(std::mem::take(&mut last));
            }
        }
        compile(last);
        eprintln!("{count} schemas");
        assert!(count > 100, "only {count} schemas");
    });
}

fn compile(tools: Map<String, Value>) {
    let toolset = tsc::toolset("s", Value::Object(tools));
    for rendering in [Rendering::Full, Rendering::Compact] {
        tsc::assert_compiles("what is rendered of changed schemas", &render(&toolset, rendering));
    }
}
