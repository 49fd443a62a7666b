use std::{collections::BTreeMap, fmt};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use rewind_model::Transport;
use url::Url;

use crate::{McpError, error::excerpt};

/// Where a server is. Two that are equal are the same server, reached in the same way.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    Http {
        /// `http` or `https`: the server's streamable-HTTP endpoint.
        url: String,
        /// What every request carries. Credentials are headers like others.
        headers: BTreeMap<String, String>,
    },
    /// A process that the client starts and talks to over its stdin and stdout.
    Stdio {
        /// A path, or a name that `PATH` has. No shell reads it.
        command: String,
        args: Vec<String>,
        /// All that its environment has besides this process's `PATH` and `HOME`.
        env: BTreeMap<String, String>,
    },
}

impl Endpoint {
    /// Streamable HTTP without headers.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), headers: BTreeMap::new() }
    }
}

impl From<Transport<'_>> for Endpoint {
    fn from(transport: Transport<'_>) -> Self {
        match transport {
            Transport::Http { url, headers } => Self::Http { url: url.to_owned(), headers: headers.clone() },
            Transport::Stdio { command, args, env } => {
                Self::Stdio { command: command.to_owned(), args: args.to_vec(), env: env.clone() }
            }
        }
    }
}

/// Names headers and variables, since their values may be credentials, and neither the URL's query nor
/// the arguments, for the same reason.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { url, headers } => {
                let url = url.parse().map_or_else(|_| "(invalid)".to_owned(), |url| display(&url));
                f.debug_struct("Http").field("url", &url).field("headers", &names(headers)).finish()
            }
            Self::Stdio { command, args, env } => f
                .debug_struct("Stdio")
                .field("command", command)
                .field("args", &args.len())
                .field("env", &names(env))
                .finish(),
        }
    }
}

fn names(values: &BTreeMap<String, String>) -> Vec<&String> {
    values.keys().collect()
}

/// An endpoint that has been checked.
#[derive(Clone)]
pub(crate) enum Target {
    Http(HttpTarget),
    Stdio(Program),
}

#[derive(Clone)]
pub(crate) struct HttpTarget {
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    /// The URL as messages name it.
    pub(crate) display: String,
}

/// A command that can be started.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    /// The command as messages name it: without its arguments, which may hold secrets.
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
    /// [`McpError::InvalidEndpoint`], which names what is wrong and never a header's or a variable's value.
    pub(crate) fn check(&self) -> Result<Target, McpError> {
        match self {
            Self::Http { url, headers } => check_http(url, headers).map(Target::Http),
            Self::Stdio { command, args, env } => check_program(command, args, env).map(Target::Stdio),
        }
    }
}

fn check_http(url: &str, headers: &BTreeMap<String, String>) -> Result<HttpTarget, McpError> {
    let url: Url = url.parse().map_err(|error| invalid(format!("the URL cannot be parsed: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("{} is neither http nor https", display(&url))));
    }
    let mut checked = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let header =
            HeaderName::try_from(name.as_str()).map_err(|_| invalid(format!("{name:?} is no HTTP header name")))?;
        if RESERVED.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-") {
            return Err(invalid(format!("the header {name:?} is set by the protocol; leave it out")));
        }
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| {
            invalid(format!("the value of the header {name:?} holds a character that HTTP does not allow"))
        })?;
        value.set_sensitive(true);
        if checked.insert(header, value).is_some() {
            return Err(invalid(format!("the header {name:?} is given twice, in different spellings")));
        }
    }
    Ok(HttpTarget { display: display(&url), url, headers: checked })
}

/// Whether there is such a command shows when it is started.
fn check_program(command: &str, args: &[String], env: &BTreeMap<String, String>) -> Result<Program, McpError> {
    if command.is_empty() {
        return Err(invalid("the command is empty; give a path, or a name that PATH has".into()));
    }
    if command.contains('\0') || args.iter().any(|arg| arg.contains('\0')) {
        return Err(invalid("the command or one of its arguments holds a NUL character".into()));
    }
    for (name, value) in env {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(invalid(format!("{name:?} cannot be the name of an environment variable")));
        }
        if value.contains('\0') {
            return Err(invalid(format!("the value of the variable {name:?} holds a NUL character")));
        }
    }
    let display = format!("stdio:{}", excerpt(command));
    Ok(Program { command: command.to_owned(), args: args.to_vec(), env: env.clone(), display })
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

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn check(url: &str, headers: &[(&str, &str)]) -> Result<HttpTarget, String> {
        check_http(url, &map(headers)).map_err(|error| error.to_string())
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
        let url = "https://user:s3cret@host:8443/mcp?token=s3cret#s3cret";
        let headers = [("authorization", "Bearer s3cret")];
        let endpoint = Endpoint::Http { url: url.into(), headers: map(&headers) };
        let shown = format!("{endpoint:?} {}", check(url, &headers).expect("valid").display);
        assert!(shown.contains("https://host:8443/mcp") && shown.contains("authorization"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");

        let (args, env) = (vec!["--token=s3cret".to_owned()], map(&[("TOKEN", "s3cret")]));
        let program = check_program("shop", &args, &env).expect("valid");
        let shown = format!("{:?} {}", Endpoint::Stdio { command: "shop".into(), args, env }, program.display);
        assert!(shown.contains("stdio:shop") && shown.contains("TOKEN"), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
    }

    #[test]
    fn a_command_that_cannot_be_is_refused_before_it_is_started() {
        let refused = |command: &str, arg: &str, env: &[(&str, &str)]| {
            let checked = check_program(command, &[arg.to_owned()], &map(env));
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(refused("a b", "c; d", &[("A", "=")]), None);
        assert!(refused("", "", &[]).is_some());
        assert!(refused("a", "\0", &[]).is_some());
        assert!(refused("a", "", &[("A=B", "")]).expect("refused").contains("A=B"));
        let value = refused("a", "", &[("TOKEN", "s3cret\0")]).expect("refused");
        assert!(value.contains("TOKEN") && !value.contains("s3cret"), "{value}");
    }
}
