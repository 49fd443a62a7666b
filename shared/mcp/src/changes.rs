//! Hearing from a server that its tools have changed (`notifications/tools/list_changed`), in both eras.
//!
//! A notification says "list again" and no more, and one that is missed is not repeated: whenever a stream
//! had to be opened anew, the tools count as changed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, RoleClient,
    model::{ClientConfig, ServerNotification, SubscriptionFilter},
    service::{NotificationContext, Peer},
};
use serde::Deserialize;
use tokio_util::task::AbortOnDropHandle;
use tracing::{Instrument as _, Span};

use crate::{
    events::events,
    http::{Http, SESSION_ID, media_type},
};

const METHOD: &str = "notifications/tools/list_changed";
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// Bytes of one event.
const LARGEST_EVENT: usize = 256 << 10;
/// Before a stream that ended is opened again; longer each time, up to the second.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_AT_MOST: Duration = Duration::from_secs(60);

/// How often a server's tools have changed, as far as it says so. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes(Arc<AtomicU64>);

impl Changes {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// What `rmcp` asks of a client, and tells it.
#[derive(Debug, Clone)]
pub(crate) struct Ears {
    pub(crate) me: ClientConfig,
    pub(crate) changes: Changes,
}

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        self.me.clone()
    }

    /// Over stdio, and where a server sends it along with an answer.
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changes.note();
    }
}

/// Listens to a server without sessions, which wants to be asked for what it tells.
pub(crate) fn subscribe(peer: Peer<RoleClient>, changes: Changes) -> AbortOnDropHandle<()> {
    let listen = async move {
        let mut wait = AGAIN;
        loop {
            let wanted = SubscriptionFilter::builder().tools_list_changed().build();
            let Ok(mut subscription) = peer.listen(wanted).await else {
                // It announces what it does not serve; the age of a listing has to do.
                return;
            };
            while let Ok(Some(notification)) = subscription.next().await {
                wait = AGAIN;
                if matches!(notification, ServerNotification::ToolListChangedNotification(_)) {
                    changes.note();
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN_AT_MOST);
            changes.note();
        }
    };
    AbortOnDropHandle::new(tokio::spawn(listen.instrument(Span::none())))
}

/// Listens to the stream of a session that belongs to no request.
pub(crate) fn follow(http: Http, version: String, changes: Changes) -> Option<AbortOnDropHandle<()>> {
    let session = http.session()?;
    let follow = async move {
        let mut wait = AGAIN;
        while follow_once(&http, &session, &version, &changes).await {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(AGAIN_AT_MOST);
            changes.note();
        }
    };
    Some(AbortOnDropHandle::new(tokio::spawn(follow.instrument(Span::none()))))
}

/// `false` when there is no such stream, or no such session any more.
async fn follow_once(http: &Http, session: &str, version: &str, changes: &Changes) -> bool {
    let mut headers = http.headers().clone();
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    for (name, value) in [(SESSION_ID, session), (VERSION, version)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    let response = match http.client().get(http.url()).headers(headers).send().await {
        Ok(response) if response.status().is_success() && media_type(&response) == "text/event-stream" => response,
        Ok(response) => return response.status().is_server_error(),
        Err(_) => return true,
    };
    let mut events = events(response, LARGEST_EVENT, None, http.server().to_owned());
    while let Some(Ok(event)) = events.next().await {
        if event.data.as_deref().is_some_and(is_change) {
            changes.note();
        }
    }
    true
}

fn is_change(data: &str) -> bool {
    #[derive(Deserialize)]
    struct Notification<'a> {
        #[serde(borrow)]
        method: Option<std::borrow::Cow<'a, str>>,
    }
    serde_json::from_str::<Notification<'_>>(data)
        .is_ok_and(|notification| notification.method.as_deref() == Some(METHOD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_tools_is_one() {
        assert!(is_change(r#"{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}"#));
        assert!(is_change(r#"{"method": "notifications/tools/list_changed", "params": {"_meta": {}}}"#));
        for other in [r#"{"method": "notifications/prompts/list_changed"}"#, r#"{"id": 1, "result": {}}"#, "", "[]"] {
            assert!(!is_change(other), "{other}");
        }
    }
}
