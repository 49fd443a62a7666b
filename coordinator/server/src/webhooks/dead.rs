//! Events that an endpoint did not take: listed, and sent again.

use std::sync::Arc;

use axum::extract::State;
use rewind_bus::event::EndpointId;
use rewind_model::{DeadDelivery, EventId, Page, ProblemCode, Resent};

use crate::{app::App, path::Path, query::Query, refusal::Refusal};

const DEFAULT_LIMIT: usize = 50;
const LARGEST_LIMIT: usize = 200;

/// Dead letters: events that an endpoint did not take within the time of all attempts, the oldest first.
#[utoipa::path(get, path = "/v1/webhooks/dead", tag = "webhooks",
    params(("limit" = Option<usize>, Query, description = "Of this page: 50 by default, at most 200."),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before.")),
    responses((status = 200, description = "A page of dead deliveries.", body = Page<DeadDelivery>)))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    mut query: Query,
) -> Result<axum::Json<Page<DeadDelivery>>, Refusal> {
    let limit = query.parsed("limit", parse_limit)?.unwrap_or(DEFAULT_LIMIT);
    let after = query.parsed("cursor", str::parse::<u64>)?.unwrap_or(0);
    query.finish()?;
    let mut letters = app.store.ask(|bus| bus.dead_letters(after, limit + 1)).await?;
    let more = letters.len() > limit;
    letters.truncate(limit);
    let next_cursor = letters.last().filter(|_| more).map(|letter| letter.sequence.to_string());
    let items = letters.into_iter().map(|letter| letter.delivery).collect();
    Ok(axum::Json(Page { items, next_cursor }))
}

/// Send a dead event again, to the endpoint that did not take it, with the same `webhook-id`. It is tried as often as
/// a new one, and is listed here again if that is of no use.
#[utoipa::path(post, path = "/v1/webhooks/dead/{id}/resend", tag = "webhooks",
    params(("id" = String, Path, description = "Of the dead delivery, as it is listed.")),
    responses((status = 200, description = "It is on its way.", body = Resent)))]
pub(crate) async fn resend(State(app): State<Arc<App>>, Path(id): Path<String>) -> Result<axum::Json<Resent>, Refusal> {
    let unknown = || {
        let shown: String = id.chars().take(80).collect();
        Refusal::new(ProblemCode::UnknownDelivery, format!("there is no dead delivery {shown}"))
    };
    let (event, endpoint) = parse(&id).ok_or_else(unknown)?;
    if app.store.ask(|bus| bus.resend(&endpoint, &event)).await? {
        tracing::info!(%event, %endpoint, "a dead event is sent again");
        Ok(axum::Json(Resent { event }))
    } else {
        Err(unknown())
    }
}

fn parse(id: &str) -> Option<(EventId, EndpointId)> {
    let (event, endpoint) = id.split_once('-')?;
    Some((event.parse().ok()?, endpoint.parse().ok()?))
}

fn parse_limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| (1..=LARGEST_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("a number from 1 to {LARGEST_LIMIT}"))
}
