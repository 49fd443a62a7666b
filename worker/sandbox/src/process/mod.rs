//! The sandbox process.

mod budget;
mod confine;
mod engine;
mod heap;
mod host;
mod json;
mod prelude;
mod random;
mod stack;
mod tools;
mod web;

use std::{collections::BTreeMap, fs::File, mem::ManuallyDrop, os::fd::FromRawFd, process::ExitCode};

use rewind_model::RunId;

use crate::{
    frame::{self, FrameError},
    protocol::{End, FromSandbox, ToSandbox, Turn},
};
use engine::Engine;

/// Exit status of a process that its own CPU alarm ended.
pub(crate) const EXIT_CPU: i32 = 71;
/// Exit status of a process that could not confine itself, or whose socket failed.
const EXIT_FAILED: u8 = 70;
/// Bytes of calls and logs from which on an answer is sent in parts.
const PART_BYTES: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
enum ProcessError {
    #[error(transparent)]
    Confine(#[from] confine::ConfineError),
    #[error("the sandbox's script environment does not compile: {0}")]
    Prelude(rquickjs::Error),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The whole life of a sandbox process: what a node's binary calls, before it starts any thread,
/// when it was re-executed as a sandbox. Descriptor 0 is the socket to the node.
///
/// Returns when the node closes the socket.
pub fn sandbox_main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is the node's; a sandbox has no other way to say why it cannot start.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("rewind sandbox: {error}\n").as_bytes());
            ExitCode::from(EXIT_FAILED)
        }
    }
}

fn serve() -> Result<(), ProcessError> {
    prelude::compile().map_err(ProcessError::Prelude)?;
    stack::measure();
    confine::handle_alarm()?;
    let landlock = confine::confine()?;
    // SAFETY: descriptor 0 is open for the life of the process, and nothing else reads it.
    let mut socket = ManuallyDrop::new(unsafe { File::from_raw_fd(0) });
    frame::write(&mut *socket, &FromSandbox::Ready { landlock })?;
    let mut runs = BTreeMap::new();
    while let Some(message) = frame::read(&mut *socket)? {
        handle(&mut runs, message, &mut |answer| frame::write(&mut *socket, &answer))?;
    }
    Ok(())
}

type Send<'a> = dyn FnMut(FromSandbox) -> Result<(), FrameError> + 'a;

fn handle(runs: &mut BTreeMap<RunId, Engine>, message: ToSandbox, send: &mut Send<'_>) -> Result<(), FrameError> {
    let (run, turn, engine) = match message {
        ToSandbox::Load(load) => {
            let run = load.run.clone();
            runs.remove(&run);
            let (engine, turn) = Engine::load(*load);
            (run, turn, engine)
        }
        ToSandbox::Resolve { run, deliveries } => {
            let Some(mut engine) = runs.remove(&run) else {
                let seq = deliveries.first().map_or(0, |delivery| delivery.seq);
                let end = Some(End::UnknownCall(seq));
                let turn = Turn { run, calls: Vec::new(), logs: Vec::new(), end, cpu_us: 0, heap_bytes: 0 };
                return send(FromSandbox::Turn(Box::new(turn)));
            };
            let mut turn = engine.empty_turn();
            for delivery in deliveries {
                if turn.end.is_some() {
                    break;
                }
                if turn.size() > PART_BYTES {
                    let part = std::mem::replace(&mut turn, engine.empty_turn());
                    send(FromSandbox::Part(Box::new(part)))?;
                }
                engine.deliver(delivery, &mut turn);
            }
            (run, turn, Some(engine))
        }
        ToSandbox::Drop { run } => {
            runs.remove(&run);
            return Ok(());
        }
    };
    confine::alarm(std::time::Duration::ZERO);
    if let Some(engine) = engine.filter(|_| turn.end.is_none()) {
        runs.insert(run, engine);
    }
    send(FromSandbox::Turn(Box::new(turn)))
}
