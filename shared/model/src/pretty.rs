//! JSON for people: the very text, laid out over lines, so that a number that no double holds stays what it is.

/// Lays valid JSON out, two spaces a level, with a line end after it.
pub(crate) fn pretty(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json.trim_ascii_start();
    while let Some(c) = rest.chars().next() {
        let token = if c == '"' { string(rest) } else { &rest[..c.len_utf8()] };
        rest = rest[token.len()..].trim_ascii_start();
        match c {
            '{' | '[' if rest.starts_with(['}', ']']) => {
                text.push(c);
                text.push_str(&rest[..1]);
                rest = rest[1..].trim_ascii_start();
            }
            '{' | '[' => {
                depth += 1;
                text.push(c);
                line(&mut text, depth);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            _ => text.push_str(token),
        }
    }
    text.push('\n');
    text
}

/// The same text without white space between its tokens.
pub(crate) fn compact(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut rest = json.trim_ascii_start();
    while let Some(c) = rest.chars().next() {
        let token = if c == '"' { string(rest) } else { &rest[..c.len_utf8()] };
        text.push_str(token);
        rest = rest[token.len()..].trim_ascii_start();
    }
    text
}

fn line(text: &mut String, depth: usize) {
    text.push('\n');
    (0..depth).for_each(|_| text.push_str("  "));
}

/// The string that `text` begins with, its quotes included.
fn string(text: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return &text[..=at],
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_differs() {
        let json = r#"{"a":[1,{}, [ ] ,12345678901234567890.10],"b c":" x\" : , { \\","d":{"e":null}}"#;
        let laid_out = pretty(json);
        assert_eq!(
            laid_out,
            concat!(
                "{\n  \"a\": [\n    1,\n    {},\n    [],\n    12345678901234567890.10\n  ],\n",
                "  \"b c\": \" x\\\" : , { \\\\\",\n  \"d\": {\n    \"e\": null\n  }\n}\n"
            )
        );
        assert_eq!(pretty(&laid_out), laid_out);
        assert_eq!(compact(&laid_out), json.replace(" [ ] ,", "[],").replace(", {},", ",{},").replace("1, ", "1,"));
        assert_eq!(pretty("7"), "7\n");
    }
}
