//! A history and a cassette with a call of every kind that either can hold.

use rewind_model::{
    Digest, ErrorCode, Json, Outcome, Payload, RunId, Seq, Timestamp, ToolFailure, ToolName, ToolsetId,
};
use rewind_run::{Call, Cassette, Clock, History, Made, Origin, PastCall, PastOutcome, Taken, Terms};

pub(crate) fn history() -> History {
    let refused = Made::Refused { tool: tool(), arguments: Digest::of("{}") };
    let failure = |code| Taken::Outcome(Outcome::Err(ToolFailure::new(code, "what happened")));
    let blob = || Payload::Blob { digest: Digest::of("blob"), size: 300_000 };
    let calls = [
        (called(inline("{\"n\":1}"), false, None), Some(Taken::Outcome(Outcome::Ok(inline("null"))))),
        (called(blob(), true, None), Some(Taken::Outcome(Outcome::Ok(blob())))),
        (called(inline("[]"), false, Some(Origin::Past(9))), Some(failure(ErrorCode::OutcomeUnknown))),
        (slept(), Some(Taken::Slept)),
        (refused, Some(failure(ErrorCode::InvalidArguments))),
        (called(inline("{}"), false, None), None),
        (slept(), None),
    ];
    let mut history = History::new();
    for (seq, (made, taken)) in (1..).zip(calls) {
        let outcome = taken.map(|taken| PastOutcome { order: 10 - seq, made: None, at: moment(seq), taken });
        history.calls.insert(seq, PastCall { made, outcome });
    }
    history
}

/// Of what the history holds in one piece.
pub(crate) fn cassette() -> Cassette {
    let mut history = history();
    history.calls.remove(&2);
    let run = RunId::of_bytes(b"run");
    let clock = Clock { seed: run.clone(), started: moment(0) };
    let input = Json::parse("{\"customer\":\"ü\"}").expect("JSON");
    Cassette::new(run, ToolsetId::of_bytes(b"toolset"), clock, input, history).expect("payloads are at hand")
}

fn called(arguments: Payload, raw: bool, origin: Option<Origin>) -> Made {
    let terms = Terms { at_most_once: origin.is_some(), ..Terms::default() };
    Made::Call(Call::Tool { tool: tool(), arguments, raw, terms, origin })
}

fn slept() -> Made {
    Made::Call(Call::Sleep { until: moment(60_000), origin: None })
}

fn tool() -> ToolName {
    ToolName::new("docs", "resolve.library-id")
}

fn inline(text: &str) -> Payload {
    Payload::Inline(Json::parse(text).expect("JSON"))
}

/// 2026-11-30T12:34:56.789Z and later by `ms`.
fn moment(ms: Seq) -> Timestamp {
    Timestamp::from_unix_ms(1_796_042_096_789 + i64::from(ms))
}
