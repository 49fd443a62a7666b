//! Where JSON's text and JavaScript's values differ: large integers and lone surrogates.

/// A JSON text whose integers that a double would round are strings instead, each beginning with
/// `mark`, so that the engine's own parser can read it and the prelude can make `BigInt`s of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) text: String,
    /// A text that nothing else in the JSON begins with.
    pub(crate) mark: String,
}

/// `None` when every number of `json` can be read as a double, which is nearly always.
pub(crate) fn mark_large_integers(json: &str) -> Option<Marked> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    let bytes = json.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at),
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    at += 1;
                }
                if rounds(&json[start..at]) {
                    found.push((start, at));
                }
            }
            _ => at += 1,
        }
    }
    if found.is_empty() {
        return None;
    }
    // The counter ends: a text of n bytes cannot hold n + 1 different marks.
    let mark = (0..).map(|n: u32| format!("~{n}:")).find(|mark| !json.contains(mark.as_str()))?;
    let mut text = String::with_capacity(json.len() + found.len() * (mark.len() + 2));
    let mut copied = 0;
    for (start, end) in found {
        text.push_str(&json[copied..start]);
        text.extend(["\"", &mark, &json[start..end], "\""]);
        copied = end;
    }
    text.push_str(&json[copied..]);
    Some(Marked { text, mark })
}

/// Would the integer come back as another text after a double has held it? Fractions and exponents
/// are left to the double, as JSON.parse does.
fn rounds(number: &str) -> bool {
    number.len() > 15
        && !number.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'))
        && number.parse::<f64>().is_ok_and(|double| double.to_string() != number)
}

/// The index after the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    at
}

/// `json` with U+FFFD for each surrogate that has no partner: JavaScript's strings may hold one,
/// UTF-8 cannot, and readers of JSON refuse its escape.
pub(crate) fn well_formed(mut json: String) -> String {
    let escape = |text: &str, at: usize| -> Option<u16> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        at += found;
        match escape(&json, at) {
            Some(0xd800..=0xdbff) => {
                if matches!(escape(&json, at + 6), Some(0xdc00..=0xdfff)) {
                    at += 12;
                    continue;
                }
                json.replace_range(at..at + 6, "\\ufffd");
                at += 6;
            }
            Some(0xdc00..=0xdfff) => {
                json.replace_range(at..at + 6, "\\ufffd");
                at += 6;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_that_would_change_are_marked() {
        for kept in [
            "9007199254740991",
            "9007199254740992",
            "10000000000000000000000",
            "1.5e300",
            "\"12345678901234567890123\"",
            "0.12345678901234567890123",
            "{\"a\\\"12345678901234567890123\":1}",
        ] {
            assert_eq!(mark_large_integers(kept), None, "{kept}");
        }
        assert_eq!(
            mark_large_integers("[9007199254740993,{\"~0:\":-12345678901234567890}]"),
            Some(Marked {
                text: "[\"~1:9007199254740993\",{\"~0:\":\"~1:-12345678901234567890\"}]".into(),
                mark: "~1:".into()
            })
        );
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_kept() {
        for (given, expected) in [
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ude00\ud83dx""#, r#""\ufffd\ufffdx""#),
            (r#""\\ud83d é""#, r#""\\ud83d é""#),
        ] {
            assert_eq!(well_formed(given.into()), expected, "{given}");
        }
    }
}
