use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, header},
    middleware::Next,
    response::Response,
};
use rewind_bus::key::KeyRecord;
use rewind_model::{Digest, ProblemCode};
use rewind_secrets::ApiKey;

use crate::{app::App, refusal::Refusal, store::Store};

/// A key that was taken away works for this long yet.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The API keys that were looked up lately, so that a request costs no round trip for its key.
#[derive(Debug, Default)]
pub(crate) struct Keys(Mutex<HashMap<Digest, (KeyRecord, Instant)>>);

impl Keys {
    async fn find(&self, store: &Store, hash: Digest) -> Result<Option<KeyRecord>, Refusal> {
        let now = Instant::now();
        if let Some((record, until)) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&hash)
            && *until > now
        {
            return Ok(Some(record.clone()));
        }
        let found = store.ask(|bus| bus.key(hash)).await?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (_, until)| *until > now);
        if let Some(record) = &found {
            known.insert(hash, (record.clone(), now + REMEMBERED));
        }
        Ok(found)
    }
}

/// Lets a request pass that shows a valid API key.
pub(crate) async fn require_key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    // The same answer whatever was wrong: it tells a guesser nothing.
    let refused = || Refusal::new(ProblemCode::Unauthorized, "send `Authorization: Bearer <API key>` with a valid key");
    let key = bearer(request.headers()).ok_or_else(refused)?;
    app.keys.find(&app.store, key.hash()).await?.ok_or_else(refused)?;
    Ok(next.run(request).await)
}

fn bearer(headers: &HeaderMap) -> Option<ApiKey> {
    let (scheme, key) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") { key.trim().parse().ok() } else { None }
}
