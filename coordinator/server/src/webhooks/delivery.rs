//! Sends events to endpoints. Every coordinator does, each event from one of them at a time; each endpoint of the
//! installation has a consumer and places of its own, and so have those that runs name, host by host.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use reqwest::{StatusCode, header, redirect};
use rewind_bus::{
    Bus, BusError,
    dead::Death,
    event::{ACK_WAIT, EndpointId, EventConsumer, EventDelivery, EventMessage},
};
use rewind_model::{Timestamp, format_duration};
use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    endpoint::Endpoint,
    hosts::{Hosts, Turned},
    schedule::Schedule,
    settings::Webhooks,
    signature::SigningKeys,
};

/// One attempt, from the first byte of its connection to the status that answers it.
const ATTEMPT: Duration = Duration::from_secs(15);
/// Requests that one endpoint of the installation gets at once from one coordinator.
const PLACES: usize = 16;
/// Events for the endpoints of runs that one coordinator has at once, most of them waiting for a place at their host.
const RUN_PLACES: usize = 4_096;
/// For the consumer of one endpoint, at the start.
const PATIENCE: Duration = Duration::from_secs(10);
/// Asked for at once.
const BATCH: usize = 256;
/// Before asking anew.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a new connection is looked for.
const TICK: Duration = Duration::from_millis(250);
/// An event whose host is full comes again after a second, the second time after two, and so on up to this.
const LONGEST_FULL: Duration = Duration::from_secs(60);

/// Makes the consumers, and serves them beside until `stopping`. Returns when they are there: what happens from then on
/// is sent.
///
/// # Errors
/// When no HTTP client can be made, or the stream of events is not Rewind's.
pub(crate) async fn deliver(
    webhooks: &Webhooks,
    bus: &Bus,
    tasks: &TaskTracker,
    stopping: &CancellationToken,
) -> anyhow::Result<()> {
    let Some(keys) = &webhooks.keys else { return Ok(()) };
    let sender = Arc::new(Sender::new(keys.clone())?);
    let installation = webhooks
        .endpoints
        .iter()
        .map(|endpoint| (EndpointId::of_url(endpoint.url().as_str()), Target::Installation(endpoint.clone()), PLACES));
    let runs = (EndpointId::runs(), Target::Runs(Hosts::default()), RUN_PLACES);
    for (id, target, places) in installation.chain([runs]) {
        let made = bus.retry("make a consumer", || bus.event_consumer(&id));
        match tokio::time::timeout(PATIENCE, made).await {
            Ok(made) => drop(made?),
            // The API is not kept waiting for it.
            Err(_) => {
                tracing::warn!(endpoint = %id, ?target, "no consumer can be made: it is tried on, and misses what happens meanwhile")
            }
        }
        let outlet = Outlet {
            id,
            target,
            places: Arc::new(Semaphore::new(places)),
            schedule: webhooks.schedule.clone(),
            sender: Arc::clone(&sender),
            bus: bus.clone(),
            stopping: stopping.clone(),
        };
        let (tracker, stopping) = (tasks.clone(), stopping.clone());
        tasks.spawn(async move {
            stopping.run_until_cancelled(Arc::new(outlet).serve(&tracker)).await;
        });
    }
    Ok(())
}

/// Events of one consumer, and where they go.
#[derive(Debug)]
struct Outlet {
    id: EndpointId,
    target: Target,
    /// For events that are taken and not dealt with.
    places: Arc<Semaphore>,
    schedule: Schedule,
    sender: Arc<Sender>,
    bus: Bus,
    stopping: CancellationToken,
}

#[derive(Debug)]
enum Target {
    Installation(Endpoint),
    /// Each event says by itself.
    Runs(Hosts),
}

/// What came of an attempt.
#[derive(Debug)]
enum Attempt {
    Taken,
    /// It answered something else.
    Refused(StatusCode),
    /// It did not answer, for this reason.
    Silent(String),
}

/// What becomes of a delivery.
#[derive(Debug)]
enum Verdict {
    Done,
    Again(Duration),
    Dead(Death),
}

impl Outlet {
    async fn serve(self: Arc<Self>, tasks: &TaskTracker) {
        loop {
            let served = async {
                let consumer = self.bus.event_consumer(&self.id).await?;
                self.serve_connection(&consumer, tasks).await
            };
            if let Err(error) = served.await {
                tracing::debug!(endpoint = %self.id, %error, "events cannot be taken; trying again");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Takes events as there are places, until the connection is another one: what was asked for on the old one would
    /// be waited for in vain.
    async fn serve_connection(self: &Arc<Self>, consumer: &EventConsumer, tasks: &TaskTracker) -> Result<(), BusError> {
        let connects = self.bus.connects();
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let Ok(first) = Arc::clone(&self.places).acquire_owned().await else { return Ok(()) };
            let mut place = Some(first);
            // Nobody else takes places.
            let most = (self.places.available_permits() + 1).min(BATCH);
            let mut batch = std::pin::pin!(consumer.take(most).await?);
            loop {
                let delivery = tokio::select! {
                    delivery = batch.next() => delivery,
                    _ = tick.tick() => {
                        if self.bus.connects() != connects {
                            return Ok(());
                        }
                        continue;
                    }
                };
                let Some(delivery) = delivery.transpose()? else { break };
                let place = place.take().or_else(|| Arc::clone(&self.places).try_acquire_owned().ok());
                let outlet = Arc::clone(self);
                tasks.spawn(async move {
                    outlet.handle(delivery).await;
                    drop(place);
                });
            }
        }
    }

    async fn handle(&self, delivery: EventDelivery) {
        let verdict = tokio::select! {
            verdict = self.judge(&delivery) => verdict,
            // Another coordinator, or the next one, has it at once.
            () = self.stopping.cancelled() => Verdict::Again(Duration::ZERO),
        };
        match verdict {
            Verdict::Done => delivery.done().await,
            Verdict::Again(wait) => delivery.again_in(wait).await,
            Verdict::Dead(death) => {
                let (event, Death { endpoint, why, attempts }) = (&delivery.event, &death);
                tracing::warn!(event = %event.id, run = %event.run, endpoint, why, attempts, "an event is given up");
                match self.bus.bury(&self.id, event, &death).await {
                    Ok(()) => delivery.done().await,
                    Err(error) => tracing::warn!(%error, "a dead event could not be kept; it comes again"),
                }
            }
        }
    }

    async fn judge(&self, delivery: &EventDelivery) -> Verdict {
        match &self.target {
            Target::Installation(endpoint) => {
                let attempt = self.sender.send(endpoint, &delivery.event).await;
                self.after(endpoint, delivery, attempt)
            }
            Target::Runs(hosts) => match delivery.event.webhook.as_deref().map(Endpoint::parse) {
                None => Verdict::Done,
                Some(Ok(endpoint)) => self.send_to_host(hosts, &endpoint, delivery).await,
                Some(Err(why)) => {
                    tracing::warn!(run = %delivery.event.run, why, "a run's endpoint cannot be used");
                    Verdict::Done
                }
            },
        }
    }

    async fn send_to_host(&self, hosts: &Hosts, endpoint: &Endpoint, delivery: &EventDelivery) -> Verdict {
        let stay = match hosts.enter(&endpoint.origin()) {
            Ok(stay) => stay,
            Err(turned) => return self.turned(endpoint, delivery, turned),
        };
        let mut working = interval(ACK_WAIT / 3);
        working.reset();
        let place = {
            let mut place = std::pin::pin!(stay.place());
            loop {
                tokio::select! {
                    place = &mut place => break place,
                    _ = working.tick() => delivery.working().await,
                }
            }
        };
        match place {
            Ok(_place) => {
                delivery.working().await;
                let attempt = self.sender.send(endpoint, &delivery.event).await;
                stay.report(!matches!(attempt, Attempt::Silent(_)));
                self.after(endpoint, delivery, attempt)
            }
            Err(turned) => self.turned(endpoint, delivery, turned),
        }
    }

    /// There was no place at its host.
    fn turned(&self, endpoint: &Endpoint, delivery: &EventDelivery, turned: Turned) -> Verdict {
        match turned {
            Turned::Failing => {
                let why = "its host did not answer for other events, and was not asked for this one".to_owned();
                self.after(endpoint, delivery, Attempt::Silent(why))
            }
            Turned::Full => {
                let wait = Duration::from_secs(1) * 2u32.pow(delivery.deliveries.saturating_sub(1).min(10));
                Verdict::Again(wait.min(LONGEST_FULL))
            }
        }
    }

    fn after(&self, endpoint: &Endpoint, delivery: &EventDelivery, attempt: Attempt) -> Verdict {
        let event = &delivery.event;
        let age = Timestamp::now().since(delivery.published);
        let next = self.schedule.next(age, delivery.deliveries);
        let (why, wait) = match attempt {
            Attempt::Taken => {
                tracing::debug!(event = %event.id, run = %event.run, ?endpoint, "an endpoint took an event");
                return Verdict::Done;
            }
            Attempt::Refused(StatusCode::GONE) => ("it answered 410 Gone: it wants no more".to_owned(), None),
            Attempt::Refused(status) => (format!("it answered {status}"), next),
            Attempt::Silent(why) => (why, next),
        };
        let Some(wait) = wait else {
            let attempts = self.schedule.attempts(delivery.deliveries);
            return Verdict::Dead(Death { endpoint: endpoint.origin(), why, attempts });
        };
        let again = format_duration(wait);
        tracing::debug!(event = %event.id, run = %event.run, ?endpoint, why, again, "an event was not taken");
        Verdict::Again(wait)
    }
}

/// Makes the requests.
#[derive(Debug)]
struct Sender {
    http: reqwest::Client,
    keys: SigningKeys,
}

impl Sender {
    fn new(keys: SigningKeys) -> reqwest::Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(ATTEMPT)
            .pool_max_idle_per_host(PLACES)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(concat!("rewind/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, keys })
    }

    async fn send(&self, endpoint: &Endpoint, event: &EventMessage) -> Attempt {
        let seconds = Timestamp::now().unix_ms() / 1_000;
        let request = self
            .http
            .post(endpoint.url().clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header("webhook-id", event.id.as_str())
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", self.keys.sign(event.id.as_str(), seconds, &event.body))
            .body(event.body.clone());
        match request.send().await {
            Ok(response) if response.status().is_success() => Attempt::Taken,
            Ok(response) => Attempt::Refused(response.status()),
            Err(error) if error.is_timeout() => {
                Attempt::Silent(format!("no answer within {}", format_duration(ATTEMPT)))
            }
            Err(error) => Attempt::Silent(reason(&error.without_url())),
        }
    }
}

/// Of reqwest's own message only the end says why.
fn reason(error: &reqwest::Error) -> String {
    let mut deepest: &dyn std::error::Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
