//! A run's journal as people read it: records of the same call put together.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt};
use rewind_bus::{BusError, journal::Stored};
use rewind_model::{
    Adoption, CallEvent, Diverged, Excerpt, Journal, JournalCall, Json, Key, LogLine, Outcome, Payload, RunId, Seq,
    Timestamp, ToolFailure,
};
use rewind_run::{Call, Record, Taken};

use crate::{app::App, refusal::Refusal, run_view};

/// Calls of one page.
const PAGE: usize = 500;
/// Events of one call.
const MOST_EVENTS: usize = 100;
/// Bytes of an excerpt's text.
const EXCERPT: usize = 1 << 10;
/// Blobs whose beginnings are read at once, and tools whose workers are looked for.
const AT_ONCE: usize = 8;

/// The calls after call number `after`.
///
/// # Errors
/// `unknown-run`, `store-unavailable`.
pub(crate) async fn read(app: &App, run: &RunId, after: Seq) -> Result<Journal, Refusal> {
    let stored = app.store.ask(|bus| bus.read(run)).await?;
    if stored.is_empty() {
        return Err(run_view::missing(app, run).await?);
    }
    let mut history = History::new(run);
    stored.iter().for_each(|stored| history.entry(stored));
    let mut journal = history.page(after);
    fill_in(app, &mut journal).await?;
    name_waiting(app, &mut journal).await?;
    Ok(journal)
}

/// Tells calls that no worker is there for from those that one works on.
async fn name_waiting(app: &App, journal: &mut Journal) -> Result<(), Refusal> {
    fn waiting(call: &JournalCall) -> Option<&str> {
        call.tool.strip_prefix("host.").filter(|_| call.status == "pending")
    }
    let tools: BTreeSet<String> = journal.items.iter().filter_map(waiting).map(str::to_owned).collect();
    let looks = tools.into_iter().map(|tool| async move {
        let there = app.store.ask(|bus| bus.has_host_worker(&tool)).await?;
        Ok::<_, Refusal>((tool, there))
    });
    let workers: BTreeMap<_, _> = futures::stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await?;
    for call in &mut journal.items {
        if waiting(call).is_some_and(|tool| workers.get(tool) == Some(&false)) {
            call.status = "no_worker".into();
        }
    }
    Ok(())
}

/// Reads the beginnings of what is kept as blobs.
async fn fill_in(app: &App, journal: &mut Journal) -> Result<(), Refusal> {
    let calls = journal.items.iter_mut();
    let excerpts = calls.flat_map(|call| [Some(&mut call.arguments), call.result.as_mut()].into_iter().flatten());
    let missing = excerpts.filter(|excerpt| excerpt.text.is_empty() && excerpt.bytes > 0);
    futures::stream::iter(missing.map(Ok))
        .try_for_each_concurrent(AT_ONCE, |excerpt| async move {
            match app.store.attempt(|bus| bus.blob_head(excerpt.sha256, EXCERPT)).await? {
                Ok(head) => excerpt.text = beginning(&String::from_utf8_lossy(&head), EXCERPT),
                // One that is gone takes nothing else along.
                Err(BusError::BlobMissing(_)) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        })
        .await
}

struct History<'r> {
    run: &'r RunId,
    calls: BTreeMap<Seq, JournalCall>,
    workflows: Vec<Seq>,
    logs: Vec<LogLine>,
    adoptions: Vec<Adoption>,
    forked_from: Option<RunId>,
    diverged: Option<Diverged>,
    run_ended: bool,
    appends: u64,
}

impl<'r> History<'r> {
    fn new(run: &'r RunId) -> Self {
        Self {
            run,
            calls: BTreeMap::new(),
            workflows: Vec::new(),
            logs: Vec::new(),
            adoptions: Vec::new(),
            forked_from: None,
            diverged: None,
            run_ended: false,
            appends: 0,
        }
    }

    fn entry(&mut self, stored: &Stored) {
        self.appends += 1;
        stored.entry.records.iter().for_each(|record| self.record(record));
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Called { at, seq, call } => {
                let (tool, arguments) = match call {
                    Call::Tool { tool, arguments, .. } => (tool.to_string(), excerpt(arguments, EXCERPT)),
                    Call::Sleep { until, .. } => ("sleep".to_owned(), excerpt(&Payload::Inline(time(*until)), EXCERPT)),
                };
                self.called(*at, *seq, tool, arguments);
                if call.is_workflow() {
                    self.workflows.push(*seq);
                }
                if let (Some(_), Some(shown)) = (call.origin(), self.calls.get_mut(seq)) {
                    shown.recorded = true;
                    shown.attempts = 0;
                } else if call.terms().approval
                    && let Some(shown) = self.calls.get_mut(seq)
                {
                    shown.status = "parked".into();
                    shown.attempts = 0;
                }
            }
            Record::Refused { at, seq, tool, arguments, failure, .. } => {
                let arguments = Excerpt { text: String::new(), bytes: 0, sha256: *arguments };
                self.called(*at, *seq, tool.to_string(), arguments);
                self.ended(*at, *seq, 0, Err(failure));
            }
            Record::AttemptFailed { at, seq, attempt, failure, .. } => {
                if let Some(call) = self.event(*at, *seq, record, Some(&failure.message)) {
                    call.attempts = attempt + 1;
                }
            }
            Record::Retried { at, seq, attempt } => {
                if let Some(call) = self.event(*at, *seq, record, None) {
                    call.attempts = *attempt;
                }
            }
            Record::Parked { at, seq, detail, .. } => {
                if let Some(call) = self.event(*at, *seq, record, Some(detail)) {
                    call.status = "parked".into();
                    call.attempts = call.attempts.saturating_sub(1);
                }
            }
            Record::Approved { at, seq, by, .. } => {
                if let Some(call) = self.event(*at, *seq, record, by.as_ref()) {
                    call.status = "pending".into();
                    call.attempts += 1;
                }
            }
            Record::Deferred { at, seq, attempt } => {
                if let Some(call) = self.event(*at, *seq, record, None) {
                    call.status = "deferred".into();
                    call.attempts = *attempt;
                }
            }
            Record::Rejected { at, seq, by, failure, .. } => {
                let attempts = self.event(*at, *seq, record, by.as_ref()).map_or(0, |call| call.attempts);
                self.ended(*at, *seq, attempts, Err(failure));
            }
            Record::Taken { at, seq, taken, .. } => match taken {
                Taken::Outcome(Outcome::Ok(payload)) => self.ended(*at, *seq, 0, Ok(Some(excerpt(payload, EXCERPT)))),
                Taken::Outcome(Outcome::Err(failure)) => self.ended(*at, *seq, 0, Err(failure)),
                Taken::Slept => self.ended(*at, *seq, 0, Ok(None)),
            },
            Record::Diverged { seq, then, now, .. } => {
                self.diverged = Some(Diverged { seq: *seq, then: then.clone(), now: now.clone() });
            }
            Record::Completed { at, seq, attempt, outcome } => match outcome {
                Outcome::Ok(payload) => self.ended(*at, *seq, *attempt, Ok(Some(excerpt(payload, EXCERPT)))),
                Outcome::Err(failure) => self.ended(*at, *seq, *attempt, Err(failure)),
            },
            Record::Fired { at, seq } => self.ended(*at, *seq, 1, Ok(None)),
            Record::Logged { at, level, text } => {
                self.logs.push(LogLine { level: level.clone(), text: text.clone(), at: *at });
            }
            Record::Adopted { at, node, epoch } => {
                self.adoptions.push(Adoption { node: node.to_string(), epoch: *epoch, at: *at });
            }
            Record::Created { spec, .. } => {
                self.forked_from = spec.past.as_ref().and_then(|past| past.forked_from.clone());
            }
            Record::Ended { .. } => self.run_ended = true,
            Record::Waiting { .. } => {}
        }
    }

    fn called(&mut self, at: Timestamp, seq: Seq, tool: String, arguments: Excerpt) {
        let call = JournalCall {
            seq,
            tool,
            key: Key { run: self.run.clone(), seq },
            status: "pending".into(),
            child: None,
            attempts: 1,
            called_at: at,
            ms: None,
            arguments,
            result: None,
            error: None,
            recorded: false,
            events: Vec::new(),
        };
        self.calls.insert(seq, call);
    }

    /// Notes what happened to a call, and gives that.
    fn event(&mut self, at: Timestamp, seq: Seq, record: &Record, detail: Option<&String>) -> Option<&mut JournalCall> {
        let call = self.calls.get_mut(&seq)?;
        if call.events.len() < MOST_EVENTS {
            let detail = detail.map(|detail| beginning(detail, EXCERPT));
            call.events.push(CallEvent { at, event: record.name().into(), detail });
        }
        Some(call)
    }

    fn ended(&mut self, at: Timestamp, seq: Seq, attempts: u32, outcome: Result<Option<Excerpt>, &ToolFailure>) {
        let Some(call) = self.calls.get_mut(&seq) else { return };
        call.attempts = attempts;
        call.ms = u64::try_from(at.since(call.called_at).as_millis()).ok();
        match outcome {
            Ok(result) => {
                call.status = "ok".into();
                call.result = result;
            }
            Err(failure) => {
                call.status = failure.code.to_string();
                call.error = Some(failure.message.clone());
            }
        }
    }

    fn page(mut self, after: Seq) -> Journal {
        for seq in &self.workflows {
            // Parked, rejected or taken from another run, it is no run.
            if let Some(call) = self.calls.get_mut(seq).filter(|call| call.attempts > 0) {
                call.child = Some(call.key.workflow_run());
            }
        }
        if self.run_ended {
            let open = |call: &&mut JournalCall| matches!(&*call.status, "pending" | "parked" | "deferred");
            self.calls.values_mut().filter(open).for_each(|call| call.status = "abandoned".into());
        }
        let mut items: Vec<_> = self.calls.into_values().filter(|call| call.seq > after).take(PAGE + 1).collect();
        let more = items.len() > PAGE;
        items.truncate(PAGE);
        let next_cursor = items.last().filter(|_| more).map(|call| call.seq.to_string());
        let (logs, adoptions) = if after == 0 { (self.logs, self.adoptions) } else { (Vec::new(), Vec::new()) };
        let Self { forked_from, diverged, appends, .. } = self;
        Journal { items, logs, adoptions, forked_from, diverged, appends, next_cursor }
    }
}

fn time(at: Timestamp) -> Json {
    // An RFC 3339 text has nothing that JSON escapes.
    Json::from(serde_json::Value::String(at.to_string()))
}

/// The beginning of a payload, at most `limit` bytes; of a blob nothing yet.
pub(crate) fn excerpt(payload: &Payload, limit: usize) -> Excerpt {
    let text = match payload {
        Payload::Inline(json) => beginning(json.as_str(), limit),
        Payload::Blob { .. } => String::new(),
    };
    Excerpt { text, bytes: payload.size(), sha256: payload.digest() }
}

fn beginning(text: &str, limit: usize) -> String {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // A character that the cut of a blob's beginning has broken.
    text[..end].trim_end_matches('\u{fffd}').to_owned()
}

#[cfg(test)]
mod tests {
    use rewind_model::{Digest, ErrorCode, NodeId, ToolName};
    use rewind_run::Entry;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    fn called(seq: Seq, arguments: String) -> Record {
        let arguments = Payload::Inline(Json::parse(arguments).expect("JSON"));
        Record::Called {
            at: at(10),
            seq,
            call: Call::Tool {
                tool: ToolName::new("host", "t"),
                arguments,
                raw: false,
                terms: rewind_run::Terms::default(),
                origin: None,
            },
        }
    }

    fn view(records: Vec<Record>, after: Seq) -> Journal {
        let run = RunId::of_bytes(b"r");
        let mut history = History::new(&run);
        records.into_iter().for_each(|record| history.entry(&Stored { sequence: 1, entry: Entry::new(vec![record]) }));
        history.page(after)
    }

    #[test]
    fn a_call_is_put_together_from_its_records() {
        let failure = ToolFailure::new(ErrorCode::Unavailable, "gone");
        let journal = view(
            vec![
                Record::Adopted { at: at(1), node: NodeId::random(), epoch: 3 },
                called(1, "{}".into()),
                called(2, "{}".into()),
                Record::Called { at: at(11), seq: 3, call: Call::Sleep { until: at(99), origin: None } },
                Record::AttemptFailed { at: at(12), seq: 2, attempt: 1, failure: failure.clone(), retry_at: at(13) },
                Record::Completed {
                    at: at(15),
                    seq: 1,
                    attempt: 1,
                    outcome: Outcome::Ok(Payload::Inline(Json::null())),
                },
                Record::Completed { at: at(40), seq: 2, attempt: 5, outcome: Outcome::Err(failure) },
                Record::Logged { at: at(41), level: "log".into(), text: "hello".into() },
            ],
            0,
        );
        let shown: Vec<_> = journal
            .items
            .iter()
            .map(|call| (call.tool.as_str(), call.status.as_str(), call.attempts, call.ms))
            .collect();
        assert_eq!(
            shown,
            [("host.t", "ok", 1, Some(5)), ("host.t", "unavailable", 5, Some(30)), ("sleep", "pending", 1, None)]
        );
        assert_eq!(journal.items[0].result.as_ref().map(|result| result.text.as_str()), Some("null"));
        assert_eq!(journal.items[1].error.as_deref(), Some("gone"));
        assert_eq!((journal.appends, journal.logs.len(), journal.adoptions[0].epoch), (8, 1, 3));
    }

    #[test]
    fn what_an_ended_run_left_is_abandoned() {
        let sleeps = Record::Called { at: at(11), seq: 2, call: Call::Sleep { until: at(99), origin: None } };
        let done =
            Record::Completed { at: at(15), seq: 1, attempt: 1, outcome: Outcome::Ok(Payload::Inline(Json::null())) };
        let ended = Record::Ended { at: at(20), end: rewind_run::End::Cancelled };
        let journal = view(vec![called(1, "{}".into()), sleeps, called(3, "{}".into()), done, ended], 0);
        let shown: Vec<_> = journal.items.iter().map(|call| call.status.as_str()).collect();
        assert_eq!(shown, ["ok", "abandoned", "abandoned"]);
    }

    #[test]
    fn excerpts_are_cut_between_characters_and_keep_the_size_of_the_whole() {
        let text = format!("\"{}\"", "é".repeat(1_000));
        let journal = view(vec![called(1, text.clone())], 0);
        let excerpt = &journal.items[0].arguments;
        assert!(excerpt.text.len() <= EXCERPT && text.starts_with(&excerpt.text));
        assert_eq!((excerpt.bytes, excerpt.sha256), (2_002, Digest::of(text)));
    }

    #[test]
    fn pages_follow_each_other() {
        let records: Vec<_> = (1..=1_200).map(|seq| called(seq, "{}".into())).collect();
        let (mut seen, mut after) = (0, 0);
        loop {
            let page = view(records.clone(), after);
            assert!(page.items.iter().all(|call| call.seq > after));
            seen += page.items.len();
            let Some(next) = page.next_cursor else { break };
            after = next.parse().expect("a number");
        }
        assert_eq!(seen, 1_200);
    }
}
