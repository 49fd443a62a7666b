//! `/healthz` and `/readyz`: whether this process lives, and whether it can do its work.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;

/// Answer of `/readyz`, ready or not.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// `ready`, or what is in the way: `waiting for NATS`, `reading the list of runs`.
    status: &'static str,
    /// Live nodes that this coordinator knows of. It is ready without any: runs wait for one.
    nodes: usize,
}

/// The process lives. Says nothing of NATS: restarting this process would not bring that back.
#[utoipa::path(get, path = "/healthz", tag = "operation",
    responses((status = 200, description = "It lives.", body = String, content_type = "text/plain")))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Requests can be served: NATS answers, and the list of runs is complete.
#[utoipa::path(get, path = "/readyz", tag = "operation", responses(
    (status = 200, description = "Ready.", body = Readiness),
    (status = 503, description = "Not ready; the same body says what is in the way.", body = Readiness)))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> (StatusCode, axum::Json<Readiness>) {
    let status = if !app.store.answers().await {
        "waiting for NATS"
    } else if !app.projection.caught_up() {
        "reading the list of runs"
    } else {
        "ready"
    };
    let code = if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, axum::Json(Readiness { status, nodes: app.cluster.nodes() }))
}
