use serde::{Deserialize, Serialize};

use crate::{Digest, Key};

/// W3C trace context, as it travels: <https://www.w3.org/TR/trace-context/>.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    pub traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// `None` when `traceparent` is not one of version 00.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let parts: Vec<&str> = traceparent.split('-').collect();
        let hex =
            |part: &str, len: usize| part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let [version, trace, span, flags] = parts[..] else { return None };
        let valid = version == "00" && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
        let zero = trace.bytes().all(|b| b == b'0') || span.bytes().all(|b| b == b'0');
        (valid && !zero).then(|| Self {
            traceparent: traceparent.into(),
            tracestate: tracestate.filter(|state| state.len() <= 512).map(Into::into),
        })
    }

    /// A context of its own for a run that was started without one; a function of its id.
    pub fn of_run(run: &crate::RunId) -> Self {
        let digest = Digest::of(run.as_str()).to_string();
        Self { traceparent: format!("00-{}-{}-01", &digest[..32], &digest[32..48]), tracestate: None }
    }

    /// The context that one attempt of a call carries: the same trace, a span id of its own.
    #[must_use]
    pub fn of_call(&self, key: &Key, attempt: u32) -> Self {
        let span = Digest::of(format!("{key}#{attempt}")).to_string();
        let trace = self.traceparent.get(3..35).unwrap_or_default();
        Self { traceparent: format!("00-{trace}-{}-01", &span[..16]), tracestate: self.tracestate.clone() }
    }
}
