//! How fast a journal is read and folded: a run of 10,000 calls, each called and completed.
//!
//! `cargo run --release -p rewind-run --example fold_speed`
#![allow(clippy::print_stdout, reason = "the measure is its output")]

use std::{
    collections::BTreeMap,
    error::Error,
    hint::black_box,
    time::{Duration, Instant},
};

use rewind_model::{
    Digest, Json, Limits, NodeId, Outcome, Payload, RunId, Seq, Timestamp, ToolName, ToolsetId, TraceContext,
};
use rewind_run::{Call, Entry, Record, Run, Spec};

const CALLS: Seq = 10_000;
const ROUNDS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let run = RunId::of_bytes(b"fold_speed");
    for (name, entries) in [("one after another", sequential(&run)?), ("all at once", parallel(&run)?)] {
        let bytes = entries.iter().map(Entry::to_bytes).collect::<Result<Vec<_>, _>>()?;
        let records: usize = entries.iter().map(|entry| entry.records.len()).sum();
        let size: usize = bytes.iter().map(Vec::len).sum();
        println!("{name}: {CALLS} calls, {records} records in {} messages, {} KiB", bytes.len(), size / 1024);
        report("fold", records, measure(|| fold(&run, &entries))?);
        report("decode and fold", records, measure(|| decode_and_fold(&run, &bytes))?);
    }
    Ok(())
}

fn report(what: &str, records: usize, took: Duration) {
    let rate = records as f64 / took.as_secs_f64();
    println!("  {what}: {:.2} ms, {:.2} M records/s", took.as_secs_f64() * 1e3, rate / 1e6);
}

/// The shortest of some rounds: the others were disturbed.
fn measure(work: impl Fn() -> Result<Run, Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let mut shortest = Duration::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        black_box(work()?);
        shortest = shortest.min(start.elapsed());
    }
    Ok(shortest)
}

fn fold(run: &RunId, entries: &[Entry]) -> Result<Run, Box<dyn Error>> {
    let mut folded = Run::new(run.clone(), Limits::DEFAULT);
    for record in entries.iter().flat_map(|entry| &entry.records) {
        folded.fold(record)?;
    }
    Ok(folded)
}

fn decode_and_fold(run: &RunId, bytes: &[Vec<u8>]) -> Result<Run, Box<dyn Error>> {
    let mut folded = Run::new(run.clone(), Limits::DEFAULT);
    for message in bytes {
        for record in &Entry::from_bytes(message)?.records {
            folded.fold(record)?;
        }
    }
    Ok(folded)
}

/// Each result and the next call in one message, as a script that awaits each call writes them.
fn sequential(run: &RunId) -> Result<Vec<Entry>, Box<dyn Error>> {
    let mut entries = vec![begin(run), Entry::new(vec![called(1)?])];
    for seq in 1..CALLS {
        entries.push(Entry::new(vec![completed(seq)?, called(seq + 1)?]));
    }
    entries.push(Entry::new(vec![completed(CALLS)?]));
    Ok(entries)
}

/// One `Promise.all`: all but the first hundred calls are queued.
fn parallel(run: &RunId) -> Result<Vec<Entry>, Box<dyn Error>> {
    let mut entries = vec![begin(run)];
    entries.push(Entry::new((1..=CALLS).map(called).collect::<Result<_, _>>()?));
    for seq in 1..=CALLS {
        entries.push(Entry::new(vec![completed(seq)?]));
    }
    Ok(entries)
}

fn begin(run: &RunId) -> Entry {
    let spec = Spec {
        toolset: ToolsetId::of_bytes(b"fold_speed"),
        script: Digest::of("script"),
        input: Payload::Inline(Json::null()),
        namespace: None,
        labels: BTreeMap::new(),
        request: Digest::of("request"),
        trace: TraceContext::of_run(run),
        calls_in_flight: 100,
        parent: None,
        deadline: None,
        webhook: None,
        past: None,
        plan: false,
    };
    let at = Timestamp::from_unix_ms(0);
    Entry::new(vec![
        Record::Created { at, spec: Box::new(spec) },
        Record::Adopted { at, node: NodeId::of_bytes(b"node"), epoch: 1 },
    ])
}

fn called(seq: Seq) -> Result<Record, serde_json::Error> {
    let arguments = Payload::Inline(Json::parse(format!("{{\"title\":\"Issue {seq}\",\"labels\":[\"bug\"]}}"))?);
    let call = Call::Tool {
        tool: ToolName::new("github", "create_issue"),
        arguments,
        raw: false,
        terms: rewind_run::Terms::default(),
        origin: None,
    };
    Ok(Record::Called { at: Timestamp::from_unix_ms(seq.into()), seq, call })
}

fn completed(seq: Seq) -> Result<Record, serde_json::Error> {
    let result = format!("{{\"number\":{seq},\"state\":\"open\",\"url\":\"https://example.com/issues/{seq}\"}}");
    let outcome = Outcome::Ok(Payload::Inline(Json::parse(result)?));
    Ok(Record::Completed { at: Timestamp::from_unix_ms(seq.into()), seq, attempt: 1, outcome })
}
