//! Which at-most-once host calls have been begun: whoever is first notes it, and nobody is a second time.

use async_nats::jetstream::kv;
use rewind_model::Key;

use crate::{Bus, BusError, error::unavailable, names};

impl Bus {
    /// Notes that `who` (a name that nobody else has) begins the call. `false` when somebody else has
    /// begun it before: then nobody knows what became of it, and it must not be done again.
    ///
    /// # Errors
    /// When NATS does not answer: ask again, by the same name.
    pub async fn begin_once(&self, key: &Key, who: &str) -> Result<bool, BusError> {
        let call = format!("{}.{}", key.run, key.seq);
        let bucket = self.jetstream.get_key_value(names::BEGUN).await.map_err(unavailable("note a call's begin"))?;
        match bucket.create(&call, who.to_owned().into()).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == kv::CreateErrorKind::AlreadyExists => {
                // It may be this one's own, of which the acknowledgement was lost.
                let noted = bucket.get(&call).await.map_err(unavailable("note a call's begin"))?;
                Ok(noted.is_some_and(|noted| noted == who.as_bytes()))
            }
            Err(error) => Err(unavailable("note a call's begin")(error)),
        }
    }
}
