//! The script of a run in its sandbox: brought up to the journal's end, then told what comes.

use std::sync::Arc;

use rewind_bus::{BusError, catalog::CompiledScript, journal::Stored};
use rewind_dispatch::Tools;
use rewind_model::{Payload, RunError, RunId, Timestamp};
use rewind_run::{Call, Delivered, Delivery, Divergence, NewCall, Replay, ScriptEnd, ScriptTurn, Spec, Terms};
use rewind_sandbox::{self as sandbox, Instance, Load, SandboxError, ScriptLimits};

use crate::{context::Context, stack};

/// Deliveries of one frame on replay: many for speed, bounded for memory.
const CHUNK_DELIVERIES: usize = 1_000;
const CHUNK_BYTES: usize = 1 << 20;
/// Results that are in memory at once, of however many that came together; and one more, at most.
const FRAME_BYTES: usize = 16 << 20;

/// A run's script, as far as it is the same in every sandbox.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) tools: Arc<Tools>,
    pub(crate) compiled: Arc<CompiledScript>,
    pub(crate) run: RunId,
    spec: Spec,
    created_at: Timestamp,
    limits: ScriptLimits,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error(transparent)]
    Diverged(#[from] Divergence),
}

impl Script {
    pub(crate) fn new(
        run: RunId,
        spec: Spec,
        created_at: Timestamp,
        tools: Arc<Tools>,
        compiled: Arc<CompiledScript>,
        limits: ScriptLimits,
    ) -> Self {
        Self { tools, compiled, run, spec, created_at, limits }
    }

    /// A sandbox in which the script has seen all of the journal, and what it did beyond it.
    pub(crate) async fn replay(
        &self,
        context: &Context,
        entries: &[Stored],
        isolated: bool,
    ) -> Result<(Instance, ScriptTurn), ScriptError> {
        let clock = self.spec.past.as_ref().map(|past| &past.clock);
        let load = Load {
            run: self.run.clone(),
            seed: clock.map(|clock| clock.seed.clone()),
            script: self.compiled.javascript.clone(),
            exports: exports(&self.tools),
            input: context.bus.payload_json_surely(&self.spec.input).await?,
            now: clock.map_or(self.created_at, |clock| clock.started),
            limits: self.limits,
        };
        let mut replay = Replay::default();
        let (mut instance, turn) = context.pool.load(load, isolated).await?;
        replay.turn(self.turn(turn))?;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        for stored in entries {
            for record in &stored.entry.records {
                replay.record(record)?;
                if let Some(delivery) = Delivery::of(record) {
                    bytes += size(&delivery);
                    chunk.push(delivery);
                }
            }
            // Between entries only: what the script did on a delivery stands in the same entry.
            if chunk.len() >= CHUNK_DELIVERIES || bytes >= CHUNK_BYTES {
                replay.turn(self.deliver(context, &mut instance, std::mem::take(&mut chunk)).await?)?;
                bytes = 0;
            }
        }
        if !chunk.is_empty() {
            replay.turn(self.deliver(context, &mut instance, chunk).await?)?;
        }
        let beyond = replay.finish()?;
        Ok((instance, beyond))
    }

    /// Hands results over, in this order, and says what the script did.
    pub(crate) async fn deliver(
        &self,
        context: &Context,
        instance: &mut Instance,
        deliveries: Vec<Delivery>,
    ) -> Result<ScriptTurn, ScriptError> {
        let mut did = ScriptTurn::default();
        let mut rest = deliveries.into_iter().peekable();
        loop {
            let mut frame = Vec::new();
            let mut bytes = 0;
            while let Some(delivery) = rest.next_if(|_| bytes < FRAME_BYTES) {
                bytes += size(&delivery);
                frame.push(read(context, delivery).await?);
            }
            let ScriptTurn { calls, logs, end } = self.turn(instance.resolve(frame).await?);
            did.calls.extend(calls);
            did.logs.extend(logs);
            did.end = end;
            if did.end.is_some() || rest.peek().is_none() {
                return Ok(did);
            }
        }
    }

    /// The sandbox's turn in the core's words, with a verdict on each call.
    fn turn(&self, turn: sandbox::Turn) -> ScriptTurn {
        ScriptTurn {
            calls: turn.calls.into_iter().map(|call| self.call(call)).collect(),
            logs: turn.logs.into_iter().map(|log| (log.level, log.text)).collect(),
            end: turn.end.map(|end| self.end(end)),
        }
    }

    fn call(&self, new: sandbox::NewCall) -> NewCall {
        let seq = new.seq;
        match new.request {
            sandbox::Request::Sleep { until } => {
                NewCall { seq, call: Call::Sleep { until, origin: None }, refused: None }
            }
            sandbox::Request::Tool { tool, arguments, raw } => {
                let refused = self.tools.refusal(&tool, &arguments);
                let terms = self.tools.policy(&tool).map(Terms::of).unwrap_or_default();
                let arguments = Payload::Inline(arguments);
                NewCall { seq, call: Call::Tool { tool, arguments, raw, terms, origin: None }, refused }
            }
        }
    }

    fn end(&self, end: sandbox::End) -> ScriptEnd {
        let failed = |code: &str, message: String| ScriptEnd::Failed(error(code, message));
        match end {
            sandbox::End::Returned(result) => ScriptEnd::Returned(result),
            sandbox::End::BadResult(why) => failed("bad_result", format!("what main returned is no JSON: {why}")),
            sandbox::End::Limit(limit) => ScriptEnd::Failed(limit_error(limit, &self.limits)),
            sandbox::End::UnknownCall(seq) => failed(
                "nondeterminism",
                format!("on replay, the script did not make call {seq}, whose result the journal holds"),
            ),
            sandbox::End::Threw(thrown) => ScriptEnd::Failed(self.thrown(thrown)),
        }
    }

    fn thrown(&self, thrown: sandbox::Thrown) -> RunError {
        let stack =
            thrown.stack.map(|text: String| stack::map(&self.compiled, &text)).filter(|text: &String| !text.is_empty());
        let (code, tool, key) = match thrown.tool_error {
            Some(error) => (error.code, error.tool, error.key),
            None => ("script_error".to_owned(), None, None),
        };
        RunError { code, message: thrown.message, tool, key, stack }
    }
}

/// The error of a run that went over a limit of its sandbox.
pub(crate) fn limit_error(limit: sandbox::Limit, limits: &ScriptLimits) -> RunError {
    let (code, message) = match limit {
        sandbox::Limit::Cpu => (
            "limit_cpu",
            format!(
                "the script used more CPU time than it may: {} ms a turn, {} ms a run",
                limits.turn_cpu_ms, limits.run_cpu_ms
            ),
        ),
        sandbox::Limit::Memory => {
            ("limit_memory", format!("the script used more memory than it may: {} MiB", limits.heap_bytes >> 20))
        }
        sandbox::Limit::Stack => (
            "limit_stack",
            format!("the script's calls are nested deeper than its stack of {} KiB allows", limits.stack_bytes >> 10),
        ),
        sandbox::Limit::Result => (
            "limit_result",
            format!("the script's result is over the limit of {} bytes of JSON", sandbox::MAX_RESULT_BYTES),
        ),
        sandbox::Limit::Calls => {
            ("limit_calls", format!("the script made over {} calls at once", sandbox::MAX_CALLS_PER_DELIVERY))
        }
    };
    error(code, message)
}

pub(crate) fn error(code: &str, message: String) -> RunError {
    RunError { code: code.into(), message, tool: None, key: None, stack: None }
}

fn exports(tools: &Tools) -> Vec<sandbox::Export> {
    let toolset = tools.toolset();
    let servers = toolset
        .mcp_servers
        .iter()
        .map(|(name, server)| sandbox::Export { name: name.clone(), tools: server.tools.keys().cloned().collect() });
    let host = sandbox::Export {
        name: rewind_model::Toolset::HOST.into(),
        tools: toolset.host_tools.keys().cloned().collect(),
    };
    let workflows = sandbox::Export {
        name: rewind_model::Toolset::WORKFLOWS.into(),
        tools: toolset.workflows.keys().cloned().collect(),
    };
    servers.chain([host, workflows]).collect()
}

/// A delivery as the sandbox gets it, its result read where it is a blob.
async fn read(context: &Context, delivery: Delivery) -> Result<sandbox::Delivery, BusError> {
    let Delivery { seq, at, value } = delivery;
    let value = match value {
        Delivered::Value(Payload::Inline(json)) => sandbox::Delivered::Value(json),
        Delivered::Value(blob) => sandbox::Delivered::Value(context.bus.payload_json_surely(&blob).await?),
        Delivered::Failure(failure) => sandbox::Delivered::Failure(failure),
        Delivered::Slept => sandbox::Delivered::Slept,
    };
    Ok(sandbox::Delivery { seq, at, value })
}

fn size(delivery: &Delivery) -> usize {
    match &delivery.value {
        Delivered::Value(payload) => usize::try_from(payload.size()).unwrap_or(usize::MAX),
        Delivered::Failure(failure) => failure.message.len() + failure.details.as_ref().map_or(0, |json| json.len()),
        Delivered::Slept => 0,
    }
}
