//! The same load and the same deliveries give the same calls, lines and result, however they are
//! spread over frames and whatever the script does to its built-in objects.

mod support;

use rewind_model::{Json, Timestamp};
use rewind_sandbox::{Delivered, Delivery, End, Load, Pool, Turn};
use serde_json::json;
use support::{NOW, Story, load, main_of, play, pool};

/// Reacts to each result at once, and to their order.
const SCRIPT: &str = "
    const seen = [];
    const follow = async (n) => {
        const value = await srv.echo({ n });
        console.log('first', n, Date.now(), Math.random());
        const next = await Promise.race([srv.echo({ after: n, value }), sleep(n)]);
        seen.push(n);
        setTimeout(() => console.log('timer', n, seen.length, crypto.randomUUID()), n);
        return [n, next ?? null, Date.now()];
    };
    const all = await Promise.all([...Array(20).keys()].map(follow));
    return { all, seen, last: Math.random() };";

/// All deliveries of a run, for calls in the order in which `pick` takes them.
async fn deliveries(pool: &Pool, load: Load) -> (Vec<Delivery>, Story) {
    let (mut instance, turn) = pool.load(load, false).await.expect("a turn");
    let mut story = Story { calls: turn.calls, logs: turn.logs, end: turn.end };
    let mut open: Vec<usize> = (0..story.calls.len()).collect();
    let mut made = Vec::new();
    while story.end.is_none() && !open.is_empty() {
        // Neither first nor last: results do not arrive in the order of the calls.
        let call = &story.calls[open.remove((open.len() * 2) / 3)];
        let at = Timestamp::from_unix_ms(NOW + made.len() as i64 * 7);
        let delivery = Delivery { seq: call.seq, at, value: support::echo(call) };
        made.push(delivery.clone());
        let turn = instance.resolve(vec![delivery]).await.expect("a turn");
        open.extend(story.calls.len()..story.calls.len() + turn.calls.len());
        story.calls.extend(turn.calls);
        story.logs.extend(turn.logs);
        story.end = turn.end;
    }
    (made, story)
}

fn joined(turns: Vec<Turn>) -> Story {
    let mut story = Story::default();
    for turn in turns {
        story.calls.extend(turn.calls);
        story.logs.extend(turn.logs);
        story.end = turn.end;
    }
    story
}

#[tokio::test]
async fn one_frame_or_many_are_the_same() {
    let pool = pool().await;
    let (deliveries, live) = deliveries(&pool, main_of(SCRIPT)).await;
    assert!(matches!(live.end, Some(End::Returned(_))), "{:?}", live.end);
    assert!(deliveries.len() > 40 && live.logs.len() > 20, "{} {}", deliveries.len(), live.logs.len());
    for chunk in [1, 3, deliveries.len()] {
        let (mut instance, first) = pool.load(main_of(SCRIPT), false).await.expect("a turn");
        let mut turns = vec![first];
        for frame in deliveries.chunks(chunk) {
            turns.push(instance.resolve(frame.to_vec()).await.expect("a turn"));
        }
        assert_eq!(joined(turns), live, "{chunk} a frame");
    }
}

#[tokio::test]
async fn an_answer_in_parts_is_whole() {
    let pool = pool().await;
    let body =
        "const pad = 'x'.repeat(2 ** 20); for (let i = 0; i < 40; i++) await srv.echo({ i, pad }); return 'done';";
    let (mut instance, first) = pool.load(main_of(body), false).await.expect("a turn");
    let at = Timestamp::from_unix_ms(NOW);
    let all = (1..=40).map(|seq| Delivery { seq, at, value: Delivered::Value(Json::null()) }).collect();
    let turn = instance.resolve(all).await.expect("a turn");
    assert_eq!(first.calls.len() + turn.calls.len(), 40);
    assert_eq!(turn.calls.iter().map(|call| call.seq).collect::<Vec<_>>(), (2..=40).collect::<Vec<_>>());
    assert_eq!(turn.end, Some(End::Returned(Json::parse("\"done\"").expect("JSON"))));
}

/// Breaks everything that the prelude might lean on.
const POISON: &str = "
    const boom = () => { throw new Error('poisoned'); };
    const evil = function () { console.log('reached', arguments.length); return evil; };
    const names = ['prototype', 'constructor', 'name', 'length'];
    const isTaken = (name) => name === names[0] || name === names[1] || name === names[2] || name === names[3];
    const targets = [Array.prototype, Map.prototype, WeakMap.prototype, Set.prototype, String.prototype, BigInt.prototype, Function.prototype, Promise.prototype, RegExp.prototype, Symbol.prototype, JSON, Object, Array, Promise, Error, Reflect];
    for (let t = 0; t < targets.length; t++) {
        const keys = Reflect_ownKeys(targets[t]);
        for (let k = 0; k < keys.length; k++) {
            if (typeof keys[k] === 'symbol' || isTaken(keys[k])) continue;
            const found = Reflect_gopd(targets[t], keys[k]);
            if (found && found.configurable && typeof found.value === 'function') Reflect_define(targets[t], keys[k], { __proto__: null, value: evil, writable: true, configurable: true });
        }
    }
    const traps = ['length2', 'seq', 'resolve', 'reject', 'callback', 'value', 'get', 'set', 'toJSON2', 'code', 'done', 'enumerable', 'writable'];
    const trap = { __proto__: null, configurable: true, get: boom, set: boom };
    for (let i = 0; i < traps.length; i++) Reflect_define(Object.prototype, traps[i], trap);
    Array.prototype[Symbol.iterator] = evil;
    globalThis.Promise = globalThis.Map = globalThis.Error = globalThis.TypeError = globalThis.BigInt = evil;";

#[tokio::test]
async fn a_poisoned_world_changes_nothing_that_is_recorded() {
    let script = |poison: &str| {
        load(&format!(
            "import {{ srv, host, sleep, ToolError }} from 'rewind:tools';
            const {{ getOwnPropertyDescriptor: Reflect_gopd, defineProperty: Reflect_define, ownKeys: Reflect_ownKeys }} = Reflect;
            export default async function main() {{
                {poison}
                console.log({{ a: 1 }}, 'text', srv);
                const one = await srv.echo({{ n: 1, s: 'x' }});
                await sleep('1s');
                await srv['a-b']({{ big: 123456789012345678901n }});
                let failed;
                try {{ await srv.echo(() => 1); }} catch (error) {{ failed = error instanceof ToolError; }}
                await host.echo.raw({{ when: Date.now(), url: new URL('http://a/?q=1').search, clone: structuredClone({{ deep: {{ d: 2 }} }}).deep }});
                return {{ n: one.n, failed }};
            }}"
        ))
    };
    let pool = pool().await;
    let clean = play(&pool, script("")).await;
    let poisoned = play(&pool, script(POISON)).await;
    assert_eq!(clean.result(), json!({"n": 1, "failed": true}));
    assert_eq!(poisoned.requests(), clean.requests(), "{:?} {:?}", poisoned.end, poisoned.lines());
    assert_eq!(poisoned.lines(), clean.lines());
    assert_eq!(poisoned.result(), clean.result());
}

#[tokio::test]
async fn a_script_that_deletes_all_globals_still_ends() {
    let body = "const world = globalThis, { deleteProperty } = Reflect; for (const name of Reflect.ownKeys(world)) deleteProperty(world, name); const r = await srv.echo({ a: 1 }); await sleep(1); return r;";
    assert_eq!(play(&pool().await, main_of(body)).await.result(), json!({"a": 1}));
}

#[tokio::test]
async fn the_preludes_own_functions_cannot_be_reached() {
    let body = "
        const found = [];
        Error.prepareStackTrace = (_, sites) => { for (const site of sites) found.push(site.getFunction?.()?.name); return ''; };
        setTimeout(() => { try { null.x; } catch (error) { void error.stack; } }, 1);
        await sleep(2);
        void new Error('x').stack;
        for (const f of [srv.echo, sleep, setTimeout, console.log]) for (const name of ['caller', 'arguments']) { try { if (f[name]) found.push(name); } catch {} }
        return found;";
    assert_eq!(play(&pool().await, main_of(body)).await.result(), json!([]));
}

#[tokio::test]
async fn arguments_are_copied_when_the_call_is_made() {
    let story = play(
        &pool().await,
        main_of(
            "
        let reads = 0;
        const args = { get a() { return ++reads; } };
        const shared = { n: 1 };
        const one = srv.echo(args), two = srv.echo(shared);
        shared.n = 2;
        await one; await two;
        return reads;",
        ),
    )
    .await;
    assert_eq!(story.requests(), ["srv.echo({\"a\":1})", "srv.echo({\"n\":1})"]);
    assert_eq!(story.result(), json!(1));
}
