//! Two coordinators, and nodes that only beat.

mod support;

use std::{collections::BTreeMap, time::Duration};

use rewind_bus::{
    Bus,
    cluster::{Assignment, HEARTBEAT, NodeHeartbeat},
};
use rewind_model::NodeId;
use support::{Coordinator, Nats, eventually};

/// Says that it lives until it is dropped.
struct Node {
    id: NodeId,
    beating: tokio::task::JoinHandle<()>,
}

impl Node {
    fn start(bus: &Bus, name: &str) -> Self {
        let id = NodeId::random();
        let (bus, mut beat) = (bus.clone(), NodeHeartbeat { id: id.clone(), name: name.into(), beat: 0 });
        let beating = tokio::spawn(async move {
            let mut interval = tokio::time::interval(HEARTBEAT);
            loop {
                interval.tick().await;
                beat.beat += 1;
                // NATS may be away in a test.
                let _ = tokio::time::timeout(Duration::from_secs(1), bus.heartbeat(&beat)).await;
            }
        });
        Self { id, beating }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

async fn shared_by(bus: &Bus, nodes: &[&NodeId]) -> Assignment {
    eventually("all shards are shared out evenly", || async {
        let assignment = bus.assignment().await.ok()??.value;
        let mut counts: BTreeMap<&NodeId, usize> = BTreeMap::new();
        assignment.shards.values().for_each(|owner| *counts.entry(&owner.node).or_default() += 1);
        let even = counts.len() == nodes.len()
            && nodes.iter().all(|node| counts.get(node).is_some_and(|n| *n >= 64 / nodes.len()));
        even.then_some(assignment)
    })
    .await
}

async fn epochs_grow_with_owners(before: &Assignment, after: &Assignment) {
    for (shard, owner) in &after.shards {
        let then = &before.shards[shard];
        assert!(owner.epoch >= then.epoch && (owner.epoch > then.epoch) == (owner.node != then.node), "{shard}");
    }
}

#[tokio::test]
async fn another_coordinator_assigns_when_the_leading_one_is_killed() {
    let nats = Nats::start();
    let bus = nats.bus().await;
    let mut first = Coordinator::start(&nats).await;
    let leader = eventually("the first one leads", || async { bus.leader().await.ok()? }).await;
    let second = Coordinator::start(&nats).await;
    let one = Node::start(&bus, "node-1");
    let alone = shared_by(&bus, &[&one.id]).await;
    eventually("both know of the node", || async {
        let known = |body: serde_json::Value| body["nodes"] == 1;
        (known(first.get("/readyz").await.1) && known(second.get("/readyz").await.1)).then_some(())
    })
    .await;

    first.kill();
    let two = Node::start(&bus, "node-2");
    let both = shared_by(&bus, &[&one.id, &two.id]).await;
    epochs_grow_with_owners(&alone, &both).await;
    let next = bus.leader().await.expect("read").expect("a leader");
    assert_ne!(next.value.coordinator, leader.value.coordinator);

    // A node that falls silent loses its shards; the epoch of each grows once.
    let gone = one.id.clone();
    drop(one);
    let left = shared_by(&bus, &[&two.id]).await;
    epochs_grow_with_owners(&both, &left).await;
    assert!(left.shards.values().all(|owner| owner.node != gone));
}

#[tokio::test]
async fn a_restarted_node_takes_its_shards_back_at_once() {
    let nats = Nats::start();
    let bus = nats.bus().await;
    let _coordinator = Coordinator::start(&nats).await;
    let (before, other) = (Node::start(&bus, "node-1"), Node::start(&bus, "node-2"));
    let first = shared_by(&bus, &[&before.id, &other.id]).await;
    let old = before.id.clone();
    drop(before);
    let started = std::time::Instant::now();
    let again = Node::start(&bus, "node-1");
    let second = shared_by(&bus, &[&again.id, &other.id]).await;
    assert!(started.elapsed() < rewind_bus::cluster::LEASE, "it did not wait for the lease of {old}");
    let moved = first.shards.iter().filter(|(shard, owner)| second.shards[*shard].node != owner.node);
    assert!(moved.clone().all(|(_, owner)| owner.node == old));
}

#[tokio::test]
async fn an_outage_of_nats_moves_no_shard() {
    let mut nats = Nats::start();
    let bus = nats.bus().await;
    let coordinator = Coordinator::start(&nats).await;
    let (one, two) = (Node::start(&bus, "node-1"), Node::start(&bus, "node-2"));
    let before = shared_by(&bus, &[&one.id, &two.id]).await;
    nats.kill();
    let outage = std::time::Instant::now();
    eventually("the outage is longer than a lease", || async {
        (outage.elapsed() > rewind_bus::cluster::LEASE + Duration::from_secs(1)).then_some(())
    })
    .await;
    nats.restart();
    coordinator.ready().await;
    // A third node shows that the leader assigns again.
    let three = Node::start(&bus, "node-3");
    let after = shared_by(&bus, &[&one.id, &two.id, &three.id]).await;
    let moved = after.shards.iter().filter(|(shard, owner)| before.shards[*shard].node != owner.node);
    assert!(moved.clone().all(|(_, owner)| owner.node == three.id));
    assert_eq!(moved.count(), 21);
}
