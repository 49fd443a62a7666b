use std::{collections::BTreeMap, fmt};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use crate::McpError;

/// Where a server is, and what every request to it carries. Credentials are headers like others.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// `http` or `https`: the server's streamable-HTTP endpoint.
    pub url: String,
    pub headers: BTreeMap<String, String>,
}

/// Names the headers, since their values may be credentials, and no query of the URL.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = self.url.parse().map_or_else(|_| "(invalid)".to_owned(), |url| display(&url));
        f.debug_struct("Endpoint")
            .field("url", &url)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// An endpoint that has been checked.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The URL as messages name it.
    pub(crate) display: String,
}

/// Headers that belong to the protocol or to the connection.
const RESERVED: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
    "upgrade",
];

impl Endpoint {
    /// # Errors
    /// [`McpError::InvalidEndpoint`], which names what is wrong and never a header's value.
    pub(crate) fn check(&self) -> Result<Target, McpError> {
        let url: Url = self.url.parse().map_err(|error| invalid(format!("the URL cannot be parsed: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid(format!("{} is neither http nor https", display(&url))));
        }
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for (name, value) in &self.headers {
            let header =
                HeaderName::try_from(name.as_str()).map_err(|_| invalid(format!("{name:?} is no HTTP header name")))?;
            if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-") {
                return Err(invalid(format!("the header {name:?} is set by the protocol; leave it out")));
            }
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
                invalid(format!("the value of the header {name:?} holds a character that HTTP does not allow"))
            })?;
            value.set_sensitive(true);
            if headers.insert(header, value).is_some() {
                return Err(invalid(format!("the header {name:?} is given twice, in different spellings")));
            }
        }
        Ok(Target { display: display(&url), url, headers })
    }
}

fn invalid(reason: String) -> McpError {
    McpError::InvalidEndpoint { reason }
}

/// The URL without user info, query and fragment: those may hold secrets.
fn display(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, headers: &[(&str, &str)]) -> Result<Target, String> {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Endpoint { url: url.into(), headers }.check().map_err(|error| error.to_string())
    }

    #[test]
    fn only_http_is_taken() {
        assert!(check("http://a/mcp", &[]).is_ok());
        for url in ["file:///etc/passwd", "ftp://a/", "mcp", ""] {
            assert!(check(url, &[]).is_err(), "{url}");
        }
    }

    #[test]
    fn a_bad_header_is_named_and_its_value_is_not() {
        let error = check("http://a/", &[("x-key", "s3cret\n")]).err().expect("refused");
        assert!(error.contains("x-key") && !error.contains("s3cret"), "{error}");
        assert!(check("http://a/", &[("x key", "v")]).err().expect("refused").contains("x key"));
        assert!(check("http://a/", &[("Mcp-Session-Id", "v")]).err().expect("refused").contains("Mcp-Session-Id"));
        assert!(check("http://a/", &[("X-A", "1"), ("x-a", "2")]).is_err());
    }

    #[test]
    fn neither_debug_nor_display_shows_a_secret() {
        let endpoint = Endpoint {
            url: "https://user:s3cret@host:8443/mcp?token=s3cret#s3cret".into(),
            headers: BTreeMap::from([("authorization".into(), "Bearer s3cret".into())]),
        };
        let shown = format!("{endpoint:?} {}", endpoint.check().expect("valid").display);
        assert!(shown.contains("https://host:8443/mcp") && shown.contains("authorization"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
