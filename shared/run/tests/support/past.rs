//! Runs that take over what another one has done.

use std::collections::BTreeMap;

use rewind_model::{Limits, Seq, Timestamp};
use rewind_run::{Call, Delivered, History, Made, Origin, PastOutcome, Record, Spec};

use super::{fixtures, node::started_at, script::Program, simulation::Simulation};

/// What the run of these records has done.
pub(crate) fn history_of(records: &[Record]) -> History {
    History::of_run(fixtures::run_id(), records, None).expect("a journal's records are legal")
}

/// What a script gets from the history: which call got what, and the time.
pub(crate) fn outcomes(history: &History) -> Vec<(Seq, Timestamp, Delivered)> {
    let mut outcomes: Vec<(Seq, &PastOutcome)> =
        history.calls.iter().filter_map(|(seq, past)| Some((*seq, past.outcome.as_ref()?))).collect();
    outcomes.sort_by_key(|(_, outcome)| outcome.order);
    outcomes.into_iter().map(|(seq, outcome)| (seq, outcome.at, outcome.taken.clone().into())).collect()
}

/// A fork, made when the source's journal held these records.
pub(crate) fn fork<'p>(
    program: &'p Program,
    limits: Limits,
    seed: u64,
    source: &[Record],
    history: &'p History,
) -> Simulation<'p> {
    let past = Some(fixtures::past(started_at(source), Some(fixtures::run_id())));
    let at = source.iter().map(Record::at).max().expect("it was created");
    let spec = Spec { past, ..fixtures::spec() };
    Simulation::of_spec(program, spec, at, limits, seed).with_past(history)
}

/// A run on a cassette of a run that began at `started`.
pub(crate) fn on_cassette<'p>(
    program: &'p Program,
    limits: Limits,
    seed: u64,
    started: Timestamp,
    history: &'p History,
) -> Simulation<'p> {
    let spec = Spec { past: Some(fixtures::past(started, None)), ..fixtures::spec() };
    Simulation::of_spec(program, spec, fixtures::at(1_000_000), limits, seed).with_past(history)
}

/// The calls that records hold, as a history would.
pub(crate) fn made(records: &[Record]) -> BTreeMap<Seq, Made> {
    let of = |record: &Record| match record {
        Record::Called { seq, call, .. } => Some((*seq, Made::Call(call.clone()))),
        Record::Refused { seq, tool, arguments, .. } => {
            Some((*seq, Made::Refused { tool: tool.clone(), arguments: *arguments }))
        }
        _ => None,
    };
    records.iter().filter_map(of).collect()
}

/// Told in another way than the history does.
pub(crate) fn same(a: &Made, b: &Made) -> bool {
    match (a, b) {
        (
            Made::Call(Call::Tool { tool, arguments, raw, .. }),
            Made::Call(Call::Tool { tool: other_tool, arguments: other_arguments, raw: other_raw, .. }),
        ) => (tool, arguments, raw) == (other_tool, other_arguments, other_raw),
        (Made::Call(Call::Sleep { until, .. }), Made::Call(Call::Sleep { until: other, .. })) => until == other,
        (Made::Refused { tool, arguments }, Made::Refused { tool: other_tool, arguments: other_arguments }) => {
            (tool, arguments) == (other_tool, other_arguments)
        }
        _ => false,
    }
}

pub(crate) fn origin(made: &Made) -> Option<Origin> {
    match made {
        Made::Call(call) => call.origin(),
        Made::Refused { .. } => None,
    }
}

pub(crate) fn is_once(made: &Made) -> bool {
    matches!(made, Made::Call(call) if call.terms().at_most_once)
}
