use rewind_model::Toolset;

/// The candidate that `name` was most likely meant to be: the least Damerau-Levenshtein distance,
/// letter case counting little; `None` when nothing is near. The first one wins a tie.
pub fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 128;
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let folded = fold(name);
    let allowed = (folded.chars().count() / 3).max(1);
    candidates
        .filter(|candidate| candidate.len() <= LONGEST && *candidate != name)
        .map(|candidate| (strsim::damerau_levenshtein(&folded, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `perPage`, `per_page` and `per-page` are the same slip.
fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.')).flat_map(char::to_lowercase).collect()
}

/// A hint for a message of the TypeScript compiler that says that a name does not exist: the
/// nearest export, tool or argument name of `toolset`. `None` for other messages, where the message
/// itself suggests one, and where nothing is near.
pub fn hint(message: &str, toolset: &Toolset) -> Option<String> {
    if message.contains("Did you mean") {
        return None;
    }
    let name = missing_name(message)?;
    let found = if message.contains("exported member") {
        nearest(name, toolset.mcp_servers.keys().map(String::as_str).chain(["host", "sleep", "ToolError"]))
    } else if message.starts_with("Property") {
        let tools: Vec<_> = toolset.tools().map(|(tool, _)| tool.name).collect();
        return nearest(name, tools.iter().map(String::as_str)).map(suggest);
    } else {
        let arguments = toolset.tools().filter_map(|(_, tool)| tool.input_schema.get("properties")?.as_object());
        nearest(name, arguments.flat_map(|properties| properties.keys().map(String::as_str)))
    };
    found.map(suggest)
}

fn suggest(name: &str) -> String {
    format!("did you mean `{name}`?")
}

/// The name in `Property 'x' does not exist on type …` (TS2339), `… and 'x' does not exist in type …`
/// (TS2353), and `Module … has no exported member 'x'` (TS2305).
fn missing_name(message: &str) -> Option<&str> {
    let quoted = |text| -> Option<&str> { Some(str::split_once(text, '\'')?.1.split_once('\'')?.0) };
    if let Some((_, after)) = message.split_once("exported member ") {
        return quoted(after);
    }
    let (before, _) = message.split_once("' does not exist ")?;
    Some(before.rsplit_once('\'')?.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["create_issue", "close_issue", "perPage"];
        assert_eq!(nearest("createIssue", names.into_iter()), Some("create_issue"));
        assert_eq!(nearest("crate_issue", names.into_iter()), Some("create_issue"));
        assert_eq!(nearest("per_page", names.into_iter()), Some("perPage"));
        assert_eq!(nearest("delete_repository", names.into_iter()), None);
        assert_eq!(nearest(&"a".repeat(1_000_000), names.into_iter()), None);
    }

    #[test]
    fn messages_of_the_compiler_are_understood() {
        let policy = serde_json::to_value(rewind_model::Policy::default()).expect("writable");
        let toolset: Toolset =
            serde_json::from_value(json!({"v": 1, "mcp_servers": {"github": {"url": "http://x/", "tools": {
            "create_issue": {"input_schema": {"properties": {"perPage": {}}}, "policy": policy}}}}}))
            .expect("a toolset");
        let hint = |message| hint(message, &toolset);
        assert_eq!(
            hint("Property 'createIssue' does not exist on type '{ a: 1 }'.").as_deref(),
            Some("did you mean `create_issue`?")
        );
        assert_eq!(
            hint("Object literal may only specify known properties, and 'per_page' does not exist in type 'X'.")
                .as_deref(),
            Some("did you mean `perPage`?")
        );
        assert_eq!(
            hint("Module '\"rewind:tools\"' has no exported member 'gitub'.").as_deref(),
            Some("did you mean `github`?")
        );
        assert_eq!(hint("Type 'string' is not assignable to type 'number'."), None);
    }
}
