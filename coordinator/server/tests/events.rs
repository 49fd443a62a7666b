//! What is told of runs, whoever led when it happened. Tests play the node, and read the stream of events.

mod support;

use std::{collections::BTreeMap, time::Instant};

use futures::StreamExt;
use rewind_bus::{
    Bus,
    event::{EndpointId, EventMessage},
    journal::Summary,
};
use rewind_model::{
    Digest, EventType, Json, Limits, NodeId, Payload, RunId, Seq, Timestamp, ToolName, ToolsetId, TraceContext,
};
use rewind_run::{Call, End, Entry, ParkReason, Record, Run, Spec, Terms};
use support::{Coordinator, Nats, eventually};

/// A run whose journal the test writes.
struct Journal {
    run: Run,
    last: u64,
}

impl Journal {
    async fn begin(bus: &Bus, n: u64) -> Self {
        let id = RunId::of_bytes(format!("{n} of {:?}", Instant::now()).as_bytes());
        let spec = Spec {
            toolset: ToolsetId::of_bytes(b"t"),
            script: Digest::of("s"),
            input: Payload::Inline(Json::null()),
            namespace: None,
            labels: BTreeMap::new(),
            request: Digest::of("r"),
            trace: TraceContext::of_run(&id),
            calls_in_flight: 100,
            parent: None,
            deadline: None,
            webhook: None,
            past: None,
            plan: false,
        };
        let mut journal = Self { run: Run::new(id, Limits::DEFAULT), last: 0 };
        let at = Timestamp::now();
        journal.append(bus, vec![Record::Created { at, spec: Box::new(spec) }]).await;
        journal.append(bus, vec![Record::Adopted { at, node: NodeId::random(), epoch: 1 }]).await;
        journal
    }

    async fn append(&mut self, bus: &Bus, records: Vec<Record>) {
        for record in &records {
            self.run.fold(record).expect("legal");
        }
        let summary = Summary::of(&self.run, Timestamp::now()).expect("created");
        let entry = Entry::new(records);
        self.last = bus.append(self.run.id(), &summary, &entry, self.last).await.expect("appended");
    }

    async fn call(&mut self, bus: &Bus, seq: Seq, approval: bool) {
        let terms = Terms { approval, ..Terms::default() };
        let (tool, arguments) = (ToolName::new("bank", "pay"), Payload::Inline(Json::null()));
        let call = Call::Tool { tool, arguments, raw: false, terms, origin: None };
        self.append(bus, vec![Record::Called { at: Timestamp::now(), seq, call }]).await;
    }

    async fn park(&mut self, bus: &Bus, seq: Seq, reason: ParkReason) {
        let parked = Record::Parked { at: Timestamp::now(), seq, attempt: 1, reason, detail: String::new() };
        self.append(bus, vec![parked]).await;
    }

    async fn approve(&mut self, bus: &Bus, seq: Seq) {
        self.append(bus, vec![Record::Approved { at: Timestamp::now(), seq, decision: "d".into(), by: None }]).await;
    }

    async fn end(&mut self, bus: &Bus) {
        let end = End::Completed { result: Payload::Inline(Json::null()) };
        self.append(bus, vec![Record::Ended { at: Timestamp::now(), end }]).await;
    }

    fn told(&self, events: &[EventMessage]) -> Vec<EventType> {
        events.iter().filter(|event| event.run == *self.run.id()).map(|event| event.kind).collect()
    }
}

/// The stream, message by message, until there are `count`; more than that is found by the next look.
async fn events(bus: &Bus, seen: &mut Vec<EventMessage>, count: usize) {
    let consumer = bus.event_consumer(&EndpointId::runs()).await.expect("a consumer");
    eventually("the events are told", || async {
        let most = (count - seen.len()).clamp(1, 500);
        let mut batch = std::pin::pin!(consumer.take(most).await.ok()?);
        let mut came = Vec::new();
        while came.len() < count - seen.len()
            && let Some(Ok(delivery)) = batch.next().await
        {
            came.push(delivery.event.clone());
            delivery.done().await;
        }
        Some(came)
    })
    .await
    .into_iter()
    .for_each(|event| seen.push(event));
}

use EventType::{ApprovalRequired, CredentialsExpired, RunCompleted, SchemaChanged};

#[tokio::test]
async fn what_happens_while_nobody_leads_is_told_once_by_who_leads_next() {
    let nats = Nats::start();
    let bus = nats.bus().await;
    let mut first = Coordinator::start(&nats).await;
    let mut seen = Vec::new();
    // Parked, decided, parked again for another reason, and over, before anybody looks.
    let mut quick = Journal::begin(&bus, 1).await;
    let mut waits = Journal::begin(&bus, 2).await;
    waits.call(&bus, 1, true).await;
    events(&bus, &mut seen, 1).await;
    first.kill();
    quick.call(&bus, 1, true).await;
    quick.approve(&bus, 1).await;
    quick.park(&bus, 1, ParkReason::SchemaChanged).await;
    quick.approve(&bus, 1).await;
    quick.park(&bus, 1, ParkReason::Credentials).await;
    quick.end(&bus).await;
    waits.approve(&bus, 1).await;
    waits.park(&bus, 1, ParkReason::Credentials).await;
    waits.approve(&bus, 1).await;
    let mut next = Coordinator::start(&nats).await;
    events(&bus, &mut seen, 6).await;
    let mut told = quick.told(&seen);
    told.sort();
    assert_eq!(told, [RunCompleted, ApprovalRequired, CredentialsExpired, SchemaChanged]);
    // The same reason a second time is a parking of its own.
    waits.park(&bus, 1, ParkReason::Credentials).await;
    events(&bus, &mut seen, 7).await;
    assert_eq!(waits.told(&seen), [ApprovalRequired, CredentialsExpired, CredentialsExpired]);

    // One that knows nothing of what was told tells it again, in vain.
    next.kill();
    bus.set_event_cursor(0).await.expect("set");
    let _last = Coordinator::start(&nats).await;
    waits.end(&bus).await;
    events(&bus, &mut seen, 8).await;
    assert_eq!(waits.told(&seen)[3..], [RunCompleted]);
    let cursor = eventually("all is told", || async {
        let cursor = bus.event_cursor().await.ok()?;
        (cursor >= waits.last).then_some(cursor)
    })
    .await;
    assert_eq!(cursor, waits.last);
    let mut ids: Vec<_> = seen.iter().map(|event| event.id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8);
}

#[tokio::test]
async fn many_runs_that_end_are_all_told_and_soon() {
    const RUNS: usize = 2_000;
    let nats = Nats::start();
    let bus = nats.bus().await;
    let coordinator = Coordinator::start(&nats).await;
    let begun = Instant::now();
    let runs = futures::stream::iter(0..RUNS as u64).map(async |n| {
        let mut journal = Journal::begin(&bus, n).await;
        journal.end(&bus).await;
    });
    runs.buffer_unordered(32).collect::<Vec<()>>().await;
    let journaled = begun.elapsed();
    let mut seen = Vec::new();
    while seen.len() < RUNS {
        events(&bus, &mut seen, RUNS).await;
    }
    eprintln!("{RUNS} runs journaled in {journaled:?}, all told after {:?}", begun.elapsed());
    assert!(seen.iter().all(|event| event.kind == RunCompleted));
    drop(coordinator);
}
