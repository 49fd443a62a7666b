//! Which server a client command talks to.

use std::fs;

use serde::Deserialize;
use url::Url;

use crate::{api_key::ApiKey, args::ClientArgs, dev::DEV_JSON, error::Error};

/// The API's address, and the key for it, if there is one.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) api: Url,
    pub(crate) key: Option<ApiKey>,
}

impl Server {
    /// `--api`/`--key` (or the environment), else the `dev.json` of `rewind dev`. The key of a `dev.json` is
    /// shown to the server that it names and to no other.
    ///
    /// # Errors
    /// When no server is named anywhere, or what names it cannot be read.
    pub(crate) fn find(args: &ClientArgs) -> Result<Self, Error> {
        if let Some(api) = args.api.as_ref().filter(|api| !api.is_empty()) {
            return Ok(Self { api: parse_api(api)?, key: args.key.clone() });
        }
        let path = args.data.join(DEV_JSON);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoServer(path));
            }
            Err(source) => return Err(Error::Unreadable { path, source }),
        };
        let state: Named = serde_json::from_str(&text)
            .map_err(|error| Error::Usage(format!("{} is not a dev.json: {error}", path.display())))?;
        Ok(Self { api: parse_api(&state.api)?, key: args.key.clone().or(Some(state.key)) })
    }
}

/// What a client needs of a `dev.json`.
#[derive(Debug, Deserialize)]
struct Named {
    api: String,
    key: ApiKey,
}

fn parse_api(text: &str) -> Result<Url, Error> {
    // The text is not repeated: it may hold a password.
    let usage = |reason: &str| Error::Usage(format!("--api: {reason}; write http://HOST:PORT or https://HOST"));
    let mut api = Url::parse(text).map_err(|error| usage(&error.to_string()))?;
    if !matches!(api.scheme(), "http" | "https") || api.host_str().is_none() {
        return Err(usage("it is no http or https URL"));
    }
    if !api.username().is_empty() || api.password().is_some() {
        return Err(usage("it holds a user name or password, which belongs into --key"));
    }
    api.set_query(None);
    api.set_fragment(None);
    Ok(api)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(api: Option<&str>, data: &std::path::Path) -> ClientArgs {
        ClientArgs { api: api.map(Into::into), key: None, data: data.into(), json: false }
    }

    #[test]
    fn dev_json_names_the_server_and_its_key_goes_nowhere_else() {
        let dir = tempfile::tempdir().expect("folder");
        assert!(matches!(Server::find(&args(None, dir.path())), Err(Error::NoServer(_))));
        let json = r#"{"api":"http://127.0.0.1:1","key":"rk_1","nats":"nats://x","pids":{}}"#;
        fs::write(dir.path().join(DEV_JSON), json).expect("written");
        let found = Server::find(&args(None, dir.path())).expect("found");
        assert_eq!(
            (found.api.as_str(), found.key.map(|key| key.reveal().to_owned())),
            ("http://127.0.0.1:1/", Some("rk_1".into()))
        );
        assert!(Server::find(&args(Some("http://elsewhere"), dir.path())).expect("found").key.is_none());
    }

    #[test]
    fn an_api_with_a_password_is_refused_without_repeating_it() {
        let error = parse_api("http://me:hunter2@host").expect_err("refused");
        assert!(!error.to_string().contains("hunter2"));
        assert!(parse_api("ftp://host").is_err());
    }
}
