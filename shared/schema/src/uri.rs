//! References between the schemas of one document, by RFC 3986. Nothing is ever fetched.

/// `reference` (without a fragment) as seen from `base`.
pub(crate) fn join(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let scheme = base.find(':').map_or(0, |at| at + 1);
    if reference.starts_with("//") {
        return format!("{}{reference}", &base[..scheme]);
    }
    let authority = match base[scheme..].strip_prefix("//") {
        Some(rest) => scheme + 2 + rest.find('/').unwrap_or(rest.len()),
        None => scheme,
    };
    let (origin, path) = base.split_at(authority);
    let path = path.split('?').next().unwrap_or_default();
    let joined = match reference.starts_with('/') {
        true => reference.to_owned(),
        false => format!("{}{reference}", &path[..path.rfind('/').map_or(0, |at| at + 1)]),
    };
    let rooted = if joined.starts_with('/') || origin.ends_with(':') { joined } else { format!("/{joined}") };
    format!("{origin}{}", without_dots(&rooted))
}

fn has_scheme(reference: &str) -> bool {
    let scheme = reference.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    })
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." && kept.len() > 1 {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    kept.join("/")
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn references_are_joined() {
        for (base, reference, joined) in [
            ("http://a/b/c", "d", "http://a/b/d"),
            ("http://a/b/c", "/d", "http://a/d"),
            ("http://a/b/c", "../d", "http://a/d"),
            ("http://a/b/", "./d/", "http://a/b/d/"),
            ("http://a", "d", "http://a/d"),
            ("http://a/b", "//c/d", "http://c/d"),
            ("http://a/b", "urn:x:y", "urn:x:y"),
            ("http://a/b", "", "http://a/b"),
            ("schema:///", "item.json", "schema:///item.json"),
            ("schema:///", "/item", "schema:///item"),
        ] {
            assert_eq!(join(base, reference), joined, "{base} {reference}");
        }
    }
}
