//! What the compiler prints, as diagnostics of the API.

use rewind_model::{Diagnostic, Toolset};

/// More of them help nobody.
const MOST: usize = 100;
/// Bytes of one message: types of large schemas are printed whole.
const LONGEST: usize = 4 << 10;

const SCRIPT: &str = "script.ts";
const ENTRY: &str = "rewind-entry.ts";

/// One of Rewind's own.
pub(super) fn own(code: &str, line: u32, column: u32, message: impl Into<String>) -> Diagnostic {
    Diagnostic { file: SCRIPT.into(), line, column, code: code.into(), message: message.into(), hint: None }
}

/// What the compiler advises who uses a name of Node.js or of a browser: to change what no script can.
const ADVICE: [&str; 2] =
    [" Do you need to install type definitions for ", " Do you need to change your target library?"];

/// Reads `script.ts(3,5): error TS2345: message`, whose further lines are indented.
pub(super) fn parse(output: &str, toolset: &Toolset) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = Vec::new();
    for line in output.lines() {
        if let Some(diagnostic) = head(line) {
            if found.len() == MOST {
                break;
            }
            found.push(diagnostic);
        } else if let Some(last) = found.last_mut().filter(|_| line.starts_with(' ')) {
            last.message.push('\n');
            last.message.push_str(line.strip_prefix("  ").unwrap_or(line));
        }
    }
    for diagnostic in &mut found {
        if let Some(at) = ADVICE.iter().filter_map(|advice| diagnostic.message.find(advice)).min() {
            diagnostic.message.truncate(at);
        }
        cut(&mut diagnostic.message);
        diagnostic.hint = hint(diagnostic, toolset);
    }
    with_entry_named(found)
}

/// Those of `strict` that are not in `held_to`: warnings.
pub(super) fn only_strictly(strict: Vec<Diagnostic>, held_to: &[Diagnostic]) -> Vec<Diagnostic> {
    let place = |found: &Diagnostic| (found.file.clone(), found.line, found.column, found.code.clone());
    let known: Vec<_> = held_to.iter().map(place).collect();
    let mut warnings: Vec<_> = strict.into_iter().filter(|found| !known.contains(&place(found))).collect();
    for warning in &mut warnings {
        let unnamed = warning.message.contains("Object literal may only specify known properties");
        let why = if unnamed {
            "the tool's schema allows this member and does not name it"
        } else {
            "the result's type was learned from earlier results (@observed), which promises nothing"
        };
        warning.hint = Some(warning.hint.as_ref().map_or_else(|| why.to_owned(), |own| format!("{own} ({why})")));
    }
    warnings
}

fn head(line: &str) -> Option<Diagnostic> {
    let (place, rest) = line.split_once("): error ")?;
    let (file, position) = place.rsplit_once('(')?;
    let (line, column) = position.split_once(',')?;
    let (code, message) = rest.split_once(": ")?;
    let (line, column) = (line.parse().ok()?, column.parse().ok()?);
    Some(Diagnostic { file: file.into(), line, column, code: code.into(), message: message.into(), hint: None })
}

/// What the compiler says about the file that imports the script is about the script's default export.
fn with_entry_named(found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let (entry, mut found): (Vec<_>, Vec<_>) = found.into_iter().partition(|diagnostic| diagnostic.file == ENTRY);
    // TS1000 to TS1999 are of the syntax: then nothing can be said about exports.
    let syntax = found.iter().any(|diagnostic| diagnostic.code.len() == 6 && diagnostic.code.starts_with("TS1"));
    if let Some(first) = entry.first().filter(|_| !syntax) {
        let message = match first.code.as_str() {
            "TS1192" | "TS2613" => "the script has no default export",
            _ => "the script's default export is not a function that can be called with the run's input alone",
        };
        let mut diagnostic = own("RW1001", 1, 1, message);
        diagnostic.hint = Some("write `export default async function main(input) { … return result }`".into());
        found.push(diagnostic);
    }
    found
}

fn hint(diagnostic: &Diagnostic, toolset: &Toolset) -> Option<String> {
    let message = diagnostic.message.as_str();
    let first = message.lines().next().unwrap_or_default();
    let of_promise = first.contains(" on type 'Promise<") || first.contains("Type 'Promise<");
    if of_promise || message.contains("forget to use 'await'") || diagnostic.code == "TS2801" {
        return Some("a tool returns a promise: put `await` before the call".into());
    }
    match diagnostic.code.as_str() {
        "TS2307" | "TS2591" if first.contains("module") || first.contains("node:") => {
            Some("scripts import from \"rewind:tools\" and from nowhere else".into())
        }
        "TS2304" | "TS2552" | "TS2580" | "TS2584" | "TS2591" if !first.contains("Did you mean") => {
            Some("scripts have the ECMAScript library and what \"rewind:tools\" exports; no DOM, no Node.js".into())
        }
        _ => rewind_schema::hint(first, toolset),
    }
}

fn cut(message: &mut String) {
    if message.len() > LONGEST {
        let mut end = LONGEST;
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolset() -> Toolset {
        let policy = serde_json::to_value(rewind_model::Policy::default()).expect("writable");
        serde_json::from_value(serde_json::json!({"v": 1, "host_tools": {
            "lookup_order": {"input_schema": {"type": "object"}, "policy": policy}}}))
        .expect("a toolset")
    }

    #[test]
    fn messages_of_many_lines_are_joined() {
        let output = "script.ts(3,5): error TS2345: Argument of type 'A'.\n  Types differ.\n    Deeper.\nscript.ts(4,1): error TS2304: Cannot find name 'x'.\nnoise\n";
        let found = parse(output, &toolset());
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].column, found[0].code.as_str()), (3, 5, "TS2345"));
        assert_eq!(found[0].message, "Argument of type 'A'.\nTypes differ.\n  Deeper.");
        assert_eq!(found[1].message, "Cannot find name 'x'.");
    }

    #[test]
    fn hints_name_the_nearest_tool_and_the_missing_await() {
        let line = |code, message| format!("script.ts(1,1): error {code}: {message}\n");
        let hint = |code, message| parse(&line(code, message), &toolset())[0].hint.clone().unwrap_or_default();
        assert!(hint("TS2339", "Property 'lookupOrder' does not exist on type '{ }'.").contains("lookup_order"));
        assert!(hint("TS2339", "Property 'status' does not exist on type 'Promise<Order>'.").contains("await"));
        assert!(
            hint("TS2307", "Cannot find module 'fs' or its corresponding type declarations.").contains("rewind:tools")
        );
    }

    #[test]
    fn nobody_is_sent_to_install_what_scripts_cannot_have() {
        let output = "script.ts(1,1): error TS2591: Cannot find name 'process'. Do you need to install type definitions for node? Try `npm i --save-dev @types/node` and then add 'node' to the types field in your tsconfig.\n";
        let found = &parse(output, &toolset())[0];
        assert_eq!(found.message, "Cannot find name 'process'.");
        assert!(found.hint.as_ref().is_some_and(|hint| hint.contains("no Node.js")), "{found:?}");
        let output = "script.ts(1,1): error TS2584: Cannot find name 'document'. Do you need to change your target library? Try changing the 'lib' compiler option to include 'dom'.\n";
        assert_eq!(parse(output, &toolset())[0].message, "Cannot find name 'document'.");
    }

    #[test]
    fn what_is_wrong_with_the_default_export_is_said_of_the_script() {
        let missing = "rewind-entry.ts(1,8): error TS1192: Module '\"/tmp/x/script\"' has no default export.\n";
        let found = parse(missing, &toolset());
        assert_eq!((found[0].code.as_str(), found[0].file.as_str(), found.len()), ("RW1001", "script.ts", 1));
        let with_syntax = format!("script.ts(1,2): error TS1005: ';' expected.\n{missing}");
        let codes: Vec<_> = parse(&with_syntax, &toolset()).into_iter().map(|found| found.code).collect();
        assert_eq!(codes, ["TS1005"]);
    }

    #[test]
    fn the_number_and_the_length_of_messages_are_bounded() {
        let output = format!("script.ts(1,1): error TS2322: {}\n", "é".repeat(10_000)).repeat(200);
        let found = parse(&output, &toolset());
        assert_eq!(found.len(), MOST);
        assert!(found.iter().all(|diagnostic| diagnostic.message.len() <= LONGEST + 3));
    }
}
