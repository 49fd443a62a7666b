//! Measures what a sandbox costs: `cargo run --release -p rewind-sandbox --example figures -- <path of the rewind-sandbox binary>`.
#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::{error::Error, fs, time::Instant};

use rewind_model::{Json, RunId, Timestamp};
use rewind_sandbox::{Delivered, Delivery, End, Export, Load, Pool, PoolConfig, ScriptLimits};

const TRIVIAL: &str = "export default async function main() { return 1; }";
const WAITING: &str =
    "import { sleep } from 'rewind:tools';\nexport default async function main() { await sleep('10d'); }";
const CALLS: &str = "import { srv } from 'rewind:tools';\nexport default async function main() { for (let i = 0; i < 1000; i++) await srv.echo({ i }); return 'done'; }";

fn load(n: u32, script: &str) -> Result<Load, Box<dyn Error>> {
    let tools = (0..300).map(|n| format!("tool_{n}")).chain(["echo".into()]).collect();
    Ok(Load {
        run: format!("run_{n:032x}").parse::<RunId>()?,
        seed: None,
        script: script.into(),
        exports: vec![Export { name: "srv".into(), tools }],
        input: Json::null(),
        now: Timestamp::from_unix_ms(1_767_323_045_678),
        limits: ScriptLimits { heap_bytes: 64 << 20, stack_bytes: 512 << 10, turn_cpu_ms: 5_000, run_cpu_ms: 60_000 },
    })
}

/// Resident bytes of this process's children.
fn resident() -> u64 {
    let children = fs::read_to_string(format!("/proc/self/task/{0}/children", std::process::id())).unwrap_or_default();
    let mut pids: Vec<String> = children.split_whitespace().map(Into::into).collect();
    if pids.is_empty() {
        // Children of other threads, the spawner's.
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        pids = tasks
            .flat_map(|task| {
                fs::read_to_string(task.path().join("children"))
                    .unwrap_or_default()
                    .split_whitespace()
                    .map(String::from)
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    let pages =
        |pid: &String| fs::read_to_string(format!("/proc/{pid}/statm")).ok()?.split(' ').nth(1)?.parse::<u64>().ok();
    pids.iter().filter_map(pages).sum::<u64>() * 4096
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let exe = std::env::args().nth(1).ok_or("give the path of the rewind-sandbox binary")?;
    let mut config = PoolConfig::new(exe, [""; 0]);
    config.processes = 1;
    let began = Instant::now();
    let pool = Pool::start(config).await?;
    println!("start of a process: {:?}", began.elapsed());
    let mut best = u128::MAX;
    let mut cpu = u64::MAX;
    for n in 0..2_000 {
        let began = Instant::now();
        let (_instance, turn) = pool.load(load(n, TRIVIAL)?, false).await?;
        assert!(matches!(turn.end, Some(End::Returned(_))), "{:?}", turn.end);
        best = best.min(began.elapsed().as_micros());
        cpu = cpu.min(turn.cpu_us);
    }
    println!("load of a trivial script, 301 tools: {cpu} us of CPU, {best} us with the frames");
    let before = resident();
    let mut live = Vec::new();
    for n in 0..500 {
        live.push(pool.load(load(10_000 + n, WAITING)?, false).await?);
    }
    println!(
        "a live run: {} KB resident, {} KB of heap",
        (resident() - before) / 500 / 1000,
        live[0].1.heap_bytes / 1000
    );
    drop(live);
    let mut best = f64::MAX;
    for n in 0..20 {
        let (mut instance, _) = pool.load(load(20_000 + n, CALLS)?, false).await?;
        let at = Timestamp::from_unix_ms(1_767_323_045_678);
        let all = (1..=1_000).map(|seq| {
            Json::parse(format!("{{\"n\":{seq}}}")).map(|json| Delivery { seq, at, value: Delivered::Value(json) })
        });
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let began = Instant::now();
        let turn = instance.resolve(all).await?;
        assert!(matches!(turn.end, Some(End::Returned(_))), "{:?}", turn.end);
        best = best.min(began.elapsed().as_secs_f64() * 1e6 / 1_000.0);
    }
    println!("a delivery, of 1,000 in one frame: {best:.2} us");
    Ok(())
}
