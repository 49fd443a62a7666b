/// The keys that an index signature is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Index {
    Every,
    /// Literal text, and `*` for any: `x-*` is `` `x-${string}` ``.
    Template(String),
}

impl Index {
    /// `^x-` and `a.*b` are what TypeScript can write; of other patterns it cannot tell which keys match.
    pub(crate) fn of_pattern(pattern: &str) -> Self {
        let start = pattern.strip_prefix('^');
        let rest = start.unwrap_or(pattern);
        let end = rest.strip_suffix('$').filter(|rest| !rest.ends_with('\\'));
        let mut template = String::from(if start.is_some() { "" } else { "*" });
        let mut chars = end.unwrap_or(rest).chars().peekable();
        while let Some(c) = chars.next() {
            let c = match c {
                '.' if matches!(chars.peek(), Some('*' | '+')) => {
                    chars.next();
                    '*'
                }
                '\\' => match chars.next() {
                    Some(c @ ('.' | '-' | '/' | '_')) => c,
                    _ => return Index::Every,
                },
                c if c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | ':' | '@' | ' ') => c,
                _ => return Index::Every,
            };
            // Which of two texts a quantifier is about, a template does not know.
            if matches!(chars.peek(), Some('*' | '+' | '?' | '{')) {
                return Index::Every;
            }
            template.push(c);
        }
        if end.is_none() {
            template.push('*');
        }
        while template.contains("**") {
            template = template.replace("**", "*");
        }
        // A single name is no key of an index signature, unless it can be a member.
        if !template.contains('*') && pattern.len() != template.len() + 2 {
            Index::Every
        } else {
            Index::Template(template)
        }
    }

    /// The only name that `pattern`, whose keys these are, matches.
    pub(crate) fn single<'p>(&self, pattern: &'p str) -> Option<&'p str> {
        let name = pattern.strip_prefix('^')?.strip_suffix('$')?;
        matches!(self, Index::Template(template) if template == name && !name.contains('*')).then_some(name)
    }

    pub(crate) fn covers(&self, name: &str) -> bool {
        match self {
            Index::Every => true,
            Index::Template(template) => glob(template, name),
        }
    }

    /// Is every key of `other` one of these?
    pub(crate) fn includes(&self, other: &Index) -> bool {
        match (self, other) {
            (Index::Every, _) => true,
            (_, Index::Every) => false,
            (Index::Template(own), Index::Template(other)) => glob(own, other),
        }
    }

    /// As TypeScript writes it.
    pub(crate) fn text(&self) -> String {
        match self {
            Index::Every => "string".to_owned(),
            Index::Template(template) => format!("`{}`", template.replace('*', "${string}")),
        }
    }
}

/// Does `template` match `text`, a `*` of which only a `*` does?
fn glob(template: &str, text: &str) -> bool {
    let mut parts = template.split('*');
    let (first, last) = (parts.next().unwrap_or_default(), template.rsplit('*').next().unwrap_or_default());
    if !template.contains('*') {
        return template == text;
    }
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let middle: Vec<&str> = parts.collect();
    for part in &middle[..middle.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_typescript_can_write() {
        for (pattern, text) in [
            ("^x-", "`x-${string}`"),
            ("^x-.*$", "`x-${string}`"),
            ("f.*o", "`${string}f${string}o${string}`"),
            ("_id$", "`${string}_id`"),
            ("^name$", "`name`"),
            ("^á", "`á${string}`"),
            ("", "`${string}`"),
            ("^[a-z]+$", "string"),
            ("ab*", "string"),
            ("^a\\d", "string"),
            ("^a|b", "string"),
            ("f.o", "string"),
        ] {
            assert_eq!(Index::of_pattern(pattern).text(), text, "{pattern}");
        }
    }

    #[test]
    fn templates_within_templates() {
        let index = |text: &str| Index::Template(text.into());
        assert!(
            index("x-*").covers("x-a") && index("x-*").includes(&index("x-a*")) && index("*a*").includes(&index("*ba"))
        );
        assert!(!index("x-a*").includes(&index("x-*")) && !index("a*b").covers("abc") && !index("ab*ba").covers("aba"));
    }
}
