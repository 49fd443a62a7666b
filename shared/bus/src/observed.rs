//! What results looked like, one document a toolset. Every node adds what it has seen.

use async_nats::jetstream::kv;
use rewind_model::ToolsetId;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Bus, BusError, cluster::Revised, error::unavailable, names};

/// Writers that may get in between before this one gives up for now.
const TRIES: usize = 20;

impl Bus {
    /// The document of a toolset; its revision grows with each change, and is 0 while there is none.
    ///
    /// # Errors
    /// When NATS does not answer, or the stored document is not one of this build.
    pub async fn observed<T: DeserializeOwned + Default>(&self, toolset: &ToolsetId) -> Result<Revised<T>, BusError> {
        let entry =
            self.observations().await?.entry(toolset.as_str()).await.map_err(unavailable("read observations"))?;
        match entry {
            Some(kv::Entry { operation: kv::Operation::Put, value, revision, .. }) => {
                let malformed = |error: serde_json::Error| BusError::Malformed {
                    what: format!("the observations of {toolset}"),
                    why: error.to_string(),
                };
                Ok(Revised { value: serde_json::from_slice(&value).map_err(malformed)?, revision })
            }
            // Deleted by an operator: it begins anew, after that revision.
            Some(kv::Entry { revision, .. }) => Ok(Revised { value: T::default(), revision }),
            None => Ok(Revised { value: T::default(), revision: 0 }),
        }
    }

    /// Changes the document of a toolset by `merge`, which is called again when another writer was first.
    /// Gives the document as it is now.
    ///
    /// # Errors
    /// When NATS does not answer, others write all the time, or the stored document is not one of this build.
    pub async fn merge_observed<T: DeserializeOwned + Serialize + Default>(
        &self,
        toolset: &ToolsetId,
        merge: impl Fn(&mut T),
    ) -> Result<T, BusError> {
        let bucket = self.observations().await?;
        for _ in 0..TRIES {
            let Revised { mut value, revision } = self.observed::<T>(toolset).await?;
            merge(&mut value);
            let body = serde_json::to_vec(&value).map_err(unavailable("write observations"))?;
            match bucket.update(toolset.as_str(), body.into(), revision).await {
                Ok(_) => return Ok(value),
                Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => {}
                Err(error) => return Err(unavailable("write observations")(error)),
            }
        }
        Err(BusError::Unavailable { what: "write observations", why: "others write all the time".into() })
    }

    async fn observations(&self) -> Result<kv::Store, BusError> {
        self.jetstream.get_key_value(names::OBSERVED).await.map_err(unavailable("open the observations"))
    }
}
