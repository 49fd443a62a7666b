use std::convert::Infallible;

use axum::{extract::FromRequestParts, http::request::Parts};

use crate::refusal::Refusal;

/// A request's query. Every parameter is taken out by name; [`Query::finish`] refuses what is left, so
/// that a mistyped filter is not a filter that silently lets everything through.
#[derive(Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Query {
    /// Every value of a parameter that may be repeated.
    pub(crate) fn all(&mut self, name: &str) -> Vec<String> {
        self.0.extract_if(.., |(key, _)| key == name).map(|(_, value)| value).collect()
    }

    /// # Errors
    /// When the parameter is given twice.
    pub(crate) fn one(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        let mut values = self.all(name);
        match values.len() {
            0 | 1 => Ok(values.pop()),
            _ => Err(Refusal::invalid(format!("the query parameter `{name}` is given twice"))),
        }
    }

    /// # Errors
    /// When the parameter is given twice, or `parse` refuses it.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Refusal> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        parse(&text).map(Some).map_err(|error| Refusal::invalid(format!("the query parameter `{name}`: {error}")))
    }

    /// # Errors
    /// When a parameter is left that nobody asked for.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => {
                let name: String = name.chars().take(80).collect();
                Err(Refusal::invalid(format!("there is no query parameter `{name}` here")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        let mut known = query("label=a%3Db&limit=5&label=c");
        assert_eq!(known.all("label"), ["a=b", "c"]);
        assert_eq!(known.parsed("limit", str::parse::<u8>).expect("a number"), Some(5));
        assert!(known.finish().is_ok());
        assert!(query("staus=failed").finish().is_err());
        assert!(query("limit=1&limit=2").one("limit").is_err());
        assert!(query("limit=x").parsed("limit", str::parse::<u8>).is_err());
    }
}
