//! Where events are sent.

use std::fmt;

use url::Url;

/// Bytes of a URL.
pub(crate) const LONGEST_URL: usize = 2_048;

/// An http(s) URL. Of its path and query, which may hold a token, nothing is shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint(Url);

impl Endpoint {
    /// # Errors
    /// A message for people, which repeats nothing of the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_URL {
            return Err(format!("a URL of at most {LONGEST_URL} bytes"));
        }
        match text.parse::<Url>() {
            Ok(url) if !matches!(url.scheme(), "http" | "https") => Err("an http or https URL".into()),
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                Err("a URL without user and password: requests are signed".into())
            }
            Ok(url) if url.as_str().len() > LONGEST_URL => Err(format!("a URL of at most {LONGEST_URL} bytes")),
            Ok(url) => Ok(Self(url)),
            Err(error) => Err(format!("no URL: {error}")),
        }
    }

    /// The whole URL, for the request itself and for the stream; ASCII, on one line.
    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    /// Scheme, host and port: what logs and lists show.
    pub(crate) fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_origin_is_shown() {
        let endpoint = Endpoint::parse("https://hooks.example.com:8443/t0ken?key=s3cret").expect("a URL");
        assert_eq!(format!("{endpoint:?}"), "https://hooks.example.com:8443");
        assert_eq!(endpoint.url().path(), "/t0ken");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_being_shown() {
        for bad in ["ftp://s3cret", "http://me:s3cret@host/", "s3cret", &format!("http://{}", "s3cret".repeat(400))] {
            let why = Endpoint::parse(bad).expect_err(bad);
            assert!(!why.contains("s3cret"), "{why}");
        }
        // One line, whatever was given.
        assert_eq!(Endpoint::parse("http://a/b\nc\u{e9}").expect("a URL").url().as_str(), "http://a/bc%C3%A9");
    }
}
