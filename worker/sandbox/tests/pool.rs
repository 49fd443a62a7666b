//! Processes start, are shared, are replaced and leave nothing behind.

mod support;

use std::{
    collections::BTreeSet,
    fs,
    future::{Future as _, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use rewind_model::{Json, Timestamp};
use rewind_sandbox::{Delivered, Delivery, End, Pool, PoolConfig, SandboxError};
use serde_json::json;
use support::{NOW, config, main_of, play, pool, run_id};

/// Children of this process, zombies too. Each test has a process of its own under nextest.
fn children() -> BTreeSet<u32> {
    let own = std::process::id().to_string();
    let processes =
        fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    processes
        .filter(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_ascii_whitespace().nth(1) == Some(own.as_str()))
        })
        .collect()
}

async fn until(what: &str, fact: impl Fn() -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(10), async {
        while !fact() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn answer() -> Vec<Delivery> {
    vec![Delivery { seq: 1, at: Timestamp::from_unix_ms(NOW), value: Delivered::Value(Json::null()) }]
}

#[tokio::test]
async fn many_runs_share_a_process_and_do_not_see_each_other() {
    let pool = pool().await;
    let mut instances = Vec::new();
    for n in 0..50 {
        let mut load = main_of("globalThis.mine ??= input; await srv.echo(); return globalThis.mine;");
        load.run = run_id(n);
        load.input = Json::of(&n).expect("JSON");
        instances.push(pool.load(load, false).await.expect("a turn").0);
    }
    assert_eq!(children().len(), 1);
    for (n, mut instance) in instances.into_iter().enumerate().rev() {
        let turn = instance.resolve(answer()).await.expect("a turn");
        assert_eq!(turn.end, Some(End::Returned(Json::of(&n).expect("JSON"))));
    }
}

#[tokio::test]
async fn loads_are_spread_over_the_processes() {
    let pool = Pool::start(PoolConfig { processes: 3, ..config() }).await.expect("started");
    let mut held = Vec::new();
    for n in 0..3 {
        let mut load = main_of("await sleep('1d');");
        load.run = run_id(n);
        held.push(pool.load(load, false).await.expect("a turn"));
    }
    assert_eq!(children().len(), 3);
    let one = *children().first().expect("a child");
    kill(one);
    until("one instance is lost", || !children().contains(&one)).await;
    let mut lost = 0;
    for (mut instance, _) in held {
        match instance
            .resolve(vec![Delivery { seq: 1, at: Timestamp::from_unix_ms(NOW), value: Delivered::Slept }])
            .await
        {
            Ok(turn) => assert_eq!(turn.end, Some(End::Returned(Json::null()))),
            Err(SandboxError::Lost) => lost += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(lost, 1);
}

fn kill(pid: u32) {
    // SAFETY: a child of this very process.
    unsafe { libc::kill(i32::try_from(pid).expect("a pid"), libc::SIGKILL) };
}

#[tokio::test]
async fn a_process_that_dies_is_replaced() {
    let pool = pool().await;
    for _ in 0..3 {
        let before = children();
        kill(*before.first().expect("a child"));
        until("another process", || !children().is_empty() && children().is_disjoint(&before)).await;
        // The dead one may be seen once more before the pool has noticed.
        let mut load = main_of("return 1;");
        load.run = run_id(3);
        match pool.load(load.clone(), false).await {
            Ok((_, turn)) => assert!(turn.end.is_some()),
            Err(SandboxError::Lost | SandboxError::Crashed(_)) => {
                assert_eq!(play(&pool, load).await.result(), json!(1))
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_run_at_work_when_its_process_is_killed_is_told_so() {
    let pool = pool().await;
    let mut load = main_of("for (;;);");
    load.limits.turn_cpu_ms = 20_000;
    let pid = *children().first().expect("a child");
    let busy = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") R "));
    let (answered, ()) = tokio::join!(pool.load(load, false), async {
        until("the script is at work", busy).await;
        kill(pid);
    });
    assert!(matches!(answered, Err(SandboxError::Crashed(_))), "{answered:?}");
}

#[tokio::test]
async fn an_isolated_process_ends_with_its_run() {
    let pool = pool().await;
    let shared = children();
    let mut load = main_of("await srv.echo(); return 1;");
    load.run = run_id(9);
    let (mut instance, _) = pool.load(load, true).await.expect("a turn");
    assert_eq!(children().len(), 2);
    assert!(instance.resolve(answer()).await.expect("a turn").end.is_some());
    drop(instance);
    until("only the shared process is left", || children() == shared).await;
}

#[tokio::test]
async fn dropping_an_instance_frees_its_engine() {
    let pool = pool().await;
    let pid = *children().first().expect("a child");
    let resident = || -> u64 {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
    };
    let mut peak = 0;
    for n in 0..30 {
        let mut load = main_of("globalThis.held = new Uint8Array(20e6).fill(1); await sleep('1d');");
        load.run = run_id(n);
        let _ = pool.load(load, false).await.expect("a turn");
        peak = peak.max(resident());
    }
    assert!(peak < 150 << 20, "{peak} bytes after 30 runs of 20 MB");
}

#[tokio::test]
async fn a_cancelled_resolve_makes_the_instance_useless_not_wrong() {
    let pool = pool().await;
    let (mut instance, _) = pool.load(main_of("await srv.echo(); return 1;"), false).await.expect("a turn");
    {
        let mut resolving = pin!(instance.resolve(answer()));
        // One poll: the request is on its way, and nothing has run that could answer it.
        assert!(poll_fn(|cx| Poll::Ready(resolving.as_mut().poll(cx).is_pending())).await);
    }
    assert!(matches!(instance.resolve(answer()).await, Err(SandboxError::Lost)));
}

#[tokio::test]
async fn a_binary_that_is_no_sandbox_is_an_error() {
    for exe in ["/bin/true", "/nonexistent"] {
        let failed = Pool::start(PoolConfig { exe: exe.into(), ..config() }).await;
        assert!(matches!(failed, Err(SandboxError::NotConfined(_) | SandboxError::Spawn(_))), "{exe}: {failed:?}");
        if exe == "/bin/true" {
            assert_eq!(children(), BTreeSet::new());
        }
    }
}

#[tokio::test]
async fn nothing_is_left_when_the_pool_is_gone() {
    let pool = pool().await;
    let (instance, _) = pool.load(main_of("await srv.echo();"), false).await.expect("a turn");
    assert!(!children().is_empty());
    drop(pool);
    drop(instance);
    until("no child is left, not even a zombie", || children().is_empty()).await;
}
