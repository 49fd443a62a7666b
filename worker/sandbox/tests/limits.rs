//! No script goes over its limits, and none takes a neighbour with it.

mod support;

use std::time::{Duration, Instant};

use rewind_model::{Json, Timestamp};
use rewind_sandbox::{Delivered, Delivery, End, Limit, Load, Pool, PoolConfig, SandboxError};
use serde_json::json;
use support::{NOW, main_of, play, pool, run_id};

async fn ends_with(pool: &Pool, load: Load, limit: Limit) {
    let script = load.script.clone();
    let began = Instant::now();
    let end = play(pool, load).await.end;
    assert_eq!(end, Some(End::Limit(limit)), "{script}");
    assert!(began.elapsed() < Duration::from_secs(20), "{script}");
}

fn quick(body: &str) -> Load {
    let mut load = main_of(body);
    load.limits.turn_cpu_ms = 150;
    load.limits.run_cpu_ms = 2_000;
    load
}

#[tokio::test]
async fn endless_loops_end_whatever_they_catch() {
    let pool = pool().await;
    for body in [
        "for (;;);",
        "for (;;) { try { for (;;); } catch {} finally { continue; } }",
        "const spin = async () => { for (;;) await null; }; await spin();",
        "const again = () => queueMicrotask(again); again(); await sleep(1);",
        "await Promise.all([1, 2].map(async () => { try { for (;;); } catch { for (;;); } }));",
        "JSON.stringify({ toJSON() { for (;;); } });",
        "await srv.echo({ get a() { for (;;); } }).catch(() => 1); for (;;);",
        "new Proxy({}, { get() { for (;;); } }).x;",
        "[3, 2, 1].sort(() => { for (;;); });",
        "/^(a+)+$/.test('a'.repeat(40) + 'b');",
        "function* g() { for (;;) yield 1; } [...(function* () { for (const x of g()); })()];",
    ] {
        ends_with(&pool, quick(body), Limit::Cpu).await;
    }
    ends_with(
        &pool,
        {
            let mut load = quick("");
            load.script = "for (;;);".into();
            load
        },
        Limit::Cpu,
    )
    .await;
}

#[tokio::test]
async fn the_run_has_a_cpu_limit_besides_the_turns() {
    let pool = pool().await;
    let mut load =
        quick("for (;;) { await srv.echo(); const until = 60; let x = 0; for (let i = 0; i < 2e6; i++) x += i; }");
    load.limits.turn_cpu_ms = 10_000;
    load.limits.run_cpu_ms = 400;
    ends_with(&pool, load, Limit::Cpu).await;
}

#[tokio::test]
async fn memory_bombs_end_whatever_they_catch() {
    let pool = pool().await;
    for body in [
        "const all = []; for (;;) all.push(new Array(1000).fill(1.5));",
        "const all = []; for (;;) { try { for (;;) all.push('x'.repeat(1e6) + all.length); } catch {} }",
        "await null; const all = []; for (;;) all.push({});",
        "await srv.echo(); let s = 'x'; for (;;) s = s.repeat(2);",
        "Promise.resolve().then(() => { const all = []; for (;;) all.push(new Uint8Array(1e6)); }); await sleep(1);",
        "new ArrayBuffer(2 ** 30);",
        "try { new ArrayBuffer(2 ** 30); } catch {} return 'caught';",
        "const all = []; const grow = () => { all.push(new Float64Array(1e5)); queueMicrotask(grow); }; grow(); await sleep(1);",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });",
        "class A { x = new Array(100); } const all = []; for (;;) all.push(new A());",
        "const args = { pad: 'x'.repeat(2 ** 20) }; for (;;) srv.echo(args);",
    ] {
        let mut load = main_of(body);
        load.limits.turn_cpu_ms = 15_000;
        ends_with(&pool, load, Limit::Memory).await;
    }
    // The process and its other runs live on.
    assert_eq!(play(&pool, main_of("return 1;")).await.result(), json!(1));
}

#[tokio::test]
async fn a_large_delivery_counts_as_memory() {
    let pool = pool().await;
    let mut load = main_of("await srv.echo();");
    load.limits.heap_bytes = 2 << 20;
    let (mut instance, _) = pool.load(load, false).await.expect("a turn");
    let value = Json::of(&vec![1.5; 1 << 20]).expect("JSON");
    let delivery = Delivery { seq: 1, at: Timestamp::from_unix_ms(NOW), value: Delivered::Value(value) };
    assert_eq!(instance.resolve(vec![delivery]).await.expect("a turn").end, Some(End::Limit(Limit::Memory)));
}

#[tokio::test]
async fn recursion_ends_whatever_it_catches() {
    let pool = pool().await;
    for body in [
        "const f = (n) => f(n + 1) + 1; return f(0);",
        "const f = (n) => { try { return f(n + 1); } catch { return n; } }; return f(0);",
        "let deep = []; for (let i = 0; i < 1e5; i++) deep = [deep]; return JSON.stringify(deep);",
        "const f = async () => { await f(); }; try { await f(); } catch {} return 'caught';",
        "const a = {}; a.toString = () => `${a}`; return `${a}`;",
        "let deep = {}; for (let i = 0; i < 1e5; i++) deep = { deep }; await srv.echo(deep).catch(() => 1); return 2;",
    ] {
        ends_with(&pool, main_of(body), Limit::Stack).await;
    }
    let fine = "const f = (n) => (n === 0 ? 0 : 1 + f(n - 1)); return f(500);";
    assert_eq!(play(&pool, main_of(fine)).await.result(), json!(500));
}

#[tokio::test]
async fn floods_end() {
    let pool = pool().await;
    ends_with(&pool, main_of("for (;;) sleep(1);"), Limit::Calls).await;
    ends_with(&pool, main_of("return 'x'.repeat(17 * 2 ** 20);"), Limit::Result).await;
    let large =
        play(&pool, main_of("return await srv.echo({ a: 'x'.repeat(5 * 2 ** 20) }).catch((e) => [e.code, e.key]);"))
            .await;
    assert_eq!((large.result(), large.calls.len()), (json!(["too_large", null]), 0));
    let mut load = main_of("for (let i = 0; i < 200000; i++) console.log('line', i); return 1;");
    load.limits.turn_cpu_ms = 30_000;
    let story = play(&pool, load).await;
    assert_eq!(story.end, Some(End::Returned(Json::parse("1").expect("JSON"))));
    let bytes: usize = story.logs.iter().map(|log| log.text.len() + 64).sum();
    assert!((7 << 20..=8 << 20).contains(&bytes), "{bytes}");
}

/// Native code that never asks whether it may go on.
const DEAF: [&str; 5] = [
    "Array.prototype.reverse.call({ length: 2 ** 53 - 1 });",
    "String.raw({ raw: { length: 2 ** 53 - 1 } });",
    "Array.prototype.copyWithin.call({ length: 2 ** 53 - 1 }, 0, 1);",
    "try { [].concat({ [Symbol.isConcatSpreadable]: true, length: 2 ** 53 - 1 }); } catch {}",
    "let a = []; for (let i = 0; i < 40; i++) a = [a, a]; JSON.stringify(a);",
];

#[tokio::test]
async fn native_loops_are_ended_from_outside_and_the_run_is_blamed() {
    let pool = pool().await;
    for body in DEAF {
        let began = Instant::now();
        let blamed = pool.load(quick(body), false).await;
        assert!(matches!(blamed, Err(SandboxError::Blamed(Limit::Cpu))), "{body}: {blamed:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{body}: {:?}", began.elapsed());
    }
    assert_eq!(play(&pool, main_of("return 1;")).await.result(), json!(1));
}

#[tokio::test]
async fn neighbours_of_a_blamed_run_are_lost_and_load_again() {
    let pool = pool().await;
    let (mut neighbour, _) = pool.load(main_of("return await srv.echo();"), false).await.expect("a turn");
    let mut deaf = quick(DEAF[0]);
    deaf.run = run_id(2);
    let blamed = pool.load(deaf.clone(), false).await;
    assert!(matches!(blamed, Err(SandboxError::Blamed(Limit::Cpu))), "{blamed:?}");
    let delivery =
        || vec![Delivery { seq: 1, at: Timestamp::from_unix_ms(NOW), value: Delivered::Value(Json::null()) }];
    assert!(matches!(neighbour.resolve(delivery()).await, Err(SandboxError::Lost)));
    drop(neighbour);
    let (mut again, _) = pool.load(main_of("return await srv.echo();"), false).await.expect("a turn");
    // Alone, it takes no neighbour with it.
    assert!(matches!(pool.load(deaf, true).await, Err(SandboxError::Blamed(Limit::Cpu))));
    assert_eq!(again.resolve(delivery()).await.expect("a turn").end, Some(End::Returned(Json::null())));
}

#[tokio::test]
async fn neighbours_of_a_run_over_its_limit_do_not_notice() {
    let pool = pool().await;
    let (mut neighbour, _) =
        pool.load(main_of("const mine = [1]; mine.push(await srv.echo()); return mine;"), false).await.expect("a turn");
    for (n, body) in
        ["for (;;);", "const all = []; for (;;) all.push({});", "const f = () => f(); f();"].into_iter().enumerate()
    {
        let mut load = quick(body);
        load.run = run_id(10 + n as u64);
        let (_, turn) = pool.load(load, false).await.expect("a turn");
        assert!(matches!(turn.end, Some(End::Limit(_))), "{body}: {:?}", turn.end);
    }
    let delivery =
        Delivery { seq: 1, at: Timestamp::from_unix_ms(NOW), value: Delivered::Value(Json::parse("2").expect("JSON")) };
    let turn = neighbour.resolve(vec![delivery]).await.expect("a turn");
    assert_eq!(turn.end, Some(End::Returned(Json::parse("[1,2]").expect("JSON"))));
}

#[tokio::test]
async fn a_process_over_its_memory_is_ended_from_outside() {
    let pool = Pool::start(PoolConfig { resident_bytes: 40 << 20, ..support::config() }).await.expect("started");
    let mut load = main_of("globalThis.held = new Uint8Array(50e6).fill(1); for (;;);");
    load.limits.turn_cpu_ms = 30_000;
    let blamed = pool.load(load, false).await;
    assert!(matches!(blamed, Err(SandboxError::Blamed(Limit::Memory))), "{blamed:?}");
    assert_eq!(play(&pool, main_of("return 1;")).await.result(), json!(1));
}
