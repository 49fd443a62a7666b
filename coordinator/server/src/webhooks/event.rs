//! Which events follow from a run's journal. Pure.

use std::collections::HashMap;

use bytes::Bytes;
use rewind_bus::{
    event::EventMessage,
    journal::{Stored, Summary},
};
use rewind_model::{Event, EventCall, EventData, EventId, EventType, Key, RunId, RunStatus, Seq, Timestamp, ToolName};
use rewind_run::{Call, ParkReason, Record};

use super::endpoint::Endpoint;

/// Something to be told, and what makes its subject one of its own.
#[derive(Debug)]
pub(crate) struct Tell {
    pub(crate) namespace: Option<String>,
    pub(crate) parking: Option<(Seq, u32)>,
    pub(crate) event: EventMessage,
}

/// A call that began to wait for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parking {
    at: Timestamp,
    seq: Seq,
    /// From 1: how often this call has been parked by now.
    n: u32,
    tool: ToolName,
    reason: ParkReason,
}

/// What a journal says that may have to be told, gathered message by message.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// What messages up to here said has been told.
    after: u64,
    /// Sequence of the last message that was gathered.
    pub(crate) sequence: u64,
    /// How often a call was parked in all.
    pub(crate) parkings: u32,
    /// Calls without an outcome, and how often each was parked.
    calls: HashMap<Seq, (ToolName, u32)>,
    new: Vec<Parking>,
    webhook: Option<String>,
}

impl Gathered {
    pub(crate) fn after(sequence: u64) -> Self {
        Self { after: sequence, ..Self::default() }
    }

    pub(crate) fn take(&mut self, stored: &Stored) {
        self.sequence = stored.sequence;
        for record in &stored.entry.records {
            self.record(record);
        }
    }

    /// As [`Gathered::take`], of records that are in no message by themselves.
    pub(crate) fn record(&mut self, record: &Record) {
        let reason = match record {
            Record::Created { spec, .. } => {
                // As it stands in a header: on one line.
                let endpoint = spec.webhook.as_deref().and_then(|url| Endpoint::parse(url).ok());
                self.webhook = endpoint.map(|endpoint| endpoint.url().to_string());
                return;
            }
            Record::Called { seq, call: Call::Tool { tool, .. }, .. } => {
                self.calls.insert(*seq, (tool.clone(), 0));
                ParkReason::Approval
            }
            Record::Parked { reason, .. } => *reason,
            Record::Completed { seq, .. } | Record::Rejected { seq, .. } | Record::Taken { seq, .. } => {
                self.calls.remove(seq);
                return;
            }
            _ => return,
        };
        let (Record::Called { at, seq, .. } | Record::Parked { at, seq, .. }) = record else { return };
        if !record.parks() {
            return;
        }
        self.parkings += 1;
        if let Some((tool, n)) = self.calls.get_mut(seq) {
            *n += 1;
            if self.sequence > self.after {
                self.new.push(Parking { at: *at, seq: *seq, n: *n, tool: tool.clone(), reason });
            }
        }
    }

    /// What is to be told of the run, as it is by `summary`.
    pub(crate) fn events(&self, run: &RunId, summary: &Summary) -> Vec<Tell> {
        let parkings = self.new.iter().map(|parking| self.of_parking(run, summary, parking));
        parkings.chain(self.of_end(run, summary)).collect()
    }

    fn of_parking(&self, run: &RunId, summary: &Summary, parking: &Parking) -> Tell {
        let kind = match parking.reason {
            ParkReason::Approval => EventType::ApprovalRequired,
            ParkReason::SchemaChanged => EventType::SchemaChanged,
            ParkReason::Credentials => EventType::CredentialsExpired,
        };
        let call = EventCall {
            key: Key { run: run.clone(), seq: parking.seq },
            seq: parking.seq,
            tool: parking.tool.clone(),
            reason: parking.reason.as_str().to_owned(),
        };
        let data = EventData { call: Some(call), ..data(run, summary) };
        let event = Event { kind, timestamp: parking.at, data };
        self.tell(event, Some((parking.seq, parking.n)))
    }

    fn of_end(&self, run: &RunId, summary: &Summary) -> Option<Tell> {
        let kind = match summary.status {
            RunStatus::Completed => EventType::RunCompleted,
            RunStatus::Failed => EventType::RunFailed,
            RunStatus::Cancelled => EventType::RunCancelled,
            RunStatus::Queued | RunStatus::Running | RunStatus::Waiting => return None,
        };
        let data = EventData {
            status: Some(summary.status),
            error_code: summary.error_code.clone(),
            parent: summary.parent.clone(),
            ..data(run, summary)
        };
        let timestamp = summary.ended_at.unwrap_or(summary.created_at);
        Some(self.tell(Event { kind, timestamp, data }, None))
    }

    fn tell(&self, event: Event, parking: Option<(Seq, u32)>) -> Tell {
        let (run, kind) = (event.data.run.clone(), event.kind);
        let (seq, n) = parking.unwrap_or_default();
        let id = EventId::of(kind, &run, seq, n);
        // There is nothing in it that JSON has no form for.
        let body = Bytes::from(serde_json::to_vec(&event).unwrap_or_default());
        let message = EventMessage { id, kind, run, body, webhook: self.webhook.clone() };
        Tell { namespace: event.data.namespace, parking, event: message }
    }
}

fn data(run: &RunId, summary: &Summary) -> EventData {
    EventData {
        run: run.clone(),
        namespace: summary.namespace.clone(),
        labels: summary.labels.clone(),
        status: None,
        error_code: None,
        parent: None,
        call: None,
    }
}

#[cfg(test)]
mod tests {
    use rewind_model::{CallCounts, Digest, Json, Outcome, Payload, ToolFailure, ToolsetId};
    use rewind_run::{Entry, Terms};
    use serde_json::{Value, json};

    use super::*;

    const AT: Timestamp = Timestamp::from_unix_ms(1_000);

    fn summary(status: RunStatus) -> Summary {
        Summary {
            status,
            toolset: ToolsetId::of_bytes(b"t"),
            script: Digest::of("s"),
            namespace: Some("ada".into()),
            labels: [("team".to_owned(), "7".to_owned())].into(),
            calls: CallCounts::default(),
            parked: 0,
            parkings: 0,
            deferred: 0,
            parent: None,
            forked_from: None,
            error_code: None,
            webhook: false,
            created_at: AT,
            started_at: None,
            ended_at: status.ended().then_some(AT),
        }
    }

    fn called(seq: Seq, approval: bool) -> Record {
        let arguments = Payload::Inline(Json::parse(r#"{"card":"s3cret"}"#).expect("JSON"));
        let terms = Terms { approval, ..Terms::default() };
        let tool = ToolName::new("bank", "pay");
        Record::Called { at: AT, seq, call: Call::Tool { tool, arguments, raw: false, terms, origin: None } }
    }

    fn parked(seq: Seq, reason: ParkReason) -> Record {
        Record::Parked { at: AT, seq, attempt: 1, reason, detail: "it held s3cret".into() }
    }

    fn gathered(after: u64, messages: &[(u64, Vec<Record>)]) -> Gathered {
        let mut gathered = Gathered::after(after);
        for (sequence, records) in messages {
            gathered.take(&Stored { sequence: *sequence, entry: Entry::new(records.clone()) });
        }
        gathered
    }

    fn bodies(tells: &[Tell]) -> Vec<Value> {
        tells.iter().map(|tell| serde_json::from_slice(&tell.event.body).expect("JSON")).collect()
    }

    #[test]
    fn each_parking_is_one_event_without_what_the_call_carries() {
        let run = RunId::of_bytes(b"r");
        let approved = Record::Approved { at: AT, seq: 1, decision: "d".into(), by: None };
        let journal = [
            (1, vec![called(1, true), called(2, false)]),
            (5, vec![parked(2, ParkReason::SchemaChanged), approved]),
            (6, vec![parked(1, ParkReason::Credentials)]),
        ];
        let told = gathered(0, &journal);
        assert_eq!((told.parkings, told.sequence), (3, 6));
        let tells = told.events(&run, &summary(RunStatus::Waiting));
        let kinds: Vec<_> = tells.iter().map(|tell| (tell.event.kind, tell.parking)).collect();
        assert_eq!(
            kinds,
            [
                (EventType::ApprovalRequired, Some((1, 1))),
                (EventType::SchemaChanged, Some((2, 1))),
                (EventType::CredentialsExpired, Some((1, 2)))
            ]
        );
        let bodies = bodies(&tells);
        assert_eq!(
            bodies[1],
            json!({"type": "tool.schema_changed", "timestamp": "1970-01-01T00:00:01Z", "data": {
                "run": run, "namespace": "ada", "labels": {"team": "7"},
                "call": {"key": format!("{run}/2"), "seq": 2, "tool": "bank.pay", "reason": "schema_changed"}}})
        );
        assert!(!format!("{bodies:?}").contains("s3cret"));
    }

    #[test]
    fn what_was_told_is_not_told_again_and_ids_stay() {
        let run = RunId::of_bytes(b"r");
        let journal = [(3, vec![called(1, true)]), (4, vec![called(2, true)])];
        let ids = |after| -> Vec<EventId> {
            let tells = gathered(after, &journal).events(&run, &summary(RunStatus::Waiting));
            tells.into_iter().map(|tell| tell.event.id).collect()
        };
        assert_eq!(ids(3), ids(0)[1..]);
        assert_eq!(ids(4), []);
    }

    #[test]
    fn an_end_is_told_with_its_code_and_nothing_else_of_the_error() {
        let run = RunId::of_bytes(b"r");
        let failed = Summary { error_code: Some("tool_failed".into()), ..summary(RunStatus::Failed) };
        let outcome = Outcome::Err(ToolFailure::new(rewind_model::ErrorCode::ToolFailed, "it held s3cret"));
        let journal =
            [(1, vec![called(1, false)]), (2, vec![Record::Completed { at: AT, seq: 1, attempt: 1, outcome }])];
        let tells = gathered(0, &journal).events(&run, &failed);
        let bodies = bodies(&tells);
        assert_eq!(bodies.len(), 1);
        assert_eq!(
            (&bodies[0]["type"], &bodies[0]["data"]["error_code"]),
            (&json!("run.failed"), &json!("tool_failed"))
        );
        assert_eq!(bodies[0]["data"]["status"], "failed");
        assert!(!bodies[0].to_string().contains("s3cret"));
        for status in [RunStatus::Queued, RunStatus::Running, RunStatus::Waiting] {
            assert!(gathered(0, &[]).events(&run, &summary(status)).is_empty());
        }
    }
}
