//! One record of every shape that a journal can hold.
#![allow(dead_code, reason = "each test binary uses some of them")]

use std::collections::BTreeMap;

use rewind_model::{
    Digest, ErrorCode, Json, Key, NodeId, Outcome, Payload, RunError, RunId, Timestamp, ToolFailure, ToolName,
    ToolsetId, TraceContext,
};
use rewind_run::{Call, Clock, End, Origin, Parent, ParkReason, Past, Record, Spec, Taken, Terms};

/// Names the shape of a value, and lists all names: a variant without a name does not compile, and
/// a name without a golden file fails the test.
macro_rules! shapes {
    ($list:ident, $name:ident($type:ty) { $($pattern:pat => $shape:literal,)* }) => {
        pub(crate) const $list: &[&str] = &[$($shape),*];
        pub(crate) fn $name(value: &$type) -> &'static str {
            match value { $($pattern => $shape,)* }
        }
    };
}

shapes!(RECORDS, record_shape(Record) {
    Record::Created { .. } => "created",
    Record::Adopted { .. } => "adopted",
    Record::Called { .. } => "called",
    Record::Refused { .. } => "refused",
    Record::AttemptFailed { .. } => "attempt_failed",
    Record::Retried { .. } => "retried",
    Record::Parked { .. } => "parked",
    Record::Approved { .. } => "approved",
    Record::Rejected { .. } => "rejected",
    Record::Deferred { .. } => "deferred",
    Record::Taken { .. } => "taken",
    Record::Diverged { .. } => "diverged",
    Record::Completed { .. } => "completed",
    Record::Fired { .. } => "fired",
    Record::Logged { .. } => "logged",
    Record::Waiting { .. } => "waiting",
    Record::Ended { .. } => "ended",
});
shapes!(DECIDERS, decider_shape(Option<String>) {
    None => "by nobody known",
    Some(_) => "by somebody",
});
shapes!(CALLS, call_shape(Call) {
    Call::Tool { raw: false, .. } => "tool",
    Call::Tool { raw: true, .. } => "tool, raw",
    Call::Sleep { .. } => "sleep",
});
shapes!(TERMS, terms_shape(Terms) {
    Terms { at_most_once: false, approval: false, park_ms: _ } => "usual terms",
    Terms { at_most_once: true, approval: false, park_ms: _ } => "at most once",
    Terms { at_most_once: false, approval: true, park_ms: _ } => "with approval",
    Terms { at_most_once: true, approval: true, park_ms: _ } => "at most once, with approval",
});
shapes!(PARK_LIMITS, park_limit_shape(Terms) {
    Terms { park_ms: None, .. } => "without park limit",
    Terms { park_ms: Some(_), .. } => "with park limit",
});
shapes!(REASONS, reason_shape(ParkReason) {
    ParkReason::Approval => "parked for approval",
    ParkReason::SchemaChanged => "parked for its schema",
    ParkReason::Credentials => "parked for credentials",
});
shapes!(ORIGINS, origin_shape(Call) {
    Call::Tool { origin: None, .. } => "a tool's call to be sent",
    Call::Tool { origin: Some(Origin::Past(_)), .. } => "a tool's call with a past",
    Call::Tool { origin: Some(Origin::Nothing), .. } => "a tool's call without outcome",
    Call::Sleep { origin: None, .. } => "a sleep to be slept",
    Call::Sleep { origin: Some(Origin::Past(_)), .. } => "a sleep with a past",
    Call::Sleep { origin: Some(Origin::Nothing), .. } => "a sleep that nobody slept",
});
shapes!(TAKEN, taken_shape(Taken) {
    Taken::Outcome(Outcome::Ok(_)) => "taken ok",
    Taken::Outcome(Outcome::Err(_)) => "taken err",
    Taken::Slept => "taken slept",
});
shapes!(DIVERGED, diverged_shape((bool, bool)) {
    (true, true) => "both calls differ",
    (true, false) => "only then",
    (false, true) => "only now",
    (false, false) => "neither",
});
shapes!(SCRIPT_TIMES, script_time_shape(Option<Timestamp>) {
    None => "at the run's time",
    Some(_) => "at script time",
});
shapes!(ENDS, end_shape(End) {
    End::Completed { .. } => "end completed",
    End::Failed { .. } => "end failed",
    End::Cancelled => "end cancelled",
});
shapes!(OUTCOMES, outcome_shape(Outcome) {
    Outcome::Ok(_) => "ok",
    Outcome::Err(_) => "err",
});
shapes!(PAYLOADS, payload_shape(Payload) {
    Payload::Inline(_) => "inline",
    Payload::Blob { .. } => "blob",
});
shapes!(FAILURES, failure_shape(ToolFailure) {
    ToolFailure { details: None, .. } => "without details",
    ToolFailure { details: Some(_), .. } => "with details",
});
shapes!(CODES, code_shape(ErrorCode) {
    ErrorCode::InvalidArguments => "invalid_arguments",
    ErrorCode::ToolFailed => "tool_failed",
    ErrorCode::InvalidResult => "invalid_result",
    ErrorCode::Timeout => "timeout",
    ErrorCode::Unavailable => "unavailable",
    ErrorCode::OutcomeUnknown => "outcome_unknown",
    ErrorCode::Rejected => "rejected",
    ErrorCode::Credentials => "credentials",
    ErrorCode::Refused => "code refused",
    ErrorCode::TooLarge => "too_large",
    ErrorCode::Cancelled => "code cancelled",
    ErrorCode::NotRecorded => "not_recorded",
});
shapes!(NAMESPACES, namespace_shape(Spec) {
    Spec { namespace: None, .. } => "without namespace",
    Spec { namespace: Some(_), .. } => "with namespace",
});
shapes!(PARENTS, parent_shape(Spec) {
    Spec { parent: None, .. } => "of nobody",
    Spec { parent: Some(_), .. } => "of a parent",
});
shapes!(DEADLINES, deadline_shape(Spec) {
    Spec { deadline: None, .. } => "without deadline",
    Spec { deadline: Some(_), .. } => "with deadline",
});
shapes!(WEBHOOKS, webhook_shape(Spec) {
    Spec { webhook: None, .. } => "without webhook",
    Spec { webhook: Some(_), .. } => "with webhook",
});
shapes!(PASTS, past_shape(Option<Past>) {
    None => "without past",
    Some(Past { forked_from: Some(_), .. }) => "a fork",
    Some(Past { forked_from: None, .. }) => "on a cassette",
});
shapes!(PLANS, plan_shape(Spec) {
    Spec { plan: false, .. } => "no plan",
    Spec { plan: true, .. } => "a plan",
});
shapes!(TRACES, trace_shape(TraceContext) {
    TraceContext { tracestate: None, .. } => "without tracestate",
    TraceContext { tracestate: Some(_), .. } => "with tracestate",
});
shapes!(ERROR_TOOLS, error_tool_shape(RunError) {
    RunError { tool: None, .. } => "without tool",
    RunError { tool: Some(_), .. } => "with tool",
});
shapes!(ERROR_KEYS, error_key_shape(RunError) {
    RunError { key: None, .. } => "without key",
    RunError { key: Some(_), .. } => "with key",
});
shapes!(ERROR_STACKS, error_stack_shape(RunError) {
    RunError { stack: None, .. } => "without stack",
    RunError { stack: Some(_), .. } => "with stack",
});

/// Every shape that some golden file has to have.
pub(crate) fn all_shapes() -> impl Iterator<Item = &'static str> {
    let lists = [
        RECORDS,
        DECIDERS,
        CALLS,
        TERMS,
        PARK_LIMITS,
        REASONS,
        ORIGINS,
        TAKEN,
        SCRIPT_TIMES,
        ENDS,
        OUTCOMES,
        PAYLOADS,
        FAILURES,
        CODES,
        NAMESPACES,
        PARENTS,
        DEADLINES,
        WEBHOOKS,
        PASTS,
        PLANS,
        TRACES,
        ERROR_TOOLS,
        ERROR_KEYS,
        ERROR_STACKS,
    ];
    // A call that a fork makes and its source had not made is no divergence.
    let diverged = DIVERGED.iter().take(2);
    lists.into_iter().flatten().chain(diverged).copied()
}

/// The shapes that a record is made of.
pub(crate) fn shapes_of(record: &Record) -> Vec<&'static str> {
    let mut shapes = vec![record_shape(record)];
    match record {
        Record::Created { spec, .. } => {
            shapes.extend([
                payload_shape(&spec.input),
                namespace_shape(spec),
                parent_shape(spec),
                deadline_shape(spec),
                webhook_shape(spec),
                past_shape(&spec.past),
                plan_shape(spec),
                trace_shape(&spec.trace),
            ]);
        }
        Record::Called { call, .. } => {
            let terms = call.terms();
            shapes.extend([call_shape(call), terms_shape(&terms), park_limit_shape(&terms), origin_shape(call)]);
            if let Call::Tool { arguments, .. } = call {
                shapes.push(payload_shape(arguments));
            }
        }
        Record::Approved { by, .. } => shapes.push(decider_shape(by)),
        Record::Rejected { by, failure, .. } => {
            shapes.extend([decider_shape(by), failure_shape(failure), code_shape(&failure.code)]);
        }
        Record::Refused { then, failure, .. } => {
            shapes.extend([script_time_shape(then), failure_shape(failure), code_shape(&failure.code)]);
        }
        Record::AttemptFailed { failure, .. } => shapes.extend([failure_shape(failure), code_shape(&failure.code)]),
        Record::Parked { reason, .. } => shapes.push(reason_shape(reason)),
        Record::Taken { taken, .. } => {
            shapes.push(taken_shape(taken));
            if let Taken::Outcome(Outcome::Ok(payload)) = taken {
                shapes.push(payload_shape(payload));
            }
        }
        Record::Diverged { then, now, .. } => shapes.push(diverged_shape(&(then.is_some(), now.is_some()))),
        Record::Completed { outcome, .. } => {
            shapes.push(outcome_shape(outcome));
            match outcome {
                Outcome::Ok(payload) => shapes.push(payload_shape(payload)),
                Outcome::Err(failure) => shapes.extend([failure_shape(failure), code_shape(&failure.code)]),
            }
        }
        Record::Ended { end, .. } => {
            shapes.push(end_shape(end));
            match end {
                End::Completed { result } => shapes.push(payload_shape(result)),
                End::Failed { error } => {
                    shapes.extend([error_tool_shape(error), error_key_shape(error), error_stack_shape(error)]);
                }
                End::Cancelled => {}
            }
        }
        Record::Adopted { .. }
        | Record::Retried { .. }
        | Record::Deferred { .. }
        | Record::Fired { .. }
        | Record::Logged { .. }
        | Record::Waiting { .. } => {}
    }
    shapes
}

/// Every golden record, by the name of its file.
pub(crate) fn all() -> BTreeMap<String, Record> {
    let mut all: BTreeMap<String, Record> = BTreeMap::new();
    let mut add = |name: &str, record: Record| {
        assert!(all.insert(name.to_string(), record).is_none(), "{name} is there twice");
    };
    let at = moment(0);
    add("created_least", Record::Created { at, spec: Box::new(least_spec()) });
    add("created_most", Record::Created { at, spec: Box::new(most_spec()) });
    let parent = Some(Parent { key: Key { run: RunId::of_bytes(b"parent"), seq: 3 }, depth: 2 });
    add("created_child", Record::Created { at, spec: Box::new(Spec { parent, ..least_spec() }) });
    let deadline = Some(moment(3_600_000));
    add("created_deadline", Record::Created { at, spec: Box::new(Spec { deadline, ..least_spec() }) });
    let webhook = Some("https://example.com/hook?run=1".into());
    add("created_webhook", Record::Created { at, spec: Box::new(Spec { webhook, ..least_spec() }) });
    for (name, forked_from, plan) in [
        ("created_fork", Some(RunId::of_bytes(b"source")), false),
        ("created_cassette", None, false),
        ("created_plan", None, true),
    ] {
        let past = Some(past(forked_from));
        add(name, Record::Created { at, spec: Box::new(Spec { past, plan, ..least_spec() }) });
    }
    add("adopted", Record::Adopted { at, node: NodeId::of_bytes(b"node"), epoch: u64::MAX });
    let call = |arguments, raw| Call::Tool { tool: tool(), arguments, raw, terms: Terms::default(), origin: None };
    add("called_tool", Record::Called { at, seq: 1, call: call(inline(), false) });
    add("called_tool_raw", Record::Called { at, seq: 2, call: call(inline(), true) });
    add("called_tool_blob", Record::Called { at, seq: 3, call: call(blob(), false) });
    for (name, at_most_once, approval) in
        [("called_tool_once", true, false), ("called_tool_approval", false, true), ("called_tool_both", true, true)]
    {
        let terms = Terms { at_most_once, approval, park_ms: None };
        let call = Call::Tool { tool: tool(), arguments: inline(), raw: false, terms, origin: None };
        add(name, Record::Called { at, seq: 5, call });
    }
    let terms = Terms { approval: true, park_ms: Some(86_400_000), ..Terms::default() };
    let limited = Call::Tool { tool: tool(), arguments: inline(), raw: false, terms, origin: None };
    add("called_tool_park_limit", Record::Called { at, seq: 5, call: limited });
    let until = moment(864_000_000);
    add("called_sleep", Record::Called { at, seq: 10_000, call: Call::Sleep { until, origin: None } });
    for (name, origin) in [("past", Some(Origin::Past(7))), ("nothing", Some(Origin::Nothing))] {
        let terms = Terms::default();
        let call = Call::Tool { tool: tool(), arguments: inline(), raw: false, terms, origin };
        add(&format!("called_tool_{name}"), Record::Called { at, seq: 6, call });
        add(&format!("called_sleep_{name}"), Record::Called { at, seq: 7, call: Call::Sleep { until, origin } });
    }
    let arguments = Digest::of("arguments");
    let refused = |failure| Record::Refused { at, seq: 4, tool: tool(), arguments, failure, then: None };
    add("refused", refused(ToolFailure::new(ErrorCode::InvalidArguments, "`title` is missing")));
    add("refused_details", refused(with_details(ErrorCode::InvalidArguments)));
    let failure = ToolFailure::new(ErrorCode::InvalidArguments, "`title` is missing");
    let then = Some(moment(-1_000));
    add("refused_then", Record::Refused { at, seq: 4, tool: tool(), arguments, failure, then });
    let failed = |failure| Record::AttemptFailed { at, seq: 1, attempt: 1, failure, retry_at: moment(200) };
    add("attempt_failed", failed(ToolFailure::new(ErrorCode::Unavailable, "connection reset")));
    add("attempt_failed_details", failed(with_details(ErrorCode::Timeout)));
    add("retried", Record::Retried { at, seq: 1, attempt: 2 });
    for reason in [ParkReason::Approval, ParkReason::SchemaChanged, ParkReason::Credentials] {
        let name = format!("parked_{}", reason.as_str());
        add(&name, Record::Parked { at, seq: 1, attempt: 2, reason, detail: "`title` is gone".into() });
    }
    let decision = || "dec_1".to_owned();
    add("approved", Record::Approved { at, seq: 1, decision: decision(), by: None });
    add("approved_by", Record::Approved { at, seq: 1, decision: decision(), by: Some("ada".into()) });
    let failure = || ToolFailure::new(ErrorCode::Rejected, "too expensive");
    add("rejected", Record::Rejected { at, seq: 1, decision: decision(), by: None, failure: failure() });
    add(
        "rejected_by",
        Record::Rejected { at, seq: 1, decision: decision(), by: Some("ada".into()), failure: failure() },
    );
    let completed = |outcome| Record::Completed { at, seq: 1, attempt: 2, outcome };
    add("completed_ok", completed(Outcome::Ok(inline())));
    add("completed_ok_blob", completed(Outcome::Ok(blob())));
    add("completed_err_details", completed(Outcome::Err(with_details(ErrorCode::ToolFailed))));
    for code in codes() {
        let failure = ToolFailure::new(code, "what happened");
        add(&format!("completed_err_{code}"), completed(Outcome::Err(failure)));
    }
    add("deferred", Record::Deferred { at, seq: 1, attempt: 2 });
    let then = moment(-60_000);
    for (name, outcome) in [
        ("taken_ok", Outcome::Ok(inline())),
        ("taken_ok_blob", Outcome::Ok(blob())),
        ("taken_err", Outcome::Err(with_details(ErrorCode::NotRecorded))),
    ] {
        add(name, Record::Taken { at, seq: 1, then, taken: Taken::Outcome(outcome) });
    }
    add("taken_slept", Record::Taken { at, seq: 1, then, taken: Taken::Slept });
    let was = || Some("docs.resolve.library-id with arguments sha256:0123456789ab".into());
    let now = Some("sleep until 2026-11-30T12:34:56.789Z".into());
    add("diverged", Record::Diverged { at, seq: 3, then: was(), now });
    add("diverged_then", Record::Diverged { at, seq: 3, then: was(), now: None });
    add("fired", Record::Fired { at, seq: 2 });
    add("logged", Record::Logged { at, level: "warn".into(), text: "ünï\u{1F980}\n\"quoted\"".into() });
    add("waiting", Record::Waiting { at });
    let ended = |end| Record::Ended { at, end };
    add("ended_completed", ended(End::Completed { result: inline() }));
    add("ended_completed_blob", ended(End::Completed { result: blob() }));
    add("ended_cancelled", ended(End::Cancelled));
    add("ended_failed_least", ended(End::Failed { error: least_error() }));
    let error = RunError {
        tool: Some(tool()),
        key: Some(Key { run: RunId::of_bytes(b"run"), seq: 7 }),
        stack: Some("Error: no\n    at main (script.ts:3:9)".into()),
        ..least_error()
    };
    add("ended_failed_most", ended(End::Failed { error }));
    all
}

/// 2026-11-30T12:34:56.789Z and later by `ms`.
fn moment(ms: i64) -> Timestamp {
    Timestamp::from_unix_ms(1_796_042_096_789 + ms)
}

fn tool() -> ToolName {
    ToolName::new("docs", "resolve.library-id")
}

/// With a number that no double holds and a text that JSON escapes.
fn inline() -> Payload {
    let text = "{\"n\":12345678901234567890123,\"text\":\"a\\nü\",\"list\":[null,true,1.5e300]}";
    Payload::Inline(Json::parse(text).expect("JSON"))
}

fn blob() -> Payload {
    Payload::Blob { digest: Digest::of("blob"), size: 300_000 }
}

fn with_details(code: ErrorCode) -> ToolFailure {
    let details = Json::parse("[{\"path\":\"/title\",\"message\":\"required\"}]").expect("JSON");
    ToolFailure { details: Some(details), ..ToolFailure::new(code, "what happened") }
}

fn least_spec() -> Spec {
    Spec {
        toolset: ToolsetId::of_bytes(b"toolset"),
        script: Digest::of("script"),
        input: inline(),
        namespace: None,
        labels: BTreeMap::new(),
        request: Digest::of("request"),
        trace: TraceContext::of_run(&RunId::of_bytes(b"run")),
        calls_in_flight: 100,
        parent: None,
        deadline: None,
        webhook: None,
        past: None,
        plan: false,
    }
}

fn past(forked_from: Option<RunId>) -> Past {
    let clock = Clock { seed: RunId::of_bytes(b"source"), started: moment(-86_400_000) };
    Past { history: Digest::of("history"), clock, forked_from }
}

fn most_spec() -> Spec {
    let trace = TraceContext { tracestate: Some("vendor=value".into()), ..least_spec().trace };
    let labels = [("team", "billing"), ("ünï", "")].map(|(name, value)| (name.into(), value.into()));
    Spec { input: blob(), namespace: Some("customer-1".into()), labels: labels.into(), trace, ..least_spec() }
}

fn least_error() -> RunError {
    RunError { code: "script_error".into(), message: "no".into(), tool: None, key: None, stack: None }
}

fn codes() -> [ErrorCode; CODES.len()] {
    [
        ErrorCode::InvalidArguments,
        ErrorCode::ToolFailed,
        ErrorCode::InvalidResult,
        ErrorCode::Timeout,
        ErrorCode::Unavailable,
        ErrorCode::OutcomeUnknown,
        ErrorCode::Rejected,
        ErrorCode::Credentials,
        ErrorCode::Refused,
        ErrorCode::TooLarge,
        ErrorCode::Cancelled,
        ErrorCode::NotRecorded,
    ]
}
