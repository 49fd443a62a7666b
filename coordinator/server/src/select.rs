//! Which of a server's tools a harness wants: `include` and `exclude`.

use std::collections::BTreeSet;

use rewind_model::{ListedTool, MalformedTool, RegisterMcpServer};
use rewind_schema::Quarantine;

/// The wanted ones of `tools`. What is wrong with entries that are not wanted is nobody's concern; a name
/// in `include` that the server does not list is said.
pub(crate) fn select(
    export: &str,
    wanted: &RegisterMcpServer,
    tools: Vec<ListedTool>,
    malformed: Vec<MalformedTool>,
    quarantine: &mut Quarantine,
) -> Vec<ListedTool> {
    let is_wanted = |name: &str| {
        let named_by = |patterns: &BTreeSet<String>| patterns.iter().any(|pattern| matches(pattern, name));
        wanted.include.as_ref().is_none_or(named_by) && !named_by(&wanted.exclude)
    };
    let listed = || tools.iter().map(|tool| &tool.name).chain(malformed.iter().filter_map(|entry| entry.name.as_ref()));
    for pattern in wanted.include.iter().flatten() {
        if !listed().any(|name| matches(pattern, name)) {
            quarantine.tool(export, pattern, "`include` names it, and the server lists no such tool");
        }
    }
    for entry in &malformed {
        if entry.name.as_deref().is_none_or(is_wanted) {
            quarantine.malformed(export, entry);
        }
    }
    tools.into_iter().filter(|tool| is_wanted(&tool.name)).collect()
}

/// `*` stands for any characters, also for none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or(("", rest), |(middle, last)| (middle, last));
    let Some(end) = name.len().checked_sub(last.len()) else { return false };
    if !name.ends_with(last) {
        return false;
    }
    name = &name[..end];
    // Each part at its first place leaves the most room for the next one.
    middle.split('*').all(|part| match name.find(part) {
        Some(at) => {
            name = &name[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name) in [
            ("a", "a"),
            ("a*", "a"),
            ("a*", "abc"),
            ("*", ""),
            ("*c", "abc"),
            ("a*c", "ac"),
            ("a*b*c", "axxbyyc"),
            ("*b*", "abc"),
            ("é*", "éa"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a", "ab"), ("a*", "ba"), ("*c", "ca"), ("ab*bc", "abc"), ("a*b*c", "acb"), ("", "a"), ("*é", "e")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_taken_and_judged() {
        let tool = |name: &str| ListedTool {
            name: name.into(),
            title: None,
            description: None,
            input_schema: json!({}),
            output_schema: None,
            annotations: None,
        };
        let malformed =
            |name: Option<&str>| MalformedTool { position: 0, name: name.map(Into::into), reason: "x".into() };
        let wanted = RegisterMcpServer {
            include: Some(["get_*".into(), "gone".into()].into()),
            exclude: ["get_secret".into()].into(),
            ..RegisterMcpServer::default()
        };
        let mut quarantine = Quarantine::default();
        let tools = vec![tool("get_a"), tool("get_secret"), tool("delete")];
        let bad = vec![malformed(Some("delete_b")), malformed(Some("get_b")), malformed(None)];
        let selected = select("s", &wanted, tools, bad, &mut quarantine);
        assert_eq!(selected.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["get_a"]);
        let warned: Vec<_> = quarantine.into_warnings().into_iter().map(|warning| warning.tool).collect();
        assert_eq!(warned, ["s.(entry 0)", "s.get_b", "s.gone"]);
    }
}
