//! Runs name endpoints for themselves, on any number of hosts: a slow or dead one must not hold up the others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests that one host gets at once.
const PLACES: usize = 8;
/// A host that did not answer so many times in a row, for whatever event, fails.
const SILENCES: usize = 4;
/// Events that wait for, or have, a place at one host.
const MOST: usize = 128;
/// Hosts that are remembered for failing.
const REMEMBERED: usize = 10_000;

/// What is under way to each host (scheme, name and port).
#[derive(Debug, Default)]
pub(super) struct Hosts(Mutex<HashMap<String, Arc<Host>>>);

#[derive(Debug)]
struct Host {
    places: Arc<Semaphore>,
    /// For the one request that looks whether a host that failed is well again.
    probe: Arc<Semaphore>,
    /// Requests in a row that it did not answer.
    silences: AtomicUsize,
    /// Events that wait for a place or have one.
    events: AtomicUsize,
}

impl Host {
    fn new() -> Self {
        Self {
            places: Arc::new(Semaphore::new(PLACES)),
            probe: Arc::new(Semaphore::new(1)),
            silences: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
        }
    }

    fn fails(&self) -> bool {
        self.silences.load(Ordering::Acquire) >= SILENCES
    }
}

/// An event's stay at a host.
#[derive(Debug)]
pub(super) struct Stay<'a> {
    hosts: &'a Hosts,
    name: String,
    host: Arc<Host>,
}

/// Why an event gets no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turned {
    /// Others wait already, as many as may.
    Full,
    /// The host fails, and another request looks whether it still does.
    Failing,
}

impl Hosts {
    /// Joins those that wait for a place.
    pub(super) fn enter(&self, name: &str) -> Result<Stay<'_>, Turned> {
        let mut hosts = self.lock();
        let host = Arc::clone(hosts.entry(name.to_owned()).or_insert_with(|| Arc::new(Host::new())));
        if host.events.load(Ordering::Acquire) >= MOST {
            return Err(Turned::Full);
        }
        host.events.fetch_add(1, Ordering::AcqRel);
        Ok(Stay { hosts: self, name: name.to_owned(), host })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Host>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stay<'_> {
    /// Returns with a place; at once with none at a host that fails.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit, Turned> {
        if !self.host.fails() {
            let place = Arc::clone(&self.host.places).acquire_owned().await.map_err(|_| Turned::Full)?;
            if !self.host.fails() {
                return Ok(place);
            }
        }
        Arc::clone(&self.host.probe).try_acquire_owned().map_err(|_| Turned::Failing)
    }

    /// Whether the host answered, whatever it did: what one endpoint refuses says nothing of the others there.
    pub(super) fn report(&self, answered: bool) {
        if answered {
            self.host.silences.store(0, Ordering::Release);
        } else {
            self.host.silences.fetch_add(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        let mut hosts = self.hosts.lock();
        let unused = self.host.events.fetch_sub(1, Ordering::AcqRel) == 1;
        let forget = !self.host.fails() || hosts.len() > REMEMBERED;
        if unused && forget {
            hosts.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_host_holds_nobody_else_up() {
        let hosts = Hosts::default();
        let stays: Vec<_> = (0..MOST).map(|_| hosts.enter("slow").expect("room")).collect();
        let mut places = Vec::new();
        for stay in &stays[..PLACES] {
            places.push(stay.place().await.expect("a place"));
        }
        assert!(stays[PLACES].place().now_or_never().is_none(), "it waits");
        assert_eq!(hosts.enter("slow").map(drop), Err(Turned::Full));
        let other = hosts.enter("other").expect("room");
        assert!(other.place().await.is_ok());
        drop((places, other));
        assert!(stays[PLACES].place().await.is_ok());
        drop(stays);
        assert!(hosts.lock().is_empty(), "nothing is kept of hosts that are well");
    }

    #[tokio::test]
    async fn a_host_that_fails_gets_one_request_at_a_time_until_it_is_well() {
        let hosts = Hosts::default();
        let (one, two, three) = (hosts.enter("h"), hosts.enter("h"), hosts.enter("h"));
        let (one, two, three) = (one.expect("room"), two.expect("room"), three.expect("room"));
        drop(one.place().await.expect("a place"));
        for _ in 0..SILENCES {
            assert!(three.place().await.is_ok());
            one.report(false);
        }
        let probe = two.place().await.expect("the probe");
        assert_eq!(three.place().await.map(drop), Err(Turned::Failing));
        two.report(true);
        drop(probe);
        let _place = three.place().await.expect("a place");
        assert!(one.place().await.is_ok());
    }
}
