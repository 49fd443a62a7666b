//! The span of an attempt, and the context by which the tool's own spans join it.

use std::collections::HashMap;

use opentelemetry::{global, trace::TraceContextExt};
use rewind_model::TraceContext;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// Makes `span` part of the run's trace, and gives the context that the attempt carries: the span's
/// own where spans are exported, otherwise `derived`, which names no span but is in the same trace.
pub(crate) fn join(span: &Span, run: &TraceContext, derived: &TraceContext) -> TraceContext {
    let mut carrier = HashMap::from([("traceparent".to_owned(), run.traceparent.clone())]);
    if let Some(state) = &run.tracestate {
        carrier.insert("tracestate".to_owned(), state.clone());
    }
    let parent = global::get_text_map_propagator(|propagator| propagator.extract(&carrier));
    if !parent.span().span_context().is_valid() || span.set_parent(parent).is_err() {
        return derived.clone();
    }
    let mut exported = HashMap::new();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&span.context(), &mut exported));
    let state = exported.get("tracestate").filter(|state| !state.is_empty());
    let given = exported.get("traceparent").and_then(|parent| TraceContext::parse(parent, state.map(String::as_str)));
    given.unwrap_or_else(|| derived.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rewind_model::RunId;

    #[test]
    fn without_an_exporter_the_attempt_is_in_the_runs_trace_all_the_same() {
        let key = rewind_model::Key { run: RunId::new(1), seq: 1 };
        let run = TraceContext::of_run(&key.run);
        let derived = run.of_call(&key, 1);
        let carried = join(&Span::none(), &run, &derived);
        assert_eq!(carried, derived);
        assert_eq!(carried.traceparent[..35], run.traceparent[..35]);
        assert_ne!(carried.traceparent, run.traceparent);
    }
}
