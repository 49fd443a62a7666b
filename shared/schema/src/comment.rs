//! Text that a server wrote, made safe to stand in a comment.

use crate::name::is_invisible;

/// Bytes of one description that the full rendering keeps.
const LONGEST: usize = 8 << 10;
/// Bytes of the sentence that the compact rendering keeps.
const LONGEST_SENTENCE: usize = 160;

/// The lines of `text` for a block comment. Nothing in them ends the comment, and no line is taken
/// for a directive of the compiler (`@ts-ignore`).
pub(crate) fn lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = cut(text, LONGEST)
        .split(['\n', '\r', '\u{2028}', '\u{2029}'])
        .map(|line| harmless(line).trim_end().to_owned())
        .collect();
    // One empty line between paragraphs, none at the ends.
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    lines.drain(..first);
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// `text` on one line.
pub(crate) fn line(text: &str) -> String {
    harmless(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The first sentence of `text`, on one line.
pub(crate) fn sentence(text: &str) -> String {
    let first = text.trim_start().split(['\n', '\r']).next().unwrap_or_default();
    let mut end = first.len();
    for (at, _) in first.match_indices(". ") {
        let before = &first[..at];
        if !["e.g", "i.e", "etc", "vs"].iter().any(|short| before.ends_with(short)) {
            end = at;
            break;
        }
    }
    let sentence = line(&first[..end]);
    let sentence = sentence.trim_end_matches(['.', ':']);
    let kept = cut(sentence, LONGEST_SENTENCE);
    if kept.len() < sentence.len() { format!("{}…", kept.trim_end()) } else { kept.to_owned() }
}

fn harmless(line: &str) -> String {
    let visible: String = line.chars().map(|c| if is_invisible(c) { ' ' } else { c }).collect();
    visible.replace("*/", "*\\/").replace("@ts-", "ts-")
}

/// The longest beginning of `text` of at most `bytes` that ends between characters.
pub(crate) fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_comment() {
        assert_eq!(lines("a */ b\r\n\r\n\r\n@ts-ignore\u{2028}c\n\n"), ["a *\\/ b", "", "ts-ignore", "c"]);
        assert_eq!(line("a\n*/\t b\u{202e}"), "a *\\/ b ");
        assert_eq!(lines(" \n "), [""; 0]);
    }

    #[test]
    fn first_sentences() {
        assert_eq!(sentence("Get it, e.g. by name. More.\nEven more."), "Get it, e.g. by name");
        assert_eq!(sentence("  One line.\nTwo"), "One line");
        assert!(sentence(&"é".repeat(500)).ends_with('…'));
    }
}
