use std::{collections::HashMap, hash::Hash};

/// A bounded cache of two generations: what was used since the last change of generations stays, the
/// rest is forgotten. Close to least-recently-used, without a list to keep in order.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    /// Of each generation.
    capacity: usize,
    weight: usize,
    weigh: fn(&V) -> usize,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    /// Holds values of at most twice `capacity` in all, as `weigh` counts.
    pub(crate) fn new(capacity: usize, weigh: fn(&V) -> usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity, weight: 0, weigh }
    }

    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let value = self.old.remove(key)?;
        self.put(key.clone(), value.clone());
        Some(value)
    }

    pub(crate) fn put(&mut self, key: K, value: V) {
        let weight = (self.weigh)(&value);
        if weight > self.capacity {
            return;
        }
        if self.weight + weight > self.capacity {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        self.weight += weight;
        if let Some(replaced) = self.young.insert(key, value) {
            self.weight = self.weight.saturating_sub((self.weigh)(&replaced));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut cache = Cache::new(10, |_: &u32| 1);
        for n in 0..1_000 {
            cache.put(n, n);
            assert_eq!(cache.get(&0), Some(0), "after {n}");
            assert!(cache.young.len() + cache.old.len() <= 20);
        }
        assert_eq!(cache.get(&500), None);
        assert_eq!(cache.get(&999), Some(999));
    }

    #[test]
    fn what_is_heavier_than_a_generation_is_not_kept() {
        let mut cache = Cache::new(10, |value: &usize| *value);
        cache.put("a", 11);
        assert_eq!(cache.get(&"a"), None);
    }
}
