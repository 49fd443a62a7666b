//! How far the compiler, on what is rendered, agrees with the validator.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;

use rewind_model::{Limits, Rendering};
use rewind_schema::{Validator, render};
use serde_json::{Map, Value, json};

use crate::{sample, tsc};

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) schema: Value,
    pub(crate) valid: Vec<Value>,
    /// With its kind.
    pub(crate) invalid: Vec<(String, Value)>,
}

#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) schemas: usize,
    pub(crate) compile: usize,
    /// Of how many; accepted by both.
    pub(crate) valid: (usize, usize),
    /// Of those whose reason a type can state: refused by both.
    pub(crate) invalid: (usize, usize),
    /// Instances on which the validator contradicts the corpus.
    pub(crate) contradicted: usize,
    /// What the compiler decided otherwise than the validator, for reading.
    pub(crate) misses: Vec<String>,
}

/// JSON as an expression; a `__proto__` of JSON is an own member.
pub(crate) fn expression(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let member = |(name, value): (&String, &Value)| {
                let key = expression(&json!(name));
                let key = if name == "__proto__" { format!("[{key}]") } else { key };
                format!("{key}: {}", expression(value))
            };
            format!("{{{}}}", map.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(expression).collect::<Vec<_>>().join(", ")),
        // The compiler counts lines by these as well.
        other => other.to_string().replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"),
    }
}

struct Line<'c> {
    case: &'c Case,
    value: &'c Value,
    kind: &'c str,
    valid: bool,
}

/// Each instance stands on a line of its own: as an argument, where it is an object, and as a result.
pub(crate) fn measure(cases: &[Case], rendering: Rendering) -> Figures {
    let mut figures = Figures { schemas: cases.len(), ..Figures::default() };
    let mut script = String::from(
        "import { server } from \"rewind:tools\"; type R<T extends (...a: any) => any> = Awaited<ReturnType<T>>;\n",
    );
    let (mut lines, mut tools) = (Vec::new(), Map::new());
    for (n, case) in cases.iter().enumerate() {
        tools.insert(format!("t{n}"), json!({"input_schema": case.schema}));
        tools.insert(format!("tr{n}"), json!({"input_schema": {}, "output_schema": case.schema}));
        let validator = |schema| Validator::new(schema, &Limits::DEFAULT).ok().map(|(validator, _)| validator);
        let Some(full) = validator(&case.schema) else { continue };
        let relaxed = validator(&sample::expressible(&case.schema));
        let valid = case.valid.iter().map(|value| (value, "valid", true));
        for (value, kind, valid) in valid.chain(case.invalid.iter().map(|(kind, value)| (value, kind.as_str(), false)))
        {
            if full.validate(value).is_ok() != valid {
                figures.contradicted += 1;
                continue;
            }
            if !valid && relaxed.as_ref().is_none_or(|relaxed| relaxed.validate(value).is_ok()) {
                continue;
            }
            let written = expression(value);
            let mut line = |text: String| {
                script.push_str(&text);
                lines.push(Line { case, value, kind, valid });
            };
            if value.is_object() {
                line(format!("server.t{n}({written});\n"));
            }
            line(format!("{{ const v: R<typeof server.tr{n}> = {written}; }}\n"));
        }
    }
    let declarations = render(&tsc::toolset("server", Value::Object(tools)), rendering);
    let said = tsc::check(&[("tools.d.ts", &declarations), ("script.ts", &script)]);
    tally(&mut figures, &declarations, &said, &lines, &script);
    figures
}

fn tally(figures: &mut Figures, declarations: &str, said: &[String], lines: &[Line<'_>], script: &str) {
    let mut by_line: BTreeMap<usize, &str> = BTreeMap::new();
    let mut broken = std::collections::BTreeSet::new();
    let texts: Vec<&str> = declarations.lines().collect();
    for one in said {
        let line: usize = one.split(['(', ',']).nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
        if one.starts_with("script.ts(") {
            by_line.entry(line).or_insert(one);
        } else {
            let of = texts[..line.min(texts.len())]
                .iter()
                .rev()
                .find(|text| text.starts_with("    t") || text.starts_with('t') || text.starts_with("  export type "));
            broken.insert(of.copied().unwrap_or_default());
            figures.misses.push(format!("COMPILE {one}\n      {}", of.copied().unwrap_or_default()));
        }
    }
    figures.compile = figures.schemas - broken.len().min(figures.schemas);
    let scripts: Vec<&str> = script.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let found = by_line.get(&(at + 2));
        let count = if line.valid { &mut figures.valid } else { &mut figures.invalid };
        count.0 += 1;
        if found.is_none() == line.valid {
            count.1 += 1;
        } else {
            let how = if scripts[at + 1].starts_with("server") { "argument" } else { "result" };
            figures.misses.push(format!(
                "{} {how} {} [{}] {} OF {} SAID {}",
                if line.valid { "REFUSED" } else { "ACCEPTED" },
                line.case.name,
                line.kind,
                line.value,
                line.case.schema,
                found.unwrap_or(&"")
            ));
        }
    }
}

fn percent((of, right): (usize, usize)) -> f64 {
    if of == 0 { 100.0 } else { 100.0 * right as f64 / of as f64 }
}

pub(crate) fn row(name: &str, figures: &Figures) -> String {
    format!(
        "{name:<28} {:>5} schemas  compile {:>5.1} %  accepted {:>6.2} % of {:<6} refused {:>6.2} % of {:<6} (contradicted {})",
        figures.schemas,
        percent((figures.schemas, figures.compile)),
        percent(figures.valid),
        figures.valid.0,
        percent(figures.invalid),
        figures.invalid.0,
        figures.contradicted
    )
}
