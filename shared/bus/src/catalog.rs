//! The catalog: toolsets and compiled scripts under their digests. Written once, never changed.

use std::collections::{BTreeMap, BTreeSet};

use async_nats::jetstream::kv::CreateErrorKind;
use rewind_model::{Diagnostic, Digest, Timestamp, Toolset, ToolsetId, ToolsetWarning};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};

use crate::{Bus, BusError, error::unavailable, names};

/// Values over this are kept as a blob.
const INLINE: usize = 256 << 10;

/// A script as the type-checker let it pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompiledScript {
    /// The ES2023 module.
    pub javascript: String,
    /// Source map (version 3, JSON) from the module to the TypeScript.
    pub source_map: String,
    /// The TypeScript, as it was given.
    pub source: String,
    pub warnings: Vec<Diagnostic>,
}

/// What was said when a toolset was registered, beside the toolset itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    pub tools: BTreeMap<String, usize>,
    pub warnings: Vec<ToolsetWarning>,
    /// The toolset that it was derived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<ToolsetId>,
    /// Workflow → its script as it was checked, in the catalog.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, Digest>,
}

/// A slot's name as a user of blobs. Equal scripts of two toolsets are one blob.
fn user(key: &str) -> String {
    key.replace('.', "-")
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Slot<T> {
    Value(T),
    Blob(Digest),
}

impl Bus {
    /// Stores a toolset under its id, and what was said about it. `true` when it was not there before.
    ///
    /// # Errors
    /// When NATS does not answer, or the toolset has no canonical form.
    pub async fn put_toolset(
        &self,
        toolset: &Toolset,
        registration: &Registration,
    ) -> Result<(ToolsetId, bool), BusError> {
        let malformed = |error: rewind_model::ToolsetError| BusError::Malformed {
            what: "the toolset".into(),
            why: error.to_string(),
        };
        let id = toolset.id().map_err(malformed)?;
        let digest = self.keep_blob(&toolset.canonical().map_err(malformed)?).await?;
        self.put_slot(&format!("registration.{id}"), registration).await?;
        let slot = serde_json::to_vec(&Slot::Value(digest))
            .map_err(|error| BusError::Malformed { what: id.to_string(), why: error.to_string() })?;
        let bucket = self.jetstream.get_key_value(names::CATALOG).await.map_err(unavailable("open the catalog"))?;
        // Of several who register it at once, one is the first.
        match bucket.create(format!("toolset.{id}"), slot.into()).await {
            Ok(_) => Ok((id, true)),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok((id, false)),
            Err(error) => Err(unavailable("write the catalog")(error)),
        }
    }

    /// The canonical bytes of a toolset, `None` when it was never registered here.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn toolset_bytes(&self, id: &ToolsetId) -> Result<Option<Vec<u8>>, BusError> {
        match self.get_slot::<Digest>(&format!("toolset.{id}")).await? {
            Some(digest) => self.get_blob(digest).await.map(Some),
            None => Ok(None),
        }
    }

    /// # Errors
    /// When NATS does not answer, or the stored document is not one of this build.
    pub async fn toolset(&self, id: &ToolsetId) -> Result<Option<Toolset>, BusError> {
        let Some(bytes) = self.toolset_bytes(id).await? else { return Ok(None) };
        let malformed =
            |error: rewind_model::ToolsetError| BusError::Malformed { what: id.to_string(), why: error.to_string() };
        Toolset::from_bytes(&bytes).map(Some).map_err(malformed)
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn registration(&self, id: &ToolsetId) -> Result<Option<Registration>, BusError> {
        self.get_slot(&format!("registration.{id}")).await
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn put_script(&self, digest: Digest, script: &CompiledScript) -> Result<(), BusError> {
        self.put_slot(&format!("script.{digest}"), script).await
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn script(&self, digest: Digest) -> Result<Option<CompiledScript>, BusError> {
        self.get_slot(&format!("script.{digest}")).await
    }

    /// Every compiled script that is in the catalog.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn scripts(&self) -> Result<Vec<Digest>, BusError> {
        Ok(self.catalog_keys("script").await?.into_iter().filter_map(|key| key.parse().ok()).collect())
    }

    /// The compiled scripts of all workflows of all toolsets.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn workflow_scripts(&self) -> Result<BTreeSet<Digest>, BusError> {
        let mut scripts = BTreeSet::new();
        for key in self.catalog_keys("registration").await? {
            let registration = self.get_slot::<Registration>(&format!("registration.{key}")).await?;
            scripts.extend(registration.into_iter().flat_map(|registration| registration.workflows.into_values()));
        }
        Ok(scripts)
    }

    /// Removes a compiled script that was last put into the catalog before `before`. `false`: it was not.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn remove_script(&self, digest: Digest, before: Timestamp) -> Result<bool, BusError> {
        let key = format!("script.{digest}");
        let bucket = self.jetstream.get_key_value(names::CATALOG).await.map_err(unavailable("open the catalog"))?;
        let entry = bucket.entry(key.as_str()).await.map_err(unavailable("read the catalog"))?;
        let Some(entry) = entry else { return Ok(false) };
        let put_at = i64::try_from(entry.created.unix_timestamp_nanos() / 1_000_000).unwrap_or(i64::MAX);
        if Timestamp::from_unix_ms(put_at) >= before {
            return Ok(false);
        }
        let script = self.script(digest).await?;
        let stream = self.jetstream.get_stream_no_info(names::bucket_stream(names::CATALOG)).await;
        let stream = stream.map_err(unavailable("purge"))?;
        // One that is put there at this moment is a later message.
        let purge = stream.purge().filter(names::bucket_subject(names::CATALOG, &key)).sequence(entry.revision + 1);
        purge.await.map_err(unavailable("purge"))?;
        if let Ok(Slot::Blob(blob)) = serde_json::from_slice::<Slot<IgnoredAny>>(&entry.value) {
            self.release_blob(&user(&key), blob).await?;
        }
        let again = bucket.entry(key.as_str()).await.map_err(unavailable("read the catalog"))?;
        if let (Some(script), Some(_)) = (script, again) {
            self.put_script(digest, &script).await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// What follows `kind` in the keys that begin with it.
    async fn catalog_keys(&self, kind: &str) -> Result<Vec<String>, BusError> {
        let filter = names::bucket_subject(names::CATALOG, &format!("{kind}.*"));
        let subjects = self.subjects(&names::bucket_stream(names::CATALOG), &filter).await?;
        let key = |subject: &str| subject.rsplit_once('.').map(|(_, key)| key.to_owned());
        Ok(subjects.iter().filter_map(|(subject, _)| key(subject)).collect())
    }

    async fn put_slot<T: Serialize>(&self, key: &str, value: &T) -> Result<(), BusError> {
        let malformed = |error: serde_json::Error| BusError::Malformed { what: key.into(), why: error.to_string() };
        let mut bytes = serde_json::to_vec(&Slot::Value(value)).map_err(malformed)?;
        if bytes.len() > INLINE {
            let whole = serde_json::to_vec(value).map_err(malformed)?;
            bytes = serde_json::to_vec(&Slot::<()>::Blob(self.put_blob_for(&user(key), &whole).await?))
                .map_err(malformed)?;
        }
        let bucket = self.jetstream.get_key_value(names::CATALOG).await.map_err(unavailable("open the catalog"))?;
        bucket.put(key, bytes.into()).await.map(drop).map_err(unavailable("write the catalog"))
    }

    async fn get_slot<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, BusError> {
        let malformed = |error: serde_json::Error| BusError::Malformed { what: key.into(), why: error.to_string() };
        let bucket = self.jetstream.get_key_value(names::CATALOG).await.map_err(unavailable("open the catalog"))?;
        let Some(bytes) = bucket.get(key).await.map_err(unavailable("read the catalog"))? else { return Ok(None) };
        match serde_json::from_slice(&bytes).map_err(malformed)? {
            Slot::Value(value) => Ok(Some(value)),
            Slot::Blob(digest) => serde_json::from_slice(&self.get_blob(digest).await?).map(Some).map_err(malformed),
        }
    }
}
