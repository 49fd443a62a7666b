use axum::{extract::FromRequestParts, http::request::Parts};
use rewind_model::ProblemCode;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// The parameters of a request's path. One that is no text names nothing.
#[derive(Debug)]
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        let axum::extract::Path(values) =
            found.map_err(|rejection| Refusal::new(ProblemCode::NotFound, rejection.body_text()))?;
        Ok(Self(values))
    }
}
