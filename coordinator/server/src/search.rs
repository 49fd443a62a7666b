//! Finds tools of a toolset by what they are called and what they are for.

use std::fmt;

use bm25::{Document, SearchEngine, SearchEngineBuilder, Tokenizer};
use rewind_model::{Tool, ToolName, Toolset};

/// Bytes of a description that count: what comes later is rarely what the tool is for.
const DESCRIBED: usize = 2 << 10;
/// How much more a word of the name says than one of the description.
const NAME_WEIGHT: usize = 3;
/// Bytes of a query that are read.
pub(crate) const LONGEST_QUERY: usize = 1 << 10;

/// An index of a toolset's tools, ranked by BM25.
pub(crate) struct Search {
    names: Vec<ToolName>,
    engine: SearchEngine<usize, u32, Words>,
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Search").field("tools", &self.names.len()).finish_non_exhaustive()
    }
}

impl Search {
    pub(crate) fn new(toolset: &Toolset) -> Self {
        let mut names = Vec::new();
        let mut documents = Vec::new();
        for (name, tool) in toolset.tools() {
            documents.push(Document::new(names.len(), document(&name, tool)));
            names.push(name);
        }
        let engine = SearchEngineBuilder::with_tokenizer_and_documents(Words, documents).build();
        Self { names, engine }
    }

    /// The best hits first, equal ones by name.
    pub(crate) fn find(&self, query: &str, limit: usize) -> Vec<(&ToolName, f32)> {
        let query = &query[..query.floor_char_boundary(LONGEST_QUERY)];
        let mut hits: Vec<_> = self.engine.search(query, None).into_iter().collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.document.id.cmp(&b.document.id)));
        hits.into_iter().take(limit).map(|hit| (&self.names[hit.document.id], hit.score)).collect()
    }
}

fn document(name: &ToolName, tool: &Tool) -> String {
    let mut text = String::new();
    let description = tool.description.as_deref().unwrap_or_default();
    let own_name = std::iter::repeat_n(name.name.as_str(), NAME_WEIGHT);
    let texts = [name.export.as_str(), tool.title.as_deref().unwrap_or_default()];
    let described = &description[..description.floor_char_boundary(DESCRIBED)];
    let arguments = tool.input_schema.get("properties").and_then(|properties| properties.as_object());
    let arguments = arguments.into_iter().flatten().map(|(name, _)| name.as_str());
    for part in own_name.chain(texts).chain([described]).chain(arguments) {
        text.push_str(part);
        text.push(' ');
    }
    text
}

/// Words of names and of English: `createIssue`, `create_issue` and "Creates issues" have the same ones.
#[derive(Debug, Clone, Copy)]
struct Words;

impl Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        let mut before = None;
        for c in text.chars() {
            let hump =
                c.is_uppercase() && before.is_some_and(|before: char| before.is_lowercase() || before.is_numeric());
            if hump || !c.is_alphanumeric() {
                take(&mut word, &mut words);
            }
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
            }
            before = Some(c);
        }
        take(&mut word, &mut words);
        words
    }
}

fn take(word: &mut String, words: &mut Vec<String>) {
    const EMPTY: [&str; 19] = [
        "a", "an", "and", "are", "as", "at", "by", "for", "from", "in", "is", "it", "of", "on", "or", "that", "the",
        "to", "with",
    ];
    let word = std::mem::take(word);
    if !word.is_empty() && !EMPTY.contains(&word.as_str()) {
        words.push(stem(&word).to_owned());
    }
}

/// Without the endings that tell "issues" from "issue" and "creates", "created", "creating" from "create". Both
/// sides of a search go through it, so that it need not find a real word.
fn stem(word: &str) -> &str {
    for ending in ["ing", "ies", "ied", "es", "ed", "s", "e", "y"] {
        if let Some(stem) = word.strip_suffix(ending).filter(|stem| stem.len() >= 3) {
            return stem;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn toolset() -> Toolset {
        let tool = |description: &str, arguments: &[&str]| {
            let properties: serde_json::Map<_, _> =
                arguments.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            json!({"description": description, "input_schema": {"properties": properties}, "policy": rewind_model::Policy::default()})
        };
        serde_json::from_value(json!({"v": 1, "mcp_servers": {"github": {"url": "http://x/", "tools": {
            "create_issue": tool("Creates a new issue in a repository.", &["title", "body"]),
            "list_issues": tool("Lists the issues of a repository.", &["state"]),
            "merge_pull_request": tool("Merges a pull request.", &["merge_method"]),
            "searchCode": tool("Finds source text in all repositories.", &["query"]),
        }}}}))
        .expect("a toolset")
    }

    fn found(query: &str) -> Vec<String> {
        Search::new(&toolset()).find(query, 10).into_iter().map(|(name, _)| name.to_string()).collect()
    }

    #[test]
    fn names_and_descriptions_are_searched_by_words() {
        assert_eq!(found("create issue")[0], "github.create_issue");
        assert_eq!(found("listing an issue")[0], "github.list_issues");
        assert_eq!(found("merging")[0], "github.merge_pull_request");
        assert_eq!(found("search code"), ["github.searchCode"]);
        assert_eq!(found("merge_method"), ["github.merge_pull_request"]);
        assert_eq!(found("repository").len(), 3);
    }

    #[test]
    fn nothing_is_found_by_nothing() {
        for query in ["", "the", "!!!", "weather", &"é".repeat(10_000)] {
            assert_eq!(found(query), [""; 0], "{query}");
        }
        let empty = Search::new(&Toolset::default());
        assert!(empty.find("x", 10).is_empty());
    }
}
