//! Names and literals of TypeScript.

use std::fmt::Write as _;

/// Words that a declaration cannot be named with: ECMAScript's reserved words, also those of strict
/// code and modules.
const RESERVED: &[&str] = &[
    "arguments",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "enum",
    "eval",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "implements",
    "import",
    "in",
    "instanceof",
    "interface",
    "let",
    "new",
    "null",
    "package",
    "private",
    "protected",
    "public",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

/// ASCII only: which other letters make an identifier depends on the version of Unicode.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b'$';
    bytes.next().is_some_and(starts) && bytes.all(|b| starts(b) || b.is_ascii_digit())
}

/// Can `export const name` be written?
pub(crate) fn is_binding(name: &str) -> bool {
    is_identifier(name) && !RESERVED.contains(&name)
}

/// `name` as the member of a type, quoted where it has to be.
pub(crate) fn member(name: &str) -> String {
    // Modifiers and accessors: legal without quotes, but easily misread.
    let misread = matches!(name, "new" | "get" | "set" | "readonly" | "constructor" | "__proto__");
    if is_identifier(name) && !misread { name.to_owned() } else { string(name) }
}

/// A string literal. What a reader cannot see (controls, line separators, text direction) is escaped.
pub(crate) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_invisible(c) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    write!(out, "\\u{unit:04x}").expect("a String takes every write");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Controls, separators that end a line, and the characters that change the direction of text.
pub(crate) fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// `text` as the name of a type: `label-ref` becomes `LabelRef`. Empty when nothing in it is a letter.
/// The first letter is upper-case, which none of TypeScript's own type names is.
pub(crate) fn type_name(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut out = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        if out.is_empty() && first.as_bytes()[0].is_ascii_digit() {
            out.push('T');
        }
        out.push_str(&first.to_ascii_uppercase());
        out.push_str(rest);
        if out.len() > LONGEST {
            out.truncate(LONGEST);
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_identifiers_stay_unquoted() {
        for (name, written) in [
            ("create_issue", "create_issue"),
            ("resolve-library-id", "\"resolve-library-id\""),
            ("a.b", "\"a.b\""),
            ("1st", "\"1st\""),
            ("", "\"\""),
            ("delete", "delete"),
            ("__proto__", "\"__proto__\""),
            ("é", "\"é\""),
            ("a\"b\\c\nd\u{2028}", "\"a\\\"b\\\\c\\nd\\u2028\""),
            ("\u{e0001}", "\"\\udb40\\udc01\""),
        ] {
            assert_eq!(member(name), written);
        }
    }

    #[test]
    fn type_names() {
        assert_eq!(type_name("label-ref"), "LabelRef");
        assert_eq!(type_name("com.example/Foo[Bar]"), "ComExampleFooBar");
        assert_eq!(type_name("2nd"), "T2nd");
        assert_eq!(type_name("Ünï"), "N");
        assert_eq!(type_name("--"), "");
    }
}
