//! Values that must not be read by the wrong eyes: API keys, and whatever else is a [`Secret`].

mod api_key;
mod secret;

pub use api_key::{ApiKey, ApiKeyError};
pub use secret::Secret;
