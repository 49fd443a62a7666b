//! The nodes as this coordinator has heard of them. Time is an argument: the moment at which a beat
//! came here, by this process's own monotonic clock; no two machines' clocks are compared.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use rewind_bus::cluster::{LEASE, NodeHeartbeat};
use rewind_bus::names;
use rewind_model::NodeId;

/// A node is dead when nothing was heard of it for this long: its lease, by its own clock, is over
/// before, so it has stopped by then.
pub(crate) const SILENCE: Duration = LEASE.saturating_add(Duration::from_millis(500));

#[derive(Debug, Default)]
pub(crate) struct Nodes(BTreeMap<String, Heard>);

#[derive(Debug)]
struct Heard {
    id: NodeId,
    beat: u64,
    at: Instant,
    /// Did it beat while this coordinator listened? What the bucket holds from before proves nothing.
    proven: bool,
}

impl Nodes {
    /// What the bucket held before this coordinator listened. Such a node counts as live until it has
    /// had the time to beat: its shards do not move only because the coordinator is new.
    pub(crate) fn remember(&mut self, beats: Vec<NodeHeartbeat>, now: Instant) {
        let names: BTreeSet<String> = beats.iter().map(|beat| names::token(&beat.name)).collect();
        self.0.retain(|name, _| names.contains(name));
        for beat in beats {
            let known = self.0.get(&names::token(&beat.name));
            if known.is_none_or(|known| known.id != beat.id) {
                self.put(beat, now, false);
            }
        }
    }

    /// A beat came, perhaps one that is known already. `true` when the set of live nodes changed: a
    /// new id under a known name is a restarted node, and takes the place of the one before at once.
    pub(crate) fn heard(&mut self, beat: NodeHeartbeat, now: Instant) -> bool {
        match self.0.get_mut(&names::token(&beat.name)) {
            Some(known) if known.id == beat.id => {
                if known.beat != beat.beat {
                    *known = Heard { id: beat.id, beat: beat.beat, at: now, proven: true };
                }
                false
            }
            Some(_) | None => {
                self.put(beat, now, true);
                true
            }
        }
    }

    /// A node left in an orderly way. `name` as it stands in a subject.
    pub(crate) fn gone(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Forgets the nodes of which nothing was heard for too long; `true` when there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|name, heard| {
            let alive = now.saturating_duration_since(heard.at) < SILENCE;
            if !alive {
                tracing::warn!(name, node = %heard.id, "a node has been silent for {SILENCE:?}: it counts as dead");
            }
            alive
        });
        self.0.len() != before
    }

    /// While NATS was away nobody could be heard: every node's time begins again.
    pub(crate) fn excuse(&mut self, now: Instant) {
        self.0.values_mut().for_each(|heard| heard.at = now);
    }

    /// Those that shards may be assigned to.
    pub(crate) fn live(&self) -> BTreeSet<NodeId> {
        self.0.values().map(|heard| heard.id.clone()).collect()
    }

    /// How many have been heard living.
    pub(crate) fn proven(&self) -> usize {
        self.0.values().filter(|heard| heard.proven).count()
    }

    fn put(&mut self, beat: NodeHeartbeat, at: Instant, proven: bool) {
        let name = names::token(&beat.name);
        self.0.insert(name, Heard { id: beat.id, beat: beat.beat, at, proven });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(name: &str, id: u8, beat: u64) -> NodeHeartbeat {
        NodeHeartbeat { id: NodeId::of_bytes(&[id]), name: name.into(), beat }
    }

    #[test]
    fn a_node_lives_as_long_as_it_is_heard() {
        let start = Instant::now();
        let mut nodes = Nodes::default();
        assert!(nodes.heard(beat("a", 1, 1), start));
        let later = start + SILENCE - Duration::from_millis(1);
        assert!(!nodes.expire(later));
        assert!(!nodes.heard(beat("a", 1, 2), later));
        assert!(!nodes.expire(start + SILENCE));
        assert!(nodes.expire(later + SILENCE));
        assert!(nodes.live().is_empty());
    }

    #[test]
    fn a_repeated_beat_is_no_life() {
        let start = Instant::now();
        let mut nodes = Nodes::default();
        nodes.remember(vec![beat("a", 1, 7)], start);
        assert!(!nodes.heard(beat("a", 1, 7), start + LEASE));
        assert_eq!((nodes.live().len(), nodes.proven()), (1, 0));
        assert!(nodes.expire(start + SILENCE));
    }

    #[test]
    fn a_restarted_node_takes_the_place_of_the_one_before_at_once() {
        let start = Instant::now();
        let mut nodes = Nodes::default();
        nodes.heard(beat("a", 1, 9), start);
        assert!(nodes.heard(beat("a", 2, 1), start));
        assert_eq!(nodes.live(), [NodeId::of_bytes(&[2])].into());
    }

    #[test]
    fn a_node_that_leaves_is_gone_at_once_whatever_its_name() {
        let mut nodes = Nodes::default();
        nodes.heard(beat("a.b", 1, 1), Instant::now());
        assert!(nodes.gone(&names::token("a.b")));
        assert!(!nodes.gone(&names::token("a.b")));
    }

    #[test]
    fn nobody_is_blamed_for_an_outage_of_the_store() {
        let start = Instant::now();
        let mut nodes = Nodes::default();
        nodes.heard(beat("a", 1, 1), start);
        nodes.excuse(start + SILENCE * 10);
        assert!(!nodes.expire(start + SILENCE * 10));
    }
}
