//! Which node owns which shard: a function of who owned it and who lives.

use std::collections::{BTreeMap, BTreeSet};

use rewind_bus::cluster::{Assignment, ShardOwner};
use rewind_model::{NodeId, Shard};

/// Shares all shards out over the live nodes: no two of them differ by more than one shard, and no
/// shard moves that need not. A shard's epoch grows by one when its owner changes, and only then.
///
/// Without a live node everything stays as it is: an entry of a dead owner keeps the epoch, which must
/// never go back.
pub(crate) fn assign(current: &Assignment, live: &BTreeSet<NodeId>) -> Assignment {
    let mut assignment = current.clone();
    if live.is_empty() {
        return assignment;
    }
    let mut owned: BTreeMap<&NodeId, Vec<Shard>> = live.iter().map(|node| (node, Vec::new())).collect();
    let mut free = Vec::new();
    for shard in Shard::all() {
        match current.shards.get(&shard).and_then(|owner| owned.get_mut(&owner.node)) {
            Some(shards) => shards.push(shard),
            None => free.push(shard),
        }
    }
    for (node, share) in shares(&owned) {
        let shards = owned.entry(node).or_default();
        free.extend(shards.drain(share.min(shards.len())..));
    }
    let mut free = free.into_iter();
    for (node, share) in shares(&owned) {
        let shards = owned.entry(node).or_default();
        let lacking = share.saturating_sub(shards.len());
        for shard in free.by_ref().take(lacking) {
            let epoch = current.shards.get(&shard).map_or(0, |owner| owner.epoch) + 1;
            assignment.shards.insert(shard, ShardOwner { node: node.clone(), epoch });
        }
    }
    assignment
}

/// How many shards each node is to have. The nodes that have most get the shares that are larger by
/// one: so nothing moves only to be counted elsewhere.
fn shares<'n>(owned: &BTreeMap<&'n NodeId, Vec<Shard>>) -> Vec<(&'n NodeId, usize)> {
    let (all, nodes) = (usize::from(Shard::COUNT), owned.len());
    let mut order: Vec<_> = owned.iter().map(|(node, shards)| (*node, shards.len())).collect();
    order.sort_by_key(|(node, count)| (std::cmp::Reverse(*count), *node));
    let share = |position| all / nodes + usize::from(position < all % nodes);
    order.into_iter().enumerate().map(|(position, (node, _))| (node, share(position))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId::of_bytes(&[n])
    }

    fn counts(assignment: &Assignment) -> BTreeMap<NodeId, usize> {
        assignment.shards.values().fold(BTreeMap::new(), |mut counts, owner| {
            *counts.entry(owner.node.clone()).or_default() += 1;
            counts
        })
    }

    fn moved(from: &Assignment, to: &Assignment) -> usize {
        Shard::all()
            .filter(|shard| from.shards.get(shard).map(|o| &o.node) != to.shards.get(shard).map(|o| &o.node))
            .count()
    }

    #[test]
    fn a_node_that_comes_gets_its_share_and_nothing_else_moves() {
        let two = assign(&Assignment::default(), &[node(1), node(2)].into());
        assert_eq!(counts(&two).into_values().collect::<Vec<_>>(), [32, 32]);
        let three = assign(&two, &[node(1), node(2), node(3)].into());
        assert_eq!(moved(&two, &three), 21);
        assert_eq!(counts(&three)[&node(3)], 21);
    }

    #[test]
    fn the_shards_of_a_node_that_went_and_no_others_move() {
        let three = assign(&Assignment::default(), &[node(1), node(2), node(3)].into());
        let went = counts(&three)[&node(2)];
        let two = assign(&three, &[node(1), node(3)].into());
        assert_eq!(moved(&three, &two), went);
    }

    #[test]
    fn with_no_node_left_the_epochs_are_kept() {
        let one = assign(&Assignment::default(), &[node(1)].into());
        let none = assign(&one, &BTreeSet::new());
        assert_eq!(none, one);
        let other = assign(&none, &[node(2)].into());
        assert!(other.shards.values().all(|owner| owner.node == node(2) && owner.epoch == 2));
    }

    proptest! {
        #[test]
        fn whoever_comes_and_goes(history in prop::collection::vec(prop::collection::btree_set(0u8..12, 0..9), 1..12)) {
            let mut current = Assignment::default();
            for live in history {
                let live: BTreeSet<NodeId> = live.into_iter().map(node).collect();
                let next = assign(&current, &live);
                for (shard, owner) in &current.shards {
                    let new = &next.shards[shard];
                    let grown = u64::from(new.node != owner.node);
                    prop_assert_eq!(new.epoch, owner.epoch + grown);
                }
                if !live.is_empty() {
                    prop_assert_eq!(next.shards.len(), usize::from(Shard::COUNT));
                    prop_assert!(next.shards.values().all(|owner| live.contains(&owner.node)));
                    let counts = counts(&next);
                    let all = live.iter().map(|node| counts.get(node).copied().unwrap_or(0));
                    let (least, most) = (all.clone().min().unwrap_or(0), all.max().unwrap_or(0));
                    prop_assert!(most - least <= 1, "{} to {}", least, most);
                    // The least that has to move: orphans, and what a node has over its share.
                    let before: Vec<usize> = live.iter().map(|node| current.shards.values().filter(|o| o.node == *node).count()).collect();
                    let kept_at_most = kept(before);
                    prop_assert_eq!(moved(&current, &next), usize::from(Shard::COUNT) - kept_at_most);
                }
                prop_assert_eq!(&assign(&next, &live), &next);
                current = next;
            }
        }
    }

    /// The most shards that can stay where they are, found independently: the largest counts meet the
    /// largest shares.
    fn kept(mut before: Vec<usize>) -> usize {
        before.sort_unstable_by(|a, b| b.cmp(a));
        let (all, nodes) = (usize::from(Shard::COUNT), before.len());
        before.into_iter().enumerate().map(|(n, count)| count.min(all / nodes + usize::from(n < all % nodes))).sum()
    }
}
