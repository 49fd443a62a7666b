//! The cluster: which nodes live, who owns which shard, which coordinator leads.
//!
//! Leases and owners are read from the stream's leader, never from a follower: a stale answer would
//! only cost time (the journal's fence decides), but much of it.

use std::{collections::BTreeMap, time::Duration};

use async_nats::jetstream::{kv, stream::RawMessageErrorKind};
use futures::StreamExt;
use rewind_model::{NodeId, Shard};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Bus, BusError, error::unavailable, names};

/// A node says that it lives this often.
pub const HEARTBEAT: Duration = Duration::from_millis(1_000);
/// A node that has been silent for this long has lost its shards, and knows it.
pub const LEASE: Duration = Duration::from_millis(5_000);

const ASSIGNMENT: &str = "assignment";
const LEADER: &str = "leader";

/// A live node. The name is the operator's and outlives restarts; the id is of one start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHeartbeat {
    pub id: NodeId,
    pub name: String,
    /// Grows with each heartbeat, so that two of them are told apart without comparing clocks.
    pub beat: u64,
}

/// Who owns a shard, since which epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardOwner {
    pub node: NodeId,
    /// Grows whenever the owner changes, and only then.
    pub epoch: u64,
}

/// Shard → owner; what has none waits for a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub shards: BTreeMap<Shard, ShardOwner>,
}

/// Which coordinator leads; it renews this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    pub coordinator: NodeId,
    pub beat: u64,
    /// It has stopped in order: another one need not wait for its silence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resigned: bool,
}

/// A value and the revision by which a change of it is compared.
#[derive(Debug, Clone)]
pub struct Revised<T> {
    pub value: T,
    pub revision: u64,
}

/// Something that changed in the cluster's bucket.
#[derive(Debug)]
pub enum ClusterChange {
    Node(NodeHeartbeat),
    /// A node stopped in an orderly way.
    NodeGone {
        name: String,
    },
    Assignment(Assignment),
    Leader(Leader),
}

impl Bus {
    /// # Errors
    /// When NATS does not answer.
    pub async fn heartbeat(&self, node: &NodeHeartbeat) -> Result<(), BusError> {
        let body = encode(node)?;
        let key = node_key(&node.name);
        self.cluster().await?.put(key, body).await.map(drop).map_err(unavailable("send a heartbeat"))
    }

    /// Says that the node stops, so that its shards move at once.
    ///
    /// # Errors
    /// When NATS does not answer: the shards then move when the lease is over.
    pub async fn leave(&self, node: &NodeHeartbeat) -> Result<(), BusError> {
        self.cluster().await?.delete(node_key(&node.name)).await.map_err(unavailable("leave the cluster"))
    }

    /// The last heartbeat of every node that has not left, whether it still lives or not: one that
    /// [`Bus::watch_cluster`] repeats from here proves no life.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn last_heartbeats(&self) -> Result<Vec<NodeHeartbeat>, BusError> {
        let bucket = self.cluster().await?;
        let mut keys = bucket.keys().await.map_err(unavailable("list nodes"))?;
        let mut heartbeats = Vec::new();
        while let Some(key) = keys.next().await {
            let key = key.map_err(unavailable("list nodes"))?;
            if key.starts_with("node.")
                && let Some(body) = bucket.get(&key).await.map_err(unavailable("list nodes"))?
            {
                heartbeats.extend(serde_json::from_slice::<NodeHeartbeat>(&body));
            }
        }
        Ok(heartbeats)
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn assignment(&self) -> Result<Option<Revised<Assignment>>, BusError> {
        self.read_from_leader(ASSIGNMENT).await
    }

    /// Writes the assignment if nobody has since `revision` (0: there is none). `false` when somebody has.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn assign(&self, assignment: &Assignment, revision: u64) -> Result<bool, BusError> {
        self.compare_and_set(ASSIGNMENT, encode(assignment)?, revision).await.map(|revision| revision.is_some())
    }

    /// # Errors
    /// When NATS does not answer.
    pub async fn leader(&self) -> Result<Option<Revised<Leader>>, BusError> {
        self.read_from_leader(LEADER).await
    }

    /// Becomes or stays the leader, if nobody else has since `revision`: the new revision, or `None`.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn lead(&self, leader: &Leader, revision: u64) -> Result<Option<u64>, BusError> {
        self.compare_and_set(LEADER, encode(leader)?, revision).await
    }

    /// What the bucket holds, then what changes in it, until the connection is lost for good.
    ///
    /// # Errors
    /// When NATS does not answer at the beginning.
    pub async fn watch_cluster(&self) -> Result<impl futures::Stream<Item = ClusterChange> + Send + use<>, BusError> {
        let bucket = self.cluster().await?;
        let watch = bucket.watch_with_history(">").await.map_err(unavailable("watch the cluster"))?;
        // The task always polls: a watcher that is not polled may never resume after a restart of
        // the server (nats.rs #1596).
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        tokio::spawn(async move {
            futures::pin_mut!(watch);
            while let Some(entry) = watch.next().await {
                match entry {
                    Ok(entry) => {
                        if let Some(change) = change(&entry)
                            && sender.unbounded_send(change).is_err()
                        {
                            return;
                        }
                    }
                    Err(error) => tracing::debug!(%error, "watching the cluster was interrupted"),
                }
                if sender.is_closed() {
                    return;
                }
            }
        });
        Ok(receiver)
    }

    async fn cluster(&self) -> Result<kv::Store, BusError> {
        self.jetstream.get_key_value(names::CLUSTER).await.map_err(unavailable("open the cluster bucket"))
    }

    async fn read_from_leader<T: DeserializeOwned>(&self, key: &str) -> Result<Option<Revised<T>>, BusError> {
        let stream = format!("KV_{}", names::CLUSTER);
        let stream = self.jetstream.get_stream_no_info(&stream).await.map_err(unavailable("read the cluster"))?;
        let subject = format!("$KV.{}.{key}", names::CLUSTER);
        let message = match stream.get_last_raw_message_by_subject(&subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(error) => return Err(unavailable("read the cluster")(error)),
        };
        let malformed =
            |error: serde_json::Error| BusError::Malformed { what: subject.clone(), why: error.to_string() };
        let value = serde_json::from_slice(&message.payload).map_err(malformed)?;
        Ok(Some(Revised { value, revision: message.sequence }))
    }

    async fn compare_and_set(&self, key: &str, body: bytes::Bytes, revision: u64) -> Result<Option<u64>, BusError> {
        match self.cluster().await?.update(key, body, revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == kv::UpdateErrorKind::WrongLastRevision => Ok(None),
            Err(error) => Err(unavailable("write the cluster")(error)),
        }
    }
}

fn node_key(name: &str) -> String {
    format!("node.{}", names::token(name))
}

fn encode<T: Serialize>(value: &T) -> Result<bytes::Bytes, BusError> {
    serde_json::to_vec(value)
        .map(Into::into)
        .map_err(|error| BusError::Malformed { what: "the cluster".into(), why: error.to_string() })
}

fn change(entry: &kv::Entry) -> Option<ClusterChange> {
    let gone = entry.operation != kv::Operation::Put;
    match entry.key.as_str() {
        ASSIGNMENT => serde_json::from_slice(&entry.value).ok().map(ClusterChange::Assignment),
        LEADER => serde_json::from_slice(&entry.value).ok().map(ClusterChange::Leader),
        key => {
            let token = key.strip_prefix("node.")?;
            if gone {
                return Some(ClusterChange::NodeGone { name: token.to_owned() });
            }
            serde_json::from_slice(&entry.value).ok().map(ClusterChange::Node)
        }
    }
}
