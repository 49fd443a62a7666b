//! One run's JavaScript engine.

use std::{
    mem::{self, ManuallyDrop},
    rc::Rc,
    time::Duration,
};

use rquickjs::{CatchResultExt, CaughtError, Context, Ctx, Function, Module, Object, Persistent, Runtime, Value};

use super::{
    budget::Budget,
    confine,
    heap::Heap,
    host::{self, World},
    json::{self, Marked},
    prelude,
    stack::StackEnd,
    tools::{OnlyTools, ToolsExports},
};
use crate::protocol::{Delivered, Delivery, End, Limit, Load, Thrown, Turn};

/// The module name of a run's script in stacks.
const SCRIPT: &str = "script.js";
/// CPU time that the interrupt handler has to stop the script before the alarm ends the process.
const ALARM_GRACE: Duration = Duration::from_millis(250);

/// What the prelude gives back: how Rust enters the script's world.
struct Entries {
    /// `(seq, kind, ...) => was it expected`
    deliver: Persistent<Function<'static>>,
    /// `(value, mark) => value` with `BigInt`s for marked strings.
    revive: Persistent<Function<'static>>,
    /// `(reason)`: logs a rejection that nothing handles.
    unhandled: Persistent<Function<'static>>,
}

/// A script and its world, from load to end.
pub(crate) struct Engine {
    /// Dropped before the engine that they point into.
    entries: Entries,
    vm: Vm,
    world: Rc<World>,
}

/// QuickJS itself.
struct Vm {
    context: ManuallyDrop<Context>,
    runtime: ManuallyDrop<Runtime>,
    world: Rc<World>,
    budget: Rc<Budget>,
}

impl Engine {
    /// Starts a script and follows it to where it can only wait. No engine: the turn has an end.
    pub(crate) fn load(mut load: Load) -> (Option<Self>, Turn) {
        let budget = Rc::new(Budget::new(&load.limits));
        let world = Rc::new(World::new(&mut load, Rc::clone(&budget)));
        let mut turn = empty_turn(load.run.clone());
        confine::alarm(budget.begin() + ALARM_GRACE);
        let engine = match Self::start(load, &world, &budget) {
            Ok(engine) => Some(engine),
            Err(thrown) => {
                world.end(End::Threw(*thrown));
                None
            }
        };
        world.take_into(&mut turn);
        turn.heap_bytes = budget.heap() as u64;
        turn.cpu_us = micros(budget.finish());
        (engine, turn)
    }

    fn start(load: Load, world: &Rc<World>, budget: &Rc<Budget>) -> Result<Self, Box<Thrown>> {
        let failed = |error: rquickjs::Error| plain(format!("Error: the engine cannot start: {error}"));
        let vm = Vm::new(world, budget).map_err(failed)?;
        vm.watching_stack(|| {
            let entries = vm.context.with(|ctx| -> Result<Entries, Box<Thrown>> {
                let installed = install(&ctx, world).catch(&ctx).map_err(|error| thrown(&error))?;
                let entries = Entries::of(&ctx, &installed).map_err(failed)?;
                entries.start(&ctx, &installed, load).catch(&ctx).map_err(|error| thrown(&error))?;
                Ok(entries)
            })?;
            vm.context.with(|ctx| settle(&ctx, &entries, world));
            Ok(entries)
        })
        .map(|entries| Self { entries, vm, world: Rc::clone(world) })
    }

    pub(crate) fn empty_turn(&self) -> Turn {
        empty_turn(self.world.run().clone())
    }

    /// Hands one result to the script and follows it to where it can only wait again.
    pub(crate) fn deliver(&mut self, delivery: Delivery, turn: &mut Turn) {
        self.world.set_now(delivery.at);
        let budget = &self.vm.budget;
        confine::alarm(budget.begin() + ALARM_GRACE);
        self.vm.watching_stack(|| {
            self.vm.context.with(|ctx| {
                let seq = delivery.seq;
                match self.entries.deliver(&ctx, delivery).catch(&ctx) {
                    Ok(true) => settle(&ctx, &self.entries, &self.world),
                    Ok(false) => self.world.end(End::UnknownCall(seq)),
                    Err(error) => self.world.end(End::Threw(*thrown(&error))),
                }
            });
        });
        self.world.take_into(turn);
        turn.heap_bytes = budget.heap() as u64;
        turn.cpu_us += micros(budget.finish());
    }
}

/// Runs promise jobs until none is left, the script has ended or a limit has tripped.
fn settle(ctx: &Ctx<'_>, entries: &Entries, world: &World) {
    while !world.over() && ctx.execute_pending_job() {}
    if world.over() {
        return world.forget_rejections();
    }
    for reason in world.take_unhandled(ctx) {
        let logged = entries.unhandled.clone().restore(ctx).and_then(|log| log.call::<_, ()>((reason,)));
        // A reason that cannot be written (it throws when it is read) is not worth the run.
        if logged.is_err() {
            ctx.catch();
        }
    }
}

impl Vm {
    fn new(world: &Rc<World>, budget: &Rc<Budget>) -> rquickjs::Result<Self> {
        let runtime = Runtime::new_with_alloc(Heap(Rc::clone(budget)))?;
        runtime.set_max_stack_size(budget.stack_bytes());
        let watching = Rc::clone(budget);
        runtime.set_interrupt_handler(Some(Box::new(move || watching.interrupts())));
        runtime.set_loader(OnlyTools, OnlyTools);
        let tracking = Rc::clone(world);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, handled| {
            tracking.rejected(&ctx, promise, reason, handled);
        })));
        let context = Context::custom::<prelude::Intrinsics>(&runtime)?;
        Ok(Self {
            context: ManuallyDrop::new(context),
            runtime: ManuallyDrop::new(runtime),
            world: Rc::clone(world),
            budget: Rc::clone(budget),
        })
    }

    /// Calls `work`, the stack of which is measured from here, and trips the limit when it came to its end.
    fn watching_stack<T>(&self, work: impl FnOnce() -> T) -> T {
        let end = StackEnd::below(self.budget.stack_bytes());
        end.paint();
        // SAFETY: the runtime is alive, and this thread is the only one that enters it.
        unsafe { rquickjs::qjs::JS_UpdateStackTop(self.context.get_runtime_ptr()) };
        let done = work();
        if end.touched() {
            self.budget.trip(Limit::Stack);
        }
        done
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.world.forget_rejections();
        // SAFETY: neither is used after this.
        let (context, runtime) =
            unsafe { (ManuallyDrop::take(&mut self.context), ManuallyDrop::take(&mut self.runtime)) };
        drop(context);
        runtime.run_gc();
        if self.budget.tripped() == Some(Limit::Memory) {
            // The engine can lose track of an object when an allocation fails, and aborts the whole
            // process when it finds one that is left. What it has not freed by now, tens of
            // kilobytes, is given up instead: the neighbours are worth more.
            mem::forget(runtime);
        }
    }
}

impl Entries {
    fn of<'js>(ctx: &Ctx<'js>, installed: &Object<'js>) -> rquickjs::Result<Self> {
        let entry = |name: &str| installed.get::<_, Function<'js>>(name).map(|entry| Persistent::save(ctx, entry));
        Ok(Self { deliver: entry("deliver")?, revive: entry("revive")?, unhandled: entry("unhandled")? })
    }

    /// Compiles the script, evaluates it and calls its `main`.
    fn start<'js>(&self, ctx: &Ctx<'js>, installed: &Object<'js>, load: Load) -> rquickjs::Result<()> {
        let input = self.value(ctx, load.input.as_str())?;
        let module = Module::declare(ctx.clone(), SCRIPT, load.script)?;
        let (module, evaluated) = module.eval()?;
        let start: Function<'js> = installed.get("start")?;
        start.call((evaluated, module.namespace()?, input))
    }

    fn deliver(&self, ctx: &Ctx<'_>, delivery: Delivery) -> rquickjs::Result<bool> {
        let deliver = self.deliver.clone().restore(ctx)?;
        match delivery.value {
            Delivered::Value(json) => deliver.call((delivery.seq, "value", self.value(ctx, json.as_str())?)),
            Delivered::Slept => deliver.call((delivery.seq, "slept")),
            Delivered::Failure(failure) => {
                let details = failure.details.map(|details| self.value(ctx, details.as_str())).transpose()?;
                deliver.call((
                    delivery.seq,
                    "failure",
                    failure.code.as_str(),
                    failure.message,
                    failure.retryable,
                    details,
                ))
            }
        }
    }

    /// The JavaScript value of a JSON text; integers that a double would round are `BigInt`s.
    fn value<'js>(&self, ctx: &Ctx<'js>, json: &str) -> rquickjs::Result<Value<'js>> {
        match json::mark_large_integers(json) {
            None => ctx.json_parse(json),
            Some(Marked { text, mark }) => self.revive.clone().restore(ctx)?.call((ctx.json_parse(text)?, mark)),
        }
    }
}

/// Evaluates the prelude and keeps what `rewind:tools` will export.
fn install<'js>(ctx: &Ctx<'js>, world: &Rc<World>) -> rquickjs::Result<Object<'js>> {
    let install: Function<'js> = prelude::prelude(ctx)?.get()?;
    let installed: Object<'js> = install.call((host::functions(ctx, world)?,))?;
    let exports = ToolsExports(installed.get("exports")?);
    if ctx.store_userdata(exports).is_err() {
        return Err(rquickjs::Error::Unknown);
    }
    Ok(installed)
}

fn empty_turn(run: rewind_model::RunId) -> Turn {
    Turn { run, calls: Vec::new(), logs: Vec::new(), end: None, cpu_us: 0, heap_bytes: 0 }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn plain(message: String) -> Box<Thrown> {
    Box::new(Thrown { message, stack: None, tool_error: None })
}

/// An exception that reached Rust: a script that does not parse or link, or an engine out of memory.
fn thrown(error: &CaughtError<'_>) -> Box<Thrown> {
    match error {
        CaughtError::Exception(exception) => {
            let name = exception.as_object().get::<_, String>("name").unwrap_or_else(|_| "Error".into());
            let message = exception.message().unwrap_or_default();
            Box::new(Thrown { message: format!("{name}: {message}"), stack: exception.stack(), tool_error: None })
        }
        CaughtError::Value(_) => plain("Error: the script threw what is no error while it was loaded".into()),
        CaughtError::Error(error) => plain(format!("Error: {error}")),
    }
}
