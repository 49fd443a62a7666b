//! The JavaScript half of the script's world, compiled once a process.

use std::sync::OnceLock;

use rquickjs::{Context, Ctx, Module, Runtime, Value, WriteOptions, context::intrinsic};

/// Evaluated in every engine, before its script.
const PRELUDE: &str = include_str!("prelude.js");
/// Evaluated when a script first touches one of the globals that it makes.
const WEB: &str = include_str!("web.js");

static COMPILED: OnceLock<Compiled> = OnceLock::new();

#[derive(Debug)]
struct Compiled {
    prelude: Vec<u8>,
    web: Vec<u8>,
}

/// ECMAScript without what is not a function of the run and its journal: no clock of its own
/// (`performance`), no view on the garbage collector (`WeakRef`, `FinalizationRegistry`).
pub(crate) type Intrinsics = (
    intrinsic::Date,
    intrinsic::Eval,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// # Errors
/// When the JavaScript in this crate does not parse.
pub(crate) fn compile() -> rquickjs::Result<()> {
    if COMPILED.get().is_some() {
        return Ok(());
    }
    let runtime = Runtime::new()?;
    let compiled = Context::custom::<Intrinsics>(&runtime)?.with(|ctx| {
        let bytecode = |name: &str, source: &str| {
            let options = WriteOptions { strip_source: true, ..WriteOptions::default() };
            Module::declare(ctx.clone(), name, source)?.write(options)
        };
        rquickjs::Result::Ok(Compiled {
            prelude: bytecode("rewind:prelude", PRELUDE)?,
            web: bytecode("rewind:web", WEB)?,
        })
    })?;
    let _ = COMPILED.set(compiled);
    Ok(())
}

/// The default export of `prelude.js`.
pub(crate) fn prelude<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
    compile()?;
    let compiled = COMPILED.get().expect("compile() has filled it");
    default_export(ctx, &compiled.prelude)
}

/// The default export of `web.js`.
pub(crate) fn web<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Value<'js>> {
    compile()?;
    let compiled = COMPILED.get().expect("compile() has filled it");
    default_export(ctx, &compiled.web)
}

fn default_export<'js>(ctx: &Ctx<'js>, bytecode: &'static [u8]) -> rquickjs::Result<Value<'js>> {
    // SAFETY: the bytecode was written by this very build of the engine, in this process, and lives
    // as long as the process (the engine keeps pointers into it).
    let module = unsafe { Module::load(ctx.clone(), bytecode)? };
    let (module, evaluated) = module.eval()?;
    evaluated.finish::<()>()?;
    module.get("default")
}
