//! Runs scripts in real sandbox processes.
#![allow(unreachable_pub, reason = "a module of each test binary")]
#![allow(dead_code, reason = "each test binary uses a part of it")]

use rewind_model::{Json, RunId, Timestamp};
use rewind_sandbox::{
    Delivered, Delivery, End, Export, Load, Log, NewCall, Pool, PoolConfig, Request, ScriptLimits, Turn,
};

/// 2026-01-02T03:04:05.678Z.
pub const NOW: i64 = 1_767_323_045_678;

pub fn config() -> PoolConfig {
    let mut config = PoolConfig::new(env!("CARGO_BIN_EXE_rewind-sandbox"), [""; 0]);
    config.processes = 1;
    config
}

pub async fn pool() -> Pool {
    Pool::start(config()).await.expect("a sandbox process starts")
}

pub fn run_id(n: u64) -> RunId {
    format!("run_{n:032x}").parse().expect("valid")
}

/// A script with a server `srv` whose tools have awkward names, and `host`.
pub fn load(script: &str) -> Load {
    let names = ["echo", "__proto__", "then", "a-b", "constructor", "toString", "é"];
    Load {
        run: run_id(1),
        seed: None,
        script: script.into(),
        exports: vec![
            Export { name: "srv".into(), tools: names.map(Into::into).into() },
            Export { name: "host".into(), tools: vec!["echo".into()] },
        ],
        input: Json::null(),
        now: Timestamp::from_unix_ms(NOW),
        limits: ScriptLimits { heap_bytes: 64 << 20, stack_bytes: 512 << 10, turn_cpu_ms: 1_000, run_cpu_ms: 60_000 },
    }
}

/// `main` around statements that may use everything that `rewind:tools` exports.
pub fn main_of(body: &str) -> Load {
    load(&format!(
        "import {{ srv, host, sleep, ToolError }} from 'rewind:tools';\nexport default async function main(input) {{\n{body}\n}}"
    ))
}

/// All that a script did, from load to end or to where nothing is left to answer.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Story {
    pub calls: Vec<NewCall>,
    pub logs: Vec<Log>,
    pub end: Option<End>,
}

impl Story {
    fn add(&mut self, turn: Turn) {
        self.calls.extend(turn.calls);
        self.logs.extend(turn.logs);
        self.end = turn.end;
    }

    #[track_caller]
    pub fn result(&self) -> serde_json::Value {
        match &self.end {
            Some(End::Returned(json)) => serde_json::from_str(json.as_str()).expect("JSON"),
            other => panic!("did not return: {other:?}; logs {:?}", &self.lines()[..self.logs.len().min(20)]),
        }
    }

    #[track_caller]
    pub fn error(&self) -> &rewind_sandbox::Thrown {
        match &self.end {
            Some(End::Threw(thrown)) => thrown,
            other => panic!("did not throw: {other:?}"),
        }
    }

    pub fn lines(&self) -> Vec<&str> {
        self.logs.iter().map(|log| log.text.as_str()).collect()
    }

    /// `tool(arguments)` of each call.
    pub fn requests(&self) -> Vec<String> {
        let text = |call: &NewCall| match &call.request {
            Request::Tool { tool, arguments, raw } => {
                format!("{tool}{}({})", if *raw { ".raw" } else { "" }, arguments.as_str())
            }
            Request::Sleep { until } => format!("sleep({})", until.unix_ms() - NOW),
        };
        self.calls.iter().map(text).collect()
    }
}

/// Answers each call with its own arguments, in order, one frame each; a timer fires at its time.
pub async fn play(pool: &Pool, load: Load) -> Story {
    play_with(pool, load, echo).await
}

pub fn echo(call: &NewCall) -> Delivered {
    match &call.request {
        Request::Tool { arguments, .. } => Delivered::Value(arguments.clone()),
        Request::Sleep { .. } => Delivered::Slept,
    }
}

pub async fn play_with(pool: &Pool, load: Load, mut answer: impl FnMut(&NewCall) -> Delivered) -> Story {
    let mut story = Story::default();
    let mut now = load.now;
    let (mut instance, turn) = pool.load(load, false).await.expect("a turn");
    story.add(turn);
    let mut answered = 0;
    while story.end.is_none() && answered < story.calls.len() {
        let call = &story.calls[answered];
        now = match call.request {
            Request::Sleep { until } => now.max(until),
            Request::Tool { .. } => now,
        };
        let delivery = Delivery { seq: call.seq, at: now, value: answer(call) };
        answered += 1;
        story.add(instance.resolve(vec![delivery]).await.expect("a turn"));
    }
    story
}

/// What `body`, in `main`, returns.
pub async fn eval(body: &str) -> serde_json::Value {
    play(&pool().await, main_of(body)).await.result()
}
