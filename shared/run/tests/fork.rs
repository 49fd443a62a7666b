//! A run that begins with what another one had done: as that one as long as its script does the same, and on
//! its own from there on.

mod support;

use proptest::{prelude::*, sample::Index};
use rewind_model::{Digest, ErrorCode, Limits, Outcome, RunError, Seq, Timestamp, ToolFailure};
use rewind_run::{
    Call, Delivered, Effect, End, History, Input, Made, NewCall, Origin, PastCall, PastOutcome, Record, Run, ScriptEnd,
    ScriptTurn, Spec, Taken,
};
use support::{
    crash::check_cut,
    fixtures::{self, adopted, at, inline, new_call, once, script, step},
    life::{Life, deliveries},
    oracle,
    past::{fork, history_of, is_once, made, origin, outcomes, same},
    script::{Program, programs},
    simulation::Simulation,
};

fn limits(calls_in_flight: usize) -> Limits {
    Limits { calls_in_flight, ..Limits::DEFAULT }
}

fn diverged(records: &[Record]) -> Vec<&Record> {
    records.iter().filter(|record| matches!(record, Record::Diverged { .. })).collect()
}

/// The script's own end; one that stalled or that somebody stopped went on to wait.
fn end_of_script(records: &[Record]) -> Option<&End> {
    match records.last() {
        Some(Record::Ended { end: end @ End::Completed { .. }, .. }) => Some(end),
        Some(Record::Ended { end: end @ End::Failed { error }, .. }) if error.code == "script_error" => Some(end),
        _ => None,
    }
}

/// Invariants 3 and 10 of a fork whose script does what its source's did: `source` is what the source had
/// recorded by then, `reached` what may have reached its tool by then.
/// `whole`: it is cut between two of its turns.
fn check_same(source: &[Record], whole: bool, history: &History, reached: &[Seq], life: &Life) {
    let records = life.records();
    oracle::check_history(&records);
    assert!(matches!(records.last(), Some(Record::Ended { .. })), "invariant 13: it ends");
    assert_eq!(diverged(&records), Vec::<&Record>::new(), "the same program does the same");
    let (expected, mut got) = (outcomes(history), deliveries(&records));
    // In the middle of a turn, the source itself had yet to learn which of its calls would be refused.
    if !whole {
        got.retain(|(seq, ..)| history.calls.contains_key(seq));
    }
    // A script that has returned takes no more.
    let taken = if end_of_script(&records).is_some() { expected.len().min(got.len()) } else { expected.len() };
    for ((seq, at, value), (seq_now, at_now, value_now)) in expected[..taken].iter().zip(&got) {
        assert_eq!((seq, value), (seq_now, value_now), "the source's outcomes, in its order");
        assert!(if whole { at == at_now } else { at <= at_now }, "call {seq} at {at} and not at {at_now}");
    }
    assert!(got.len() >= taken, "{expected:?} and only {got:?}");
    let (then, now) = (made(source), made(&records));
    for (seq, then) in &then {
        assert!(same(then, &now[seq]), "call {seq} was {then:?} and is {:?}", now[seq]);
    }
    let dispatched = life.dispatched();
    for (seq, past) in &history.calls {
        let has_outcome = past.outcome.is_some();
        assert!(!(has_outcome && dispatched.contains(seq)), "invariant 10: call {seq} is dispatched");
        assert!(!(has_outcome && life.armed.contains(seq)), "invariant 10: call {seq} is armed");
        let refused = matches!(past.made, Made::Refused { .. });
        let taken = (has_outcome && !refused).then_some(Origin::Past(*seq));
        assert_eq!(origin(&now[seq]), taken, "call {seq}");
    }
    for seq in reached.iter().filter(|seq| is_once(&then[*seq])) {
        assert!(!dispatched.contains(seq), "invariant 3: call {seq} is done twice");
    }
    if let Some(end) = end_of_script(source) {
        assert_eq!(end_of_script(&records), Some(end), "and so it ends the same");
        assert_eq!(now.len(), then.len(), "with the same calls");
    }
}

fn reached(life: &Life, cut: usize) -> Vec<Seq> {
    let calls = made(&life.records()[..cut]);
    life.reached(cut).into_iter().filter(|seq| calls.contains_key(seq)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn invariant_10_a_fork_takes_over_all_that_its_source_had_done(
        program in programs(),
        seed in any::<u64>(),
        in_flight in 1..=4usize,
    ) {
        let limits = limits(in_flight);
        let source = Simulation::new(&program, limits, seed).run_to_end();
        let (records, boundaries) = (source.records(), source.boundaries());
        for cut in 1..=records.len() {
            let history = history_of(&records[..cut]);
            let whole = boundaries.contains(&cut);
            let life = fork(&program, limits, seed ^ cut as u64, &records[..cut], &history).run_to_end();
            check_same(&records[..cut], whole, &history, &reached(&source, cut), &life);
        }
    }

    /// Invariants 3 and 4 of the fork itself.
    #[test]
    fn a_fork_that_crashes_goes_on_as_it_began(
        program in programs(),
        seed in any::<u64>(),
        in_flight in 1..=4usize,
        cut in any::<Index>(),
    ) {
        let limits = limits(in_flight);
        let source = Simulation::new(&program, limits, seed).run_to_end();
        let cut = cut.index(source.records().len()) + 1;
        let source_records = &source.records()[..cut];
        let history = history_of(source_records);
        let life = fork(&program, limits, seed, source_records, &history).run_to_end();
        let records = life.records();
        let boundaries = life.boundaries();
        for cut_of_fork in 1..=records.len() {
            check_cut(&program, limits, &life, &records, cut_of_fork);
            let prefix = &records[..cut_of_fork];
            let resumed = Simulation::resume(&program, limits, seed, prefix).with_past(&history).run_to_end();
            let continued = resumed.records();
            prop_assert_eq!(&continued[..cut_of_fork], prefix);
            check_cut(&program, limits, &resumed, &continued, continued.len());
            if boundaries.contains(&cut_of_fork) {
                check_same(source_records, source.boundaries().contains(&cut), &history, &reached(&source, cut), &resumed);
            }
        }
    }

    /// What it had not yet taken over itself, its fork takes over.
    #[test]
    fn a_fork_of_a_fork_takes_over_the_same(
        program in programs(),
        seed in any::<u64>(),
        cuts in any::<[Index; 2]>(),
    ) {
        let limits = limits(2);
        let source = Simulation::new(&program, limits, seed).run_to_end();
        let cut = cuts[0].index(source.records().len()) + 1;
        let source_records = &source.records()[..cut];
        let history = history_of(source_records);
        let life = fork(&program, limits, seed, source_records, &history).run_to_end();
        let boundaries: Vec<usize> = life.boundaries().into_iter().collect();
        let cut_of_fork = boundaries[cuts[1].index(boundaries.len())];
        let records = &life.records()[..cut_of_fork];
        let again = History::of_run(fixtures::run_id(), records, Some(&history)).expect("legal");
        let (of_source, mut of_fork) = (outcomes(&history), outcomes(&again));
        // In the middle of a turn, the source itself had yet to learn which of its calls would be refused.
        of_fork.retain(|(seq, ..)| history.calls.contains_key(seq));
        for ((seq, _, value), (seq_now, _, value_now)) in of_source.iter().zip(&of_fork) {
            prop_assert_eq!((seq, value), (seq_now, value_now), "what it would have taken, in the order of the source");
        }
        prop_assert!(of_fork.len() >= of_source.len(), "{:?} and only {:?}", of_source, of_fork);
        let second = fork(&program, limits, seed, records, &again).run_to_end();
        check_same(records, source.boundaries().contains(&cut), &again, &reached(&life, cut_of_fork), &second);
        let dispatched = second.dispatched();
        let calls = made(source_records);
        for seq in reached(&source, cut).iter().filter(|seq| is_once(&calls[*seq])) {
            prop_assert!(!dispatched.contains(seq), "invariant 3: call {seq} is done twice");
        }
    }

    #[test]
    fn a_fork_of_another_program_parts_once_and_says_where(
        (program, changed) in programs().prop_flat_map(|program| (Just(program.clone()), changes(program))),
        seed in any::<u64>(),
        in_flight in 1..=4usize,
    ) {
        let limits = limits(in_flight);
        let source = Simulation::new(&program, limits, seed).run_to_end();
        let records = source.records();
        for cut in (1..=records.len()).rev().step_by(3) {
            let history = history_of(&records[..cut]);
            let simulation = fork(&changed, limits, seed ^ cut as u64, &records[..cut], &history);
            let life = simulation.without_cancels().run_to_end();
            check_changed(&history, &reached(&source, cut), &life);
        }
    }
}

/// With one call changed or left out, or at its end early.
fn changes(program: Program) -> impl Strategy<Value = Program> {
    let (calls, stages) = (program.calls(), program.stages.len());
    (0..3u8, any::<Index>()).prop_map(move |(change, index)| match change {
        0 if calls > 0 => program.changed_at(index.index(calls as usize) as Seq + 1),
        1 if calls > 0 => program.without(index.index(calls as usize) as Seq + 1),
        _ => program.cut(index.index(stages + 1)),
    })
}

fn check_changed(history: &History, reached: &[Seq], life: &Life) {
    let records = life.records();
    oracle::check_history(&records);
    let now = made(&records);
    let ended = end_of_script(&records).is_some();
    let parts = |(seq, past): &(&Seq, &PastCall)| match now.get(seq) {
        Some(now) => !same(&past.made, now),
        None => ended,
    };
    let first = history.calls.iter().find(parts);
    match (first, &diverged(&records)[..]) {
        (None, []) => {}
        (Some((expected, past)), [Record::Diverged { seq, then: Some(then), now: to, .. }]) => {
            assert_eq!((seq, then), (expected, &past.made.describe()));
            // A refused call is kept without how it was to be made.
            let plain = |text: &String| text.replace(".raw with", " with");
            assert_eq!(to.as_ref().map(plain), now.get(seq).map(|made| plain(&made.describe())));
        }
        (first, found) => panic!("parts at {first:?}, and the journal says {found:?}"),
    }
    let place = records.iter().position(|record| matches!(record, Record::Diverged { .. }));
    match place.map(|place| (&records[place], &records[place + 1])) {
        None | Some((Record::Diverged { now: None, .. }, Record::Ended { .. })) => {}
        Some((
            Record::Diverged { seq, now: Some(_), .. },
            Record::Called { seq: called, .. } | Record::Refused { seq: called, .. },
        )) => assert_eq!(seq, called, "it is said before that call"),
        Some(other) => panic!("{other:?}"),
    }
    let first = first.map_or(Seq::MAX, |(seq, _)| *seq);
    let dispatched = life.dispatched();
    for (seq, now) in &now {
        let past = history.calls.get(seq).filter(|past| past.outcome.is_some() && same(&past.made, now));
        let takes = past.is_some_and(|past| *seq < first || is_once(&past.made));
        let takes = takes && matches!(now, Made::Call(_));
        assert_eq!(origin(now), takes.then_some(Origin::Past(*seq)), "call {seq}; it parts at {first}");
        assert!(!(takes && dispatched.contains(seq)), "invariant 10: call {seq} is dispatched");
        let done = reached.contains(seq) && is_once(now) && same(&history.calls[seq].made, now);
        assert!(!(done && dispatched.contains(seq)), "invariant 3: call {seq} is done twice");
    }
    let taken = deliveries(&records);
    let comes_first = |(seq, ..): &(Seq, Timestamp, Delivered)| *seq < first && now.contains_key(seq);
    for (seq, at, value) in outcomes(history).into_iter().take_while(comes_first) {
        let found = taken.iter().any(|(of, now, got)| (*of, got) == (seq, &value) && *now >= at);
        assert!(found || ended, "call {seq} gets {value:?} as before");
    }
}

/// A source that was adopted at 1 ms, and what it recorded then.
fn source(records: Vec<Record>) -> Vec<Record> {
    [vec![fixtures::created(), adopted(1)], records].concat()
}

fn forked(at: Timestamp) -> Run {
    let past = Some(fixtures::past(fixtures::at(0), Some(fixtures::run_id())));
    let created = Record::Created { at, spec: Box::new(Spec { past, ..fixtures::spec() }) };
    fixtures::folded(Limits::DEFAULT, &[created, Record::Adopted { at, node: fixtures::node(1), epoch: 1 }])
}

fn called(ms: i64, seq: Seq, call: Call) -> Record {
    Record::Called { at: at(ms), seq, call }
}

fn completed(ms: i64, seq: Seq) -> Record {
    Record::Completed { at: at(ms), seq, attempt: 1, outcome: Outcome::Ok(inline("null")) }
}

fn seqs(records: &[Record]) -> Vec<Seq> {
    deliveries(records).into_iter().map(|(seq, ..)| seq).collect()
}

/// Invariant 3: the tool works on it yet, whoever waits for it.
#[test]
fn what_was_being_done_when_its_run_ended_has_an_unknown_outcome() {
    for call in [once("bank"), once("host")] {
        let mut records = source(vec![called(2, 1, call)]);
        for more in [Record::Waiting { at: at(3) }, Record::Ended { at: at(4), end: End::Cancelled }] {
            records.push(more);
            let history = history_of(&records);
            let [(1, _, Delivered::Failure(why))] = &outcomes(&history)[..] else { panic!("{history:?}") };
            assert_eq!((why.code, why.retryable), (ErrorCode::OutcomeUnknown, false));
        }
    }
}

#[test]
fn what_was_not_being_done_has_no_outcome() {
    let made = vec![
        called(2, 1, fixtures::tool("1")),
        called(2, 2, fixtures::named("pay.tool_4", "1")),
        called(2, 3, fixtures::sleep(100)),
        called(2, 4, once("bank")),
        Record::AttemptFailed { at: at(3), seq: 4, attempt: 1, failure: fixtures::failure(), retry_at: at(13) },
    ];
    assert_eq!(outcomes(&history_of(&source(made))), []);
}

/// A node deals with several answers in one turn: the script had got them all before its call was refused.
#[test]
fn outcomes_of_one_turn_come_before_what_it_refused() {
    let (one, two, refused) = (fixtures::tool("1"), fixtures::tool("2"), fixtures::tool("3"));
    let why = ToolFailure::new(ErrorCode::InvalidArguments, "no");
    let Call::Tool { tool, arguments, .. } = &refused else { panic!("a tool") };
    let (tool, arguments, failure) = (tool.clone(), arguments.digest(), why.clone());
    let of_source = source(vec![
        called(2, 1, one.clone()),
        called(2, 2, two.clone()),
        completed(5, 1),
        completed(6, 2),
        Record::Refused { at: at(6), seq: 3, tool, arguments, failure, then: None },
    ]);
    let history = history_of(&of_source);
    let mut run = forked(at(900));
    step(&mut run, at(901), Input::Script(script(vec![one, two]), Some(&history)));
    let mut got = step(&mut run, at(902), Input::Take(&history));
    assert_eq!(seqs(&got), [1, 2]);
    let refused = NewCall { refused: Some(why), ..new_call(3, refused) };
    let turn = ScriptTurn { calls: vec![refused], ..ScriptTurn::default() };
    got.extend(step(&mut run, at(903), Input::Script(turn, Some(&history))));
    assert_eq!(deliveries(&got), deliveries(&of_source), "at the source's times");
}

/// And before the script ended: it had made no call after the first of them.
#[test]
fn outcomes_after_the_last_call_come_together_and_others_one_by_one() {
    let calls = [fixtures::tool("1"), fixtures::tool("2"), fixtures::tool("3")];
    let made = |n: usize| (1..).zip(calls.clone()).take(n).map(|(seq, call)| called(2, seq, call));
    let ends = [completed(5, 1), completed(6, 2)];
    let first_take = |of_source: Vec<Record>| {
        let history = history_of(&source(of_source));
        let mut run = forked(at(900));
        step(&mut run, at(901), Input::Script(script(calls[..2].to_vec()), Some(&history)));
        seqs(&step(&mut run, at(902), Input::Take(&history)))
    };
    assert_eq!(first_take(made(2).chain(ends.clone()).collect()), [1, 2]);
    let late = Record::Refused {
        at: at(8),
        seq: 4,
        tool: "a.x".parse().expect("a name"),
        arguments: Digest::of("1"),
        failure: fixtures::failure(),
        then: None,
    };
    // The second outcome was of a call that the first had led to.
    let of_source =
        made(2).chain([completed(5, 1), called(5, 3, calls[2].clone()), completed(6, 3), completed(7, 2), late]);
    assert_eq!(first_take(of_source.collect()), [1], "there is one between them");
    let [first, second] = ends;
    let third = made(3).last().expect("the third");
    assert_eq!(first_take(made(2).chain([first, third, second]).collect()), [1], "the first may have led to it");
}

/// The clock of the node that has the fork may be behind those that its source ran on.
#[test]
fn script_time_goes_on_from_that_of_the_source() {
    let call = fixtures::tool("1");
    let history = history_of(&source(vec![called(2, 1, call.clone()), completed(500, 1)]));
    let mut run = forked(at(480));
    step(&mut run, at(481), Input::Script(script(vec![call]), Some(&history)));
    step(&mut run, at(482), Input::Take(&history));
    assert_eq!(run.script_time(), at(500));
    let turn = ScriptTurn { calls: vec![new_call(2, fixtures::tool("2"))], ..ScriptTurn::default() };
    step(&mut run, at(483), Input::Script(turn, Some(&history)));
    let got = step(&mut run, at(490), fixtures::answer(2, 1, "2"));
    assert_eq!(deliveries(&got)[0].1, at(500));
}

/// A history is kept by itself: its times are believed as far as they go on.
#[test]
fn a_refusal_does_not_take_script_time_back() {
    let call = fixtures::tool("1");
    let mut history = history_of(&source(vec![called(2, 1, call.clone()), completed(500, 1)]));
    let why = ToolFailure::new(ErrorCode::InvalidArguments, "no");
    let refused = fixtures::tool("2");
    let Call::Tool { tool, arguments, .. } = &refused else { panic!("a tool") };
    let made = Made::Refused { tool: tool.clone(), arguments: arguments.digest() };
    let taken = Taken::Outcome(Outcome::Err(why.clone()));
    let outcome = Some(PastOutcome { order: 1, made: None, at: at(400), taken });
    history.calls.insert(2, PastCall { made, outcome });
    let mut run = forked(at(900));
    step(&mut run, at(901), Input::Script(script(vec![call]), Some(&history)));
    step(&mut run, at(902), Input::Take(&history));
    let calls = vec![NewCall { refused: Some(why), ..new_call(2, refused) }];
    let turn = ScriptTurn { calls, ..ScriptTurn::default() };
    let got = step(&mut run, at(903), Input::Script(turn, Some(&history)));
    assert_eq!(deliveries(&got)[0].1, at(500));
}

/// What a fork had yet to take over, its own fork takes over in the order of the first source.
#[test]
fn what_was_yet_to_be_taken_keeps_its_order_and_its_times() {
    let calls = [fixtures::tool("1"), fixtures::tool("2")];
    let made = (1..).zip(calls.clone()).map(|(seq, call)| called(2, seq, call));
    let history = history_of(&source(made.chain([completed(5, 2), completed(6, 1)]).collect()));
    let spec = forked(at(900)).spec().expect("created").clone();
    let mut records = vec![Record::Created { at: at(900), spec: Box::new(spec) }, adopted(1)];
    let turn = Input::Script(script(calls.to_vec()), Some(&history));
    records.extend(forked(at(900)).decide(at(901), turn));
    let again = History::of_run(fixtures::run_id(), &records, Some(&history)).expect("legal");
    assert_eq!(outcomes(&again), outcomes(&history));
}

/// The schema is another one by now, or the script's toolset is.
#[test]
fn a_call_that_was_sent_and_now_is_refused_is_another_one() {
    let call = fixtures::tool("1");
    let Call::Tool { tool, arguments, .. } = &call else { panic!("a tool") };
    let (tool, arguments) = (tool.clone(), arguments.digest());
    let why = ToolFailure::new(ErrorCode::InvalidArguments, "no");
    let refused = Record::Refused { at: at(5), seq: 1, tool, arguments, failure: why.clone(), then: None };
    let sent = vec![called(2, 1, call.clone()), completed(5, 1)];
    for (of_source, now) in [(sent, Some(why)), (vec![refused], None)] {
        let history = history_of(&source(of_source));
        let calls = vec![NewCall { refused: now.clone(), ..new_call(1, call.clone()) }];
        let turn = ScriptTurn { calls, ..ScriptTurn::default() };
        let records = step(&mut forked(at(900)), at(901), Input::Script(turn, Some(&history)));
        assert!(matches!(records[0], Record::Diverged { seq: 1, .. }), "{records:?}");
        match &records[1] {
            Record::Refused { then: None, .. } => assert!(now.is_some()),
            Record::Called { call, .. } => assert!(now.is_none() && call.origin().is_none()),
            other => panic!("{other:?}"),
        }
    }
}

/// What must not be made twice is not, though the script parted before.
#[test]
fn after_it_parted_only_what_must_not_be_made_twice_is_taken() {
    let calls = |first: &str| vec![fixtures::tool(first), once("bank"), fixtures::tool("3"), fixtures::sleep(100)];
    let made = (1..).zip(calls("1")).map(|(seq, call)| called(2, seq, call));
    let ends = [completed(5, 1), completed(6, 2), completed(7, 3), Record::Fired { at: at(100), seq: 4 }];
    let history = history_of(&source(made.chain(ends).collect()));
    let mut run = forked(at(900));
    let records = step(&mut run, at(901), Input::Script(script(calls("7")), Some(&history)));
    assert_eq!(diverged(&records).len(), 1);
    assert!(matches!(records[0], Record::Diverged { seq: 1, .. }));
    let dispatched = [Effect::Dispatch { seq: 1, attempt: 1 }, Effect::Dispatch { seq: 3, attempt: 1 }];
    assert_eq!(run.pending(), [&dispatched[..], &[Effect::Arm { seq: 4, at: at(100) }]].concat());
    assert_eq!(seqs(&step(&mut run, at(902), Input::Take(&history))), [2]);
    // The journal, read again, parts no second time.
    let turn = ScriptTurn { calls: vec![new_call(5, fixtures::tool("5"))], ..ScriptTurn::default() };
    assert!(diverged(&step(&mut run, at(903), Input::Script(turn, Some(&history)))).is_empty());
}

/// A fork that parted, and was then forked itself: what must not be made twice is known of by the second one, too.
#[test]
fn what_a_fork_had_not_come_to_is_handed_on() {
    let calls = vec![fixtures::tool("1"), once("bank"), fixtures::tool("3")];
    let made = (1..).zip(calls.clone()).map(|(seq, call)| called(2, seq, call));
    let history = history_of(&source(made.chain([completed(5, 1), completed(6, 2), completed(7, 3)]).collect()));
    let spec = forked(at(900)).spec().expect("created").clone();
    let first = |turn: Option<ScriptTurn>| {
        let mut records = vec![Record::Created { at: at(900), spec: Box::new(spec.clone()) }, adopted(1)];
        let more = turn.map(|turn| forked(at(900)).decide(at(901), Input::Script(turn, Some(&history))));
        records.extend(more.unwrap_or_default());
        records
    };
    let threw = ScriptEnd::Failed(RunError {
        code: "script_error".into(),
        message: "a slip".into(),
        tool: None,
        key: None,
        stack: None,
    });
    let parted = script(vec![fixtures::tool("7")]);
    for (turn, handed_on) in [
        (None, vec![1, 2, 3]),
        (Some(ScriptTurn { end: Some(threw), ..ScriptTurn::default() }), vec![1, 2, 3]),
        (Some(parted), vec![2]),
    ] {
        let again = History::of_run(fixtures::run_id(), &first(turn), Some(&history)).expect("legal");
        assert_eq!(outcomes(&again).iter().map(|(seq, ..)| *seq).collect::<Vec<_>>(), handed_on);
        let mut second = forked(at(950));
        step(&mut second, at(951), Input::Script(script(calls.clone()), Some(&again)));
        assert!(!second.pending().contains(&Effect::Dispatch { seq: 2, attempt: 1 }), "invariant 3");
    }
}

/// A model that writes a script anew writes members in another order, or asks for the whole result.
#[test]
fn a_call_that_must_not_be_made_twice_is_known_in_another_form() {
    let form = |text: &str, raw: bool| match once("bank") {
        Call::Tool { tool, terms, .. } => Call::Tool { tool, arguments: inline(text), raw, terms, origin: None },
        Call::Sleep { .. } => panic!("a tool"),
    };
    let made = called(2, 1, form(r#"{"a":1,"b":[{"c":2,"d":3}]}"#, false));
    let history = history_of(&source(vec![made, completed(5, 1)]));
    let forked_with = |call: Call| {
        let mut run = forked(at(900));
        let records = step(&mut run, at(901), Input::Script(script(vec![call]), Some(&history)));
        (records, run.pending())
    };
    let (records, pending) = forked_with(form(r#"{"b":[{"d":3,"c":2}],"a":1}"#, false));
    assert!(diverged(&records).is_empty() && pending.is_empty(), "{records:?} {pending:?}");
    let (records, pending) = forked_with(form(r#"{"b":[{"d":3,"c":2}],"a":1}"#, true));
    assert_eq!((diverged(&records).len(), pending), (1, vec![]));
    assert!(matches!(&records[1], Record::Refused { failure, .. } if failure.code == ErrorCode::OutcomeUnknown));
    let (_, pending) = forked_with(form(r#"{"b":[{"d":2,"c":3}],"a":1}"#, false));
    assert_eq!(pending, [Effect::Dispatch { seq: 1, attempt: 1 }], "other arguments, another call");
}

/// What the script got in one turn decides where it stands when a call of it is refused.
#[test]
fn outcomes_are_taken_in_the_turns_of_the_source() {
    let refused = |seq| {
        let Call::Tool { tool, arguments, .. } = fixtures::tool("4") else { panic!("a tool") };
        let failure = ToolFailure::new(ErrorCode::InvalidArguments, "no");
        Record::Refused { at: at(8), seq, tool, arguments: arguments.digest(), failure, then: None }
    };
    let records = vec![
        called(2, 1, fixtures::tool("1")),
        called(2, 2, fixtures::sleep(5)),
        Record::Fired { at: at(5), seq: 2 },
        called(5, 3, fixtures::tool("3")),
        completed(7, 1),
        completed(7, 3),
        refused(4),
    ];
    let history = history_of(&source(records));
    let made: Vec<_> = (1..=4).map(|seq| history.calls[&seq].outcome.as_ref().expect("each has one").made).collect();
    assert_eq!(made, [Some(3), Some(2), Some(3), Some(4)]);
    let mut run = forked(at(900));
    let calls = vec![fixtures::tool("1"), fixtures::sleep(5)];
    step(&mut run, at(901), Input::Script(script(calls), Some(&history)));
    assert_eq!(seqs(&step(&mut run, at(902), Input::Take(&history))), [2], "call 3 is made upon it alone");
    let turn = ScriptTurn { calls: vec![new_call(3, fixtures::tool("3"))], ..ScriptTurn::default() };
    step(&mut run, at(903), Input::Script(turn, Some(&history)));
    assert_eq!(seqs(&step(&mut run, at(904), Input::Take(&history))), [1, 3]);
}

/// What a fork was told of such a call, its own fork is told, and it parts nowhere.
#[test]
fn an_unknown_outcome_is_handed_on() {
    let form = |raw: bool| match once("bank") {
        Call::Tool { tool, arguments, terms, .. } => Call::Tool { tool, arguments, raw, terms, origin: None },
        Call::Sleep { .. } => panic!("a tool"),
    };
    let history = history_of(&source(vec![called(2, 1, form(false)), completed(5, 1)]));
    let spec = forked(at(900)).spec().expect("created").clone();
    let mut records = vec![Record::Created { at: at(900), spec: Box::new(spec) }, adopted(1)];
    records.extend(forked(at(900)).decide(at(901), Input::Script(script(vec![form(true)]), Some(&history))));
    let again = History::of_run(fixtures::run_id(), &records, Some(&history)).expect("legal");
    for raw in [true, false] {
        let mut run = forked(at(950));
        let records = step(&mut run, at(951), Input::Script(script(vec![form(raw)]), Some(&again)));
        assert!(diverged(&records).is_empty() && run.pending().is_empty(), "{records:?}");
        assert!(matches!(&records[0], Record::Refused { failure, .. } if failure.code == ErrorCode::OutcomeUnknown));
    }
    // On a cassette of it as well.
    let spec = Spec { past: Some(fixtures::past(at(0), None)), ..fixtures::spec() };
    let mut run = fixtures::folded(Limits::DEFAULT, &[fixtures::created_of(spec), adopted(1)]);
    let records = step(&mut run, at(951), Input::Script(script(vec![form(true)]), Some(&again)));
    assert!(matches!(&records[0], Record::Refused { failure, .. } if failure.code == ErrorCode::OutcomeUnknown));
}
