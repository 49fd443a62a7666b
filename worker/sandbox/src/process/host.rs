//! What the prelude can ask of Rust, and what a script has done since it was last asked.

use std::{
    cell::{Cell, RefCell},
    collections::HashSet,
    mem,
    rc::Rc,
    time::Duration,
};

use rewind_model::{Json, Key, RunId, Seq, Timestamp, ToolName, parse_duration};
use rquickjs::{Ctx, Exception, Function, Object, Persistent, Result, TypedArray, Value, qjs};

use super::{budget::Budget, json, prelude, random::Random, web};
use crate::protocol::{
    End, Export, Limit, Load, Log, MAX_ARGUMENT_BYTES, MAX_CALLS_PER_DELIVERY, MAX_LOG_BYTES, MAX_LOG_LINE_BYTES,
    MAX_OUTGOING_BYTES, MAX_RESULT_BYTES, NewCall, Request, Thrown, ThrownToolError, Turn,
};

/// Bytes of an exception's message and of its stack that leave the sandbox.
const MAX_THROWN_BYTES: usize = 16 << 10;

type Rejection = (Persistent<Value<'static>>, Persistent<Value<'static>>);

/// The state of a run that is not JavaScript.
pub(crate) struct World {
    run: RunId,
    /// Searched from end to end: the prelude asks once for each tool that a script uses, and a set of
    /// hundreds would cost every run more.
    exports: Vec<Export>,
    budget: Rc<Budget>,
    now: Cell<Timestamp>,
    last_seq: Cell<Seq>,
    log_bytes: Cell<usize>,
    random: RefCell<Random>,
    outbox: RefCell<Outbox>,
    /// Promises that were rejected on this delivery and that nothing handles yet, and why.
    rejections: RefCell<Vec<Rejection>>,
}

#[derive(Default)]
struct Outbox {
    calls: Vec<NewCall>,
    /// Bytes of `calls`.
    bytes: usize,
    logs: Vec<Log>,
    end: Option<End>,
}

impl World {
    /// Takes the load's exports.
    pub(crate) fn new(load: &mut Load, budget: Rc<Budget>) -> Self {
        Self {
            run: load.run.clone(),
            exports: mem::take(&mut load.exports),
            budget,
            now: Cell::new(load.now),
            last_seq: Cell::new(0),
            log_bytes: Cell::new(0),
            random: RefCell::new(Random::of_run(load.seed.as_ref().unwrap_or(&load.run))),
            outbox: RefCell::default(),
            rejections: RefCell::default(),
        }
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn set_now(&self, at: Timestamp) {
        self.now.set(at);
    }

    /// The first end is the one that counts.
    pub(crate) fn end(&self, end: End) {
        self.outbox.borrow_mut().end.get_or_insert(end);
    }

    pub(crate) fn over(&self) -> bool {
        self.budget.tripped().is_some() || self.outbox.borrow().end.is_some()
    }

    /// Moves what the script did on this delivery to the end of `turn`. A limit that tripped goes
    /// before whatever the script made of it.
    pub(crate) fn take_into(&self, turn: &mut Turn) {
        let mut outbox = self.outbox.take();
        turn.calls.append(&mut outbox.calls);
        turn.logs.append(&mut outbox.logs);
        turn.end = self.budget.tripped().map(End::Limit).or(outbox.end);
    }

    /// The engine's promise rejection tracker.
    pub(crate) fn rejected<'js>(&self, ctx: &Ctx<'js>, promise: Value<'js>, reason: Value<'js>, handled: bool) {
        let mut rejections = self.rejections.borrow_mut();
        let promise = Persistent::save(ctx, promise);
        if handled {
            rejections.retain(|(other, _)| *other != promise);
        } else if rejections.len() < MAX_CALLS_PER_DELIVERY {
            rejections.push((promise, Persistent::save(ctx, reason)));
        }
    }

    /// Why the promises were rejected that nothing handles, now that the script can only wait.
    pub(crate) fn take_unhandled<'js>(&self, ctx: &Ctx<'js>) -> Vec<Value<'js>> {
        let rejections = self.rejections.take();
        rejections.into_iter().filter_map(|(_, reason)| reason.restore(ctx).ok()).collect()
    }

    /// They must not outlive the engine.
    pub(crate) fn forget_rejections(&self) {
        self.rejections.take();
    }

    fn next_call(&self, ctx: &Ctx<'_>, request: Request) -> Result<Seq> {
        let mut outbox = self.outbox.borrow_mut();
        outbox.bytes += request.size();
        if outbox.bytes > MAX_OUTGOING_BYTES {
            self.budget.trip(Limit::Memory);
        }
        if outbox.calls.len() >= MAX_CALLS_PER_DELIVERY {
            self.budget.trip(Limit::Calls);
        }
        if let Some(limit) = self.budget.tripped() {
            return Err(throw_uncatchable(ctx, &format!("the run is over its {limit:?} limit")));
        }
        let seq = self.last_seq.get() + 1;
        self.last_seq.set(seq);
        outbox.calls.push(NewCall { seq, request });
        Ok(seq)
    }

    fn call(&self, ctx: &Ctx<'_>, export: usize, name: String, arguments: String, raw: bool) -> Result<Seq> {
        let Some(export) = self.exports.get(export) else {
            return Err(Exception::throw_internal(ctx, "there is no such export"));
        };
        let arguments = Json::parse(json::well_formed(arguments))
            .map_err(|error| Exception::throw_internal(ctx, &format!("the engine wrote what is no JSON: {error}")))?;
        self.next_call(ctx, Request::Tool { tool: ToolName::new(&export.name, name), arguments, raw })
    }

    fn sleep(&self, ctx: &Ctx<'_>, ms: f64) -> Result<Seq> {
        // Rounded up: a timer never fires early. Over 2^64 the cast saturates, and `plus` after it.
        let until = self.now.get().plus(Duration::from_millis(ms.max(0.0).ceil() as u64));
        self.next_call(ctx, Request::Sleep { until })
    }

    fn log(&self, level: String, mut text: String) {
        cut(&mut text, MAX_LOG_LINE_BYTES);
        let log = Log { level, text, at: self.now.get() };
        let bytes = self.log_bytes.get().saturating_add(log.size());
        self.log_bytes.set(bytes);
        if bytes <= MAX_LOG_BYTES && !self.over() {
            self.outbox.borrow_mut().logs.push(log);
        }
    }

    fn returned(&self, result: String) {
        if result.len() > MAX_RESULT_BYTES {
            return self.budget.trip(Limit::Result);
        }
        self.end(match Json::parse(json::well_formed(result)) {
            Ok(result) => End::Returned(result),
            Err(error) => End::BadResult(error.to_string()),
        });
    }

    fn threw(&self, thrown: &Object<'_>) -> Result<()> {
        let text = |name: &str| thrown.get::<_, Option<String>>(name);
        let mut message = text("message")?.unwrap_or_default();
        cut(&mut message, MAX_THROWN_BYTES);
        let stack = text("stack")?.map(|mut stack| {
            cut(&mut stack, MAX_THROWN_BYTES);
            stack
        });
        let tool_error = match text("code")? {
            None => None,
            Some(code) => Some(ThrownToolError {
                code,
                tool: text("tool")?.and_then(|tool| tool.parse().ok()),
                key: text("key")?.and_then(|key| key.parse().ok()),
            }),
        };
        self.end(End::Threw(Thrown { message, stack, tool_error }));
        Ok(())
    }
}

/// Throws what ends the script here, as the engine does for an interrupt.
fn throw_uncatchable(ctx: &Ctx<'_>, message: &str) -> rquickjs::Error {
    let thrown = Exception::throw_internal(ctx, message);
    let error = ctx.catch();
    if !error.is_object() {
        return thrown;
    }
    // SAFETY: the error is a live value of this context.
    unsafe { qjs::JS_SetUncatchableError(ctx.as_raw().as_ptr(), error.as_raw()) };
    ctx.throw(error)
}

fn cut(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let mark = " […]";
        text.truncate(text.floor_char_boundary(bytes - mark.len()));
        text.push_str(mark);
    }
}

/// The object that the prelude's `install` is given. Its functions trust their arguments: only the
/// prelude can reach them.
pub(crate) fn functions<'js>(ctx: &Ctx<'js>, world: &Rc<World>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set_prototype(None)?;
    host.set("run", world.run.as_str())?;
    host.set("maxArgumentBytes", MAX_ARGUMENT_BYTES)?;
    let names: Vec<&str> = world.exports.iter().map(|export| export.name.as_str()).collect();
    host.set("exports", names)?;
    effects(ctx, &host, world)?;
    queries(ctx, &host, world)?;
    web::functions(ctx, &host)?;
    host.set("web", Function::new(ctx.clone(), |ctx: Ctx<'js>| prelude::web(&ctx))?)?;
    Ok(host)
}

/// Functions that the node hears of.
fn effects<'js>(ctx: &Ctx<'js>, host: &Object<'js>, world: &Rc<World>) -> Result<()> {
    let w = Rc::clone(world);
    let call = move |ctx: Ctx<'js>, export: usize, name: String, arguments: String, raw: bool| {
        w.call(&ctx, export, name, arguments, raw)
    };
    host.set("call", Function::new(ctx.clone(), call)?)?;
    let w = Rc::clone(world);
    host.set("sleep", Function::new(ctx.clone(), move |ctx: Ctx<'js>, ms: f64| w.sleep(&ctx, ms))?)?;
    let w = Rc::clone(world);
    host.set("log", Function::new(ctx.clone(), move |level: String, text: String| w.log(level, text))?)?;
    let w = Rc::clone(world);
    host.set("returned", Function::new(ctx.clone(), move |result: String| w.returned(result))?)?;
    let w = Rc::clone(world);
    host.set(
        "badResult",
        Function::new(ctx.clone(), move |mut why: String| {
            cut(&mut why, MAX_THROWN_BYTES);
            w.end(End::BadResult(why));
        })?,
    )?;
    let w = Rc::clone(world);
    host.set("threw", Function::new(ctx.clone(), move |thrown: Object<'js>| w.threw(&thrown))?)
}

/// Functions that change nothing but the state of the random numbers.
fn queries<'js>(ctx: &Ctx<'js>, host: &Object<'js>, world: &Rc<World>) -> Result<()> {
    let w = Rc::clone(world);
    host.set("now", Function::new(ctx.clone(), move || w.now.get().unix_ms() as f64)?)?;
    let w = Rc::clone(world);
    host.set("random", Function::new(ctx.clone(), move || w.random.borrow_mut().unit())?)?;
    let w = Rc::clone(world);
    host.set("uuid", Function::new(ctx.clone(), move || w.random.borrow_mut().uuid())?)?;
    let w = Rc::clone(world);
    host.set(
        "randomBytes",
        Function::new(ctx.clone(), move |ctx: Ctx<'js>, count: usize| {
            let mut bytes = vec![0; count.min(65_536)];
            w.random.borrow_mut().fill(&mut bytes);
            TypedArray::<u8>::new_copy(ctx, bytes)
        })?,
    )?;
    let w = Rc::clone(world);
    host.set(
        "has",
        Function::new(ctx.clone(), move |export: usize, name: String| {
            w.exports.get(export).is_some_and(|export| export.tools.contains(&name))
        })?,
    )?;
    let w = Rc::clone(world);
    host.set(
        "names",
        Function::new(ctx.clone(), move |export: usize| {
            let mut seen = HashSet::new();
            let tools = w.exports.get(export).map(|export| export.tools.as_slice()).unwrap_or_default();
            let unique: Vec<&String> = tools.iter().filter(|tool| seen.insert(*tool)).collect();
            serde_json::to_string(&unique).unwrap_or_default()
        })?,
    )?;
    let w = Rc::clone(world);
    host.set("key", Function::new(ctx.clone(), move |seq: Seq| Key { run: w.run.clone(), seq }.to_string())?)?;
    host.set(
        "duration",
        Function::new(ctx.clone(), |ctx: Ctx<'js>, text: String| {
            parse_duration(&text)
                .map(|duration| duration.as_millis() as f64)
                .map_err(|error| Exception::throw_range(&ctx, &error.to_string()))
        })?,
    )
}
