//! A look at a script before the compiler sees it: how deep it nests, and what its comments ask for.
//!
//! The compiler takes about cubic time on nested array literals (3,000 levels: 13 s), so depth is
//! bounded first. This is no parser: it knows strings, template literals, comments and (by what stands
//! before the slash) regular expressions. Where it errs, the compiler's limits of time and memory hold.

use rewind_model::Diagnostic;

use super::diagnostics::own;

/// Brackets of any kind, one inside the other.
const DEEPEST: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Diagnostic>,
    pub(super) warnings: Vec<Diagnostic>,
}

pub(super) fn scan(source: &str) -> Findings {
    let mut scanner = Scanner {
        source,
        rest: source,
        line: 1,
        column: 1,
        open: Vec::new(),
        before: None,
        found: Findings::default(),
    };
    while scanner.step() {}
    scanner.found
}

struct Scanner<'s> {
    source: &'s str,
    rest: &'s str,
    line: u32,
    /// In UTF-16 code units, from 1.
    column: u32,
    /// Brackets that are open. A `` ` `` stands for a template literal whose `${…}` the scanner is in.
    open: Vec<char>,
    /// The last character of code, which tells a division from a regular expression.
    before: Option<char>,
    found: Findings,
}

impl Scanner<'_> {
    /// One character of code, or one whole string, comment or regular expression; `false` at the end.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest.chars().next() else { return false };
        if self.rest.starts_with("//") {
            return self.line_comment();
        }
        if self.rest.starts_with("/*") {
            return self.block_comment();
        }
        match next {
            '"' | '\'' => self.string(next),
            '`' => {
                self.bump();
                self.template();
            }
            '/' if self.regex_may_start() => self.regex(),
            'I' if self.is_intl() => {
                let message = "scripts have no `Intl`: it differs from machine to machine, and a run may be replayed on another one";
                self.found.errors.push(own("RW1006", self.line, self.column, message));
                self.bump();
            }
            '(' | '[' | '{' => return self.open(next),
            ')' | ']' => {
                self.open.pop();
                self.bump();
            }
            '}' => {
                self.bump();
                if self.open.pop() == Some('`') {
                    self.template();
                }
            }
            _ => {
                self.bump();
            }
        }
        if !next.is_whitespace() {
            self.before = Some(next);
        }
        true
    }

    fn bump(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next()?;
        self.rest = chars.as_str();
        if next == '\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += u32::try_from(next.len_utf16()).unwrap_or(1);
        }
        Some(next)
    }

    /// `false` when this is one level too many: what follows does not matter any more.
    fn open(&mut self, bracket: char) -> bool {
        if self.open.len() == DEEPEST {
            let message = format!("the script nests brackets over {DEEPEST} levels deep");
            self.found.errors.push(own("RW1002", self.line, self.column, message));
            return false;
        }
        self.open.push(bracket);
        self.bump();
        self.before = Some(bracket);
        true
    }

    fn string(&mut self, quote: char) {
        self.bump();
        while let Some(next) = self.bump() {
            match next {
                '\\' => {
                    self.bump();
                }
                // A string ends with its line at the latest; the compiler reports the missing quote.
                '\n' => return,
                next if next == quote => return,
                _ => {}
            }
        }
    }

    /// The text of a template literal, up to its end or to a `${`.
    fn template(&mut self) {
        while let Some(next) = self.bump() {
            match next {
                '\\' => {
                    self.bump();
                }
                '`' => return,
                '$' if self.rest.starts_with('{') => {
                    // Stays where it is when it is too deep, and the scan ends there.
                    if self.open('{')
                        && let Some(last) = self.open.last_mut()
                    {
                        *last = '`';
                    } else {
                        self.rest = "";
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    /// Does the global `Intl` stand here? A member or a part of a longer name is another thing.
    fn is_intl(&self) -> bool {
        let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let before = &self.source[..self.source.len() - self.rest.len()];
        let member = before.trim_end().ends_with('.') && !before.trim_end().ends_with("...");
        let begins = !member && !before.ends_with(name);
        begins && self.rest.strip_prefix("Intl").is_some_and(|rest| rest.starts_with('.'))
    }

    fn regex_may_start(&self) -> bool {
        self.before.is_none_or(|before| "(,=:[!&|?{};+-*%<>~^".contains(before))
    }

    fn regex(&mut self) {
        self.bump();
        let mut in_class = false;
        while let Some(next) = self.bump() {
            match next {
                '\\' => {
                    self.bump();
                }
                '[' => in_class = true,
                ']' => in_class = false,
                '\n' => return,
                '/' if !in_class => return,
                _ => {}
            }
        }
    }

    fn line_comment(&mut self) -> bool {
        let (line, column) = (self.line, self.column);
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        let (comment, after) = self.rest.split_at(end);
        self.rest = after;
        if comment.starts_with("///") && comment.trim_start_matches('/').trim_start().starts_with("<reference") {
            let message = "a script has no `/// <reference>`: there is nothing that it could refer to";
            self.found.errors.push(own("RW1005", line, column, message));
        }
        self.directive(comment, line, column);
        true
    }

    fn block_comment(&mut self) -> bool {
        let (line, column) = (self.line, self.column);
        let rest = self.rest;
        let end = rest[2..].find("*/").map_or(rest.len(), |end| end + 4);
        let (comment, after) = rest.split_at(end);
        while self.rest.len() > after.len() {
            self.bump();
        }
        self.directive(comment, line, column);
        true
    }

    fn directive(&mut self, comment: &str, line: u32, column: u32) {
        const DIRECTIVES: [&str; 3] = ["@ts-ignore", "@ts-nocheck", "@ts-expect-error"];
        for directive in DIRECTIVES.into_iter().filter(|directive| comment.contains(directive)) {
            let message = format!("`{directive}` keeps errors from being found before the script runs");
            if self.found.warnings.len() < 20 {
                self.found.warnings.push(own("RW1003", line, column, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(source: &str) -> Vec<String> {
        scan(source).errors.into_iter().map(|error| format!("{} {}:{}", error.code, error.line, error.column)).collect()
    }

    #[test]
    fn depth_is_bounded_whatever_the_bracket() {
        for (open, close) in [("[", "]"), ("(", ")"), ("{", "}"), ("`${", "}`"), ("[{(", ")}]")] {
            let nested = |levels: usize| format!("x = {}{}", open.repeat(levels), close.repeat(levels));
            let each = open.matches(['[', '(', '{']).count();
            assert_eq!(errors(&nested(200 / each)), [] as [String; 0], "{open}");
            assert_eq!(errors(&nested(200 / each + 1)).len(), 1, "{open}");
            // Flat is not deep.
            assert_eq!(errors(&format!("{open}{close};").repeat(1_000)), [] as [String; 0], "{open}");
        }
        assert_eq!(errors(&format!("a\n{}", "[".repeat(300))), ["RW1002 2:201"]);
    }

    #[test]
    fn what_is_no_code_does_not_nest() {
        let many = "[".repeat(300);
        for source in [
            format!("// {many}"),
            format!("/* {many} */"),
            format!("'{many}'"),
            format!("\"\\\"{many}\""),
            format!("`{many}`"),
            format!("x = /[{many}]/"),
            format!("`${{1}} {many}`"),
            format!("x = /[/\"]/; y = '{many}'"),
        ] {
            assert_eq!(errors(&source), [] as [String; 0], "{source}");
        }
        for source in
            [format!("'a'; {many}"), format!("a / 2; {many} / 1"), format!("/* */ {many}"), format!("`a` + {many}")]
        {
            assert_eq!(errors(&source).len(), 1, "{source}");
        }
    }

    #[test]
    fn directives_are_found_in_comments_only() {
        let found = scan("// @ts-nocheck\nconst s = '@ts-ignore';\n/* é\n@ts-expect-error */ x([");
        let places: Vec<_> = found.warnings.iter().map(|warning| (warning.line, warning.column)).collect();
        assert_eq!(places, [(1, 1), (3, 1)]);
        assert_eq!(errors("/// <reference lib=\"dom\" />\n"), ["RW1005 1:1"]);
    }

    #[test]
    fn intl_is_refused_where_it_is_the_global() {
        assert_eq!(errors("const f =\n  new Intl.NumberFormat('de');"), ["RW1006 2:7"]);
        for source in ["x.Intl.y", "MyIntl.x", "'Intl.x'", "// Intl.x", "Intl", "{ Intl: 1 }"] {
            assert_eq!(errors(source), [] as [String; 0], "{source}");
        }
    }

    #[test]
    fn any_text_is_scanned_to_its_end() {
        for source in ["", "/", "/*", "//", "`${", "'", "\\", "é`", "/*/", "}}}", "/[/", "`\\"] {
            assert_eq!(errors(source), [] as [String; 0], "{source:?}");
        }
    }
}
