//! The coordinator's API over HTTP.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode, header, redirect};
use rewind_model::{Page, Problem};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use crate::{error::Error, server::Server};

/// Largest answer that is read, in bytes: a result of 16 MiB and an input beside it fit.
const LARGEST_ANSWER: usize = 64 << 20;
const CONNECT: Duration = Duration::from_secs(5);
/// Of one request, beyond the time that it asks the server to wait. Registering a toolset lists
/// the tools of every server in it, so this is generous.
const ANSWER: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    api: Url,
    authorization: Option<header::HeaderValue>,
}

impl Client {
    /// # Errors
    /// When the key cannot stand in a header.
    pub(crate) fn new(server: &Server) -> Result<Self, Error> {
        let authorization = match &server.key {
            None => None,
            Some(key) => {
                let value = header::HeaderValue::try_from(format!("Bearer {}", key.reveal()));
                let mut value =
                    value.map_err(|_| Error::Usage("the API key holds characters that no key has".into()))?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT)
            .user_agent(concat!("rewind-cli/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Error::Usage(format!("no HTTP client can be made: {error}")))?;
        Ok(Self { http, api: server.api.clone(), authorization })
    }

    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Answer, Error> {
        self.send(self.request(Method::GET, path, query)?, ANSWER).await
    }

    /// All items of a list, page after page.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn list<T: DeserializeOwned>(&self, path: &str, query: &[(&str, &str)]) -> Result<Page<T>, Error> {
        let mut all = Page { items: Vec::new(), next_cursor: None };
        loop {
            let cursor = all.next_cursor.take();
            let query: Vec<_> =
                query.iter().copied().chain(cursor.iter().map(|cursor| ("cursor", &**cursor))).collect();
            let page: Page<T> = self.get(path, &query).await?.to()?;
            all.items.extend(page.items);
            // The same cursor again would make this go on for ever.
            if page.next_cursor.is_none() || page.next_cursor == cursor {
                return Ok(all);
            }
            all.next_cursor = page.next_cursor;
        }
    }

    /// A request that the server answers when something has happened, or after `wait`.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn poll(&self, path: &str, wait: Duration) -> Result<Answer, Error> {
        let text = rewind_model::format_duration(wait);
        self.send(self.request(Method::GET, path, &[("wait", &text)])?, ANSWER + wait).await
    }

    /// Sends `json` as it is: the server says what is wrong with it.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn post_text(&self, path: &str, json: String) -> Result<Answer, Error> {
        let request = self.request(Method::POST, path, &[])?;
        self.send(request.header(header::CONTENT_TYPE, "application/json").body(json), ANSWER).await
    }

    /// # Errors
    /// When the server cannot be reached or refuses.
    pub(crate) async fn post<T: Serialize>(&self, path: &str, body: &T) -> Result<Answer, Error> {
        self.send(self.request(Method::POST, path, &[])?.json(body), ANSWER).await
    }

    fn request(&self, method: Method, path: &str, query: &[(&str, &str)]) -> Result<RequestBuilder, Error> {
        let mut url = self.api.clone();
        url.path_segments_mut()
            .map_err(|()| Error::Usage("--api is no address of a server".into()))?
            .pop_if_empty()
            .extend(path.split('/').filter(|part| !part.is_empty()));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url).header(header::ACCEPT, "application/json, text/plain");
        Ok(match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value.clone()),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder, timeout: Duration) -> Result<Answer, Error> {
        let response = request.timeout(timeout).send().await.map_err(|error| self.unreachable(error))?;
        let status = response.status();
        let body = self.body_of(response).await?;
        if status.is_success() {
            return Ok(Answer { api: self.api.to_string(), body });
        }
        match serde_json::from_str::<Problem>(&body) {
            Ok(problem) if status == StatusCode::UNAUTHORIZED => {
                Err(Error::Unauthorized { problem: Box::new(problem), sent: self.authorization.is_some() })
            }
            Ok(problem) => Err(Error::Refused(Box::new(problem))),
            Err(_) => Err(self.not_rewind(format!("status {status} without a problem document"))),
        }
    }

    async fn body_of(&self, mut response: Response) -> Result<String, Error> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(error))? {
            if body.len() + chunk.len() > LARGEST_ANSWER {
                return Err(self.not_rewind(format!("its answer is over {LARGEST_ANSWER} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        String::from_utf8(body).map_err(|_| self.not_rewind("its answer is not UTF-8".into()))
    }

    /// reqwest's own message says only "error sending request": the reason is at the end of its sources.
    fn unreachable(&self, error: reqwest::Error) -> Error {
        let error = error.without_url();
        let mut deepest: &dyn std::error::Error = &error;
        while let Some(source) = deepest.source() {
            deepest = source;
        }
        let reason = if error.is_timeout() { "no answer in time".to_owned() } else { deepest.to_string() };
        Error::Unreachable { api: self.api.to_string(), reason }
    }

    fn not_rewind(&self, reason: String) -> Error {
        Error::NotRewind { api: self.api.to_string(), reason }
    }
}

/// The body of a successful answer.
#[derive(Debug)]
pub(crate) struct Answer {
    api: String,
    pub(crate) body: String,
}

impl Answer {
    /// # Errors
    /// When the body is not a `T`: the server is not Rewind's API, or of another version.
    pub(crate) fn to<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.body)
            .map_err(|error| Error::NotRewind { api: self.api.clone(), reason: error.to_string() })
    }
}
