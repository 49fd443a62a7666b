//! The script's world: what it has, and what it has not.

mod support;

use rewind_model::{ErrorCode, Json, Timestamp, ToolFailure};
use rewind_sandbox::{Delivered, Delivery, End};
use serde_json::json;
use support::{NOW, echo, eval, load, main_of, play, play_with, pool};

#[tokio::test]
async fn a_call_leaves_and_its_result_arrives() {
    let story =
        play(&pool().await, main_of("return (await srv.echo({ a: [1, 'x', null, true], u: undefined })).a;")).await;
    assert_eq!(story.requests(), ["srv.echo({\"a\":[1,\"x\",null,true]})"]);
    assert_eq!(story.result(), json!([1, "x", null, true]));
}

#[tokio::test]
async fn the_input_is_mains_argument() {
    let mut load = main_of("return input.n + 1;");
    load.input = Json::parse("{\"n\":41}").expect("JSON");
    assert_eq!(play(&pool().await, load).await.result(), json!(42));
}

#[tokio::test]
async fn tools_keep_their_names_whatever_they_are() {
    let body = "
        const got = [];
        for (const name of ['__proto__', 'then', 'a-b', 'constructor', 'toString', 'é']) got.push(await srv[name]({ name }));
        return [got.map((g) => g.name), Object.keys(srv), Object.getPrototypeOf(srv), typeof srv.absent, 'a-b' in srv, 'absent' in srv, srv['a-b'].name, srv.echo === srv.echo];";
    let story = play(&pool().await, main_of(body)).await;
    assert_eq!(story.requests()[0], "srv.__proto__({\"name\":\"__proto__\"})");
    let names = json!(["__proto__", "then", "a-b", "constructor", "toString", "é"]);
    let all = json!(["echo", "__proto__", "then", "a-b", "constructor", "toString", "é"]);
    assert_eq!(story.result(), json!([names, all, null, "undefined", true, false, "a-b", true]));
}

#[tokio::test]
async fn a_server_without_a_tool_then_is_not_thenable() {
    assert_eq!(eval("return typeof (await host).echo;").await, json!("function"));
}

#[tokio::test]
async fn a_server_cannot_be_changed() {
    let body = "
        const tried = [];
        for (const change of [() => { host.echo = 1; }, () => { delete host.echo; }, () => Object.defineProperty(host, 'x', { value: 1 }), () => Object.setPrototypeOf(host, {}), () => { host.echo.raw = 1; }]) {
            try { change(); tried.push('changed'); } catch (error) { tried.push(error.name); }
        }
        return [tried, (await host.echo({ a: 1 })).a];";
    assert_eq!(eval(body).await, json!([["TypeError", "TypeError", "TypeError", "TypeError", "TypeError"], 1]));
}

#[tokio::test]
async fn raw_and_absent_arguments() {
    let story =
        play(&pool().await, main_of("await srv.echo.raw({ a: 1 }); await srv.echo(); await srv.echo(undefined);"))
            .await;
    assert_eq!(story.requests(), ["srv.echo.raw({\"a\":1})", "srv.echo({})", "srv.echo({})"]);
    assert_eq!(story.result(), json!(null));
}

#[tokio::test]
async fn large_integers_stay_exact_both_ways() {
    let story = play(
        &pool().await,
        main_of(
            "
        const back = await srv.echo({ big: 12345678901234567890n, small: 7n, list: [9007199254740993n] });
        return { big: back.big, type: typeof back.big, small: typeof back.small, list: back.list };",
        ),
    )
    .await;
    assert_eq!(story.requests(), ["srv.echo({\"big\":12345678901234567890,\"small\":7,\"list\":[9007199254740993]})"]);
    let Some(End::Returned(result)) = &story.end else { panic!("{story:?}") };
    assert_eq!(
        result.as_str(),
        "{\"big\":12345678901234567890,\"type\":\"bigint\",\"small\":\"number\",\"list\":[9007199254740993]}"
    );
}

#[tokio::test]
async fn a_proto_member_of_a_result_is_data() {
    let story = play_with(
        &pool().await,
        main_of(
            "
        const value = await srv.echo();
        return [Object.keys(value), value.polluted ?? null, Object.getPrototypeOf(value) === Object.prototype];",
        ),
        |_| Delivered::Value(Json::parse("{\"__proto__\":{\"polluted\":1},\"n\":98765432109876543210}").expect("JSON")),
    )
    .await;
    assert_eq!(story.result(), json!([["__proto__", "n"], null, true]));
}

#[tokio::test]
async fn arguments_that_are_no_json_reject_without_a_call() {
    let story = play(&pool().await, main_of("
        const codes = [];
        const cycle = {}; cycle.self = cycle;
        for (const bad of [cycle, () => 1, Symbol('s'), { get a() { throw new Error('mine'); } }]) {
            try { await srv.echo(bad); } catch (error) { codes.push([error.code, error.tool, error instanceof ToolError, error instanceof Error, error.retryable, error.key]); }
        }
        await srv.echo({ last: true });
        return codes;")).await;
    let expected = json!(["invalid_arguments", "srv.echo", true, true, false, null]);
    assert_eq!(story.result(), json!([expected, expected, expected, expected]));
    assert_eq!(story.calls.iter().map(|call| call.seq).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn a_failure_is_a_tool_error() {
    let failure = |_: &_| {
        Delivered::Failure(ToolFailure {
            code: ErrorCode::Timeout,
            message: "too slow".into(),
            retryable: true,
            details: Some(Json::parse("{\"after\":\"30s\"}").expect("JSON")),
        })
    };
    let body = "try { await srv.echo(); } catch (e) { return [e instanceof ToolError, e.name, e.code, e.tool, e.message, e.retryable, e.details, e.key, String(e)]; }";
    let pool = pool().await;
    let key = format!("{}/1", support::run_id(1));
    assert_eq!(
        play_with(&pool, main_of(body), failure).await.result(),
        json!([true, "ToolError", "timeout", "srv.echo", "too slow", true, {"after": "30s"}, key, "ToolError: too slow"])
    );
    let uncaught = play_with(&pool, main_of("await srv.echo();"), failure).await;
    let thrown = uncaught.error();
    assert_eq!(thrown.message, "ToolError: too slow");
    let tool_error = thrown.tool_error.as_ref().expect("made by Rewind");
    assert_eq!(
        (tool_error.code.as_str(), tool_error.tool.as_ref().map(ToString::to_string).as_deref()),
        ("timeout", Some("srv.echo"))
    );
    assert_eq!(tool_error.key.as_ref().map(ToString::to_string), Some(key));
}

#[tokio::test]
async fn a_script_cannot_make_a_tool_error() {
    let story = play(
        &pool().await,
        main_of(
            "
        try { new ToolError({}, {}); } catch (error) { return error.name; }",
        ),
    )
    .await;
    assert_eq!(story.result(), json!("TypeError"));
    let forged =
        play(&pool().await, main_of("throw Object.assign(new Error('x'), { code: 'timeout', tool: 'srv.echo' });"))
            .await;
    assert_eq!(forged.error().tool_error, None);
}

#[tokio::test]
async fn errors_keep_their_place_in_the_script() {
    let thrown = play(&pool().await, load("export default async function main() {\n  const f = () => {\n    throw new RangeError('here');\n  };\n  f();\n}")).await;
    let thrown = thrown.error();
    assert_eq!(thrown.message, "RangeError: here");
    let stack = thrown.stack.as_deref().expect("a stack");
    assert!(stack.starts_with("    at f (script.js:3:"), "{stack}");
    assert!(stack.contains("at main (script.js:5:"), "{stack}");
    assert!(!stack.contains("rewind:"), "{stack}");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let pool = pool().await;
    for (script, expected) in [
        ("export const a = 1;", "export default async function main"),
        ("export default 7;", "export default async function main"),
        ("export default async function main( {", "SyntaxError"),
        ("import fs from 'fs'; export default () => 1;", "rewind:tools"),
        ("import './other.js'; export default () => 1;", "rewind:tools"),
        ("import { absent } from 'rewind:tools'; export default () => absent;", "absent"),
        ("throw new Error('at load'); export default () => 1;", "Error: at load"),
        ("export default async () => { await import('rewind:prelude'); }", "rewind:tools"),
    ] {
        let story = play(&pool, load(script)).await;
        assert!(story.error().message.contains(expected), "{script}: {:?}", story.end);
    }
}

#[tokio::test]
async fn results_that_are_no_json_say_why() {
    let pool = pool().await;
    for body in ["return () => 1;", "const a = {}; a.a = a; return a;", "return Symbol('x');"] {
        assert!(matches!(play(&pool, main_of(body)).await.end, Some(End::BadResult(_))), "{body}");
    }
    assert_eq!(play(&pool, main_of("return 'lone \\ud800';")).await.result(), json!("lone \u{fffd}"));
}

#[tokio::test]
async fn time_is_the_last_deliverys() {
    let story = play(&pool().await, main_of("
        const a = Date.now(); await sleep('10d'); const b = new Date(); await sleep(1.5);
        return [a, b.getTime() - a, Date.now() - a, b.toISOString(), new Date(2020, 0, 1).getTimezoneOffset(), typeof Date(), b instanceof Date, b.constructor === Date, new (class X extends Date {})(5).getTime()];")).await;
    assert_eq!(story.requests(), ["sleep(864000000)", "sleep(864000002)"]);
    assert_eq!(
        story.result(),
        json!([NOW, 864_000_000, 864_000_002, "2026-01-12T03:04:05.678Z", 0, "string", true, true, 5])
    );
}

#[tokio::test]
async fn timers_are_durable_and_can_be_cleared() {
    let story = play(
        &pool().await,
        main_of(
            "
        const order = [];
        const cleared = setTimeout(() => order.push('never'), 5);
        setTimeout((x) => order.push(x), 10, 'ten');
        clearTimeout(cleared); clearTimeout(undefined); clearTimeout(99);
        await new Promise((resolve) => setTimeout(resolve, 20));
        return order;",
        ),
    )
    .await;
    assert_eq!(story.requests(), ["sleep(5)", "sleep(10)", "sleep(20)"]);
    assert_eq!(story.result(), json!(["ten"]));
    let thrown =
        play(&pool().await, main_of("setTimeout(() => { throw new Error('in a timer'); }, 1); await sleep('1d');"))
            .await;
    assert_eq!(thrown.error().message, "Error: in a timer");
    let bad = eval("const out = []; for (const d of ['soon', -1, NaN, {}, 1e300, '3651d']) await sleep(d).catch((e) => out.push(e.name)); return out;").await;
    assert_eq!(bad, json!(["RangeError", "TypeError", "TypeError", "TypeError", "RangeError", "RangeError"]));
}

#[tokio::test]
async fn nothing_else_is_nondeterministic() {
    let absent = eval("return ['performance', 'WeakRef', 'FinalizationRegistry', 'Atomics', 'SharedArrayBuffer', 'Intl', 'fetch', 'process', 'require', 'Worker', 'std', 'os', 'gc', 'navigator', 'print', 'scriptArgs'].filter((name) => name in globalThis);").await;
    assert_eq!(absent, json!([]));
    let script =
        "return [Math.random(), crypto.randomUUID(), [...crypto.getRandomValues(new Uint32Array(2))], Math.random()];";
    let (one, two) = (eval(script).await, eval(script).await);
    assert_eq!(one, two);
    let mut other = main_of(script);
    other.run = support::run_id(2);
    assert_ne!(play(&pool().await, other).await.result(), one);
}

#[tokio::test]
async fn console_writes_values_without_running_the_script() {
    let story = play(&pool().await, main_of("
        class Point { constructor() { this.x = 1; } }
        const cycle = { name: 'c' }; cycle.self = cycle;
        console.log('text', 1, -0, 2n, null, undefined, true, Symbol('s'), [1, 'a', , 3], { a: 1, 'b-c': [] });
        console.info(new Map([['k', { v: 1 }]]), new Set([1]), new Date(0), /a\\/b/g, new Uint8Array(3), new Point());
        console.warn(cycle, { get secret() { console.log('ran'); return 1; } }, function named() {}, { a: { b: { c: { d: { e: 1 } } } } });
        console.error(new TypeError('bad'));
        console.debug('x'.repeat(20000), new Array(200).fill(0));
        console.log(host, srv.echo, Promise.resolve(1), Object.create(null), 'lone \\ud800');")).await;
    let lines = story.lines();
    assert_eq!(lines[0], "text 1 -0 2n null undefined true Symbol(s) [ 1, \"a\", <empty>, 3 ] { a: 1, \"b-c\": [] }");
    assert_eq!(
        lines[1],
        "Map(1) { \"k\" => { v: 1 } } Set(1) { 1 } 1970-01-01T00:00:00.000Z /a\\/b/ Uint8Array(3) Point { x: 1 }"
    );
    assert_eq!(
        lines[2],
        "{ name: \"c\", self: [Circular] } { secret: [Getter] } [Function: named] { a: { b: { c: { d: [Object] } } } }"
    );
    assert!(lines[3].starts_with("TypeError: bad\n    at main (script.js:"), "{}", lines[3]);
    assert_eq!(lines[4].len(), 8192);
    assert_eq!(lines[5], "{ echo: [Function: echo] } [Function: echo] Promise {} {} lone \u{fffd}");
    let levels: Vec<_> = story.logs.iter().map(|log| log.level.as_str()).collect();
    assert_eq!(levels, ["log", "info", "warn", "error", "debug", "log"]);
    assert_eq!(story.logs[0].at, Timestamp::from_unix_ms(NOW));
}

#[tokio::test]
async fn a_rejection_that_nothing_handles_is_logged_once_the_script_waits() {
    let failure = |_: &_| Delivered::Failure(ToolFailure::new(ErrorCode::ToolFailed, "no"));
    let story = play_with(&pool().await, main_of("srv.echo(); const later = srv.echo(); await sleep(1).catch(() => {}); await later.catch(() => {}); return 'done';"), |call| {
        if call.seq == 3 { echo(call) } else { failure(call) }
    }).await;
    assert_eq!(story.result(), json!("done"));
    assert_eq!(story.lines().len(), 2);
    assert!(story.lines()[0].starts_with("unhandled rejection: ToolError: no"), "{:?}", story.lines());
}

#[tokio::test]
async fn urls() {
    let body = "
        const url = new URL('../b?x=1&y=%C3%A9#h', 'https://user:pw@EXAMPLE.com:8443/a/c/');
        const before = [url.href, url.origin, url.protocol, url.username, url.password, url.host, url.hostname, url.port, url.pathname, url.search, url.hash];
        url.searchParams.append('z', 'a b&c'); url.searchParams.delete('x'); url.hash = ''; url.pathname = '/new path'; url.port = 'nonsense';
        const params = new URLSearchParams([['b', '2'], ['a', '1'], ['b', '3']]); params.sort(); params.set('b', '4');
        let bad; try { new URL('nope'); } catch (error) { bad = error.name; }
        return [before, String(url), JSON.stringify({ url }), url.searchParams.get('y'), [...params], params.size, params.has('b', '4'), [...new URLSearchParams({ q: '1', r: '2' }).keys()], bad, URL.canParse('a:b'), URL.parse('x'), `${new URLSearchParams('?a=1+2')}`, params.getAll('b')];";
    assert_eq!(
        eval(body).await,
        json!([
            [
                "https://user:pw@example.com:8443/a/b?x=1&y=%C3%A9#h",
                "https://example.com:8443",
                "https:",
                "user",
                "pw",
                "example.com:8443",
                "example.com",
                "8443",
                "/a/b",
                "?x=1&y=%C3%A9",
                "#h"
            ],
            "https://user:pw@example.com:8443/new%20path?y=%C3%A9&z=a+b%26c",
            "{\"url\":\"https://user:pw@example.com:8443/new%20path?y=%C3%A9&z=a+b%26c\"}",
            "é",
            [["a", "1"], ["b", "4"]],
            2,
            true,
            ["q", "r"],
            "TypeError",
            true,
            null,
            "a=1+2",
            ["4"]
        ])
    );
}

#[tokio::test]
async fn text_and_base64() {
    let body = "
        const bytes = new TextEncoder().encode('é😀');
        const into = new Uint8Array(3);
        const did = new TextEncoder().encodeInto('é😀', into);
        const bad = []; for (const f of [() => btoa('😀'), () => atob('a'), () => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])), () => new TextDecoder('latin1')]) { try { f(); } catch (e) { bad.push(e.name); } }
        return [[...bytes], new TextDecoder().decode(bytes), new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 65, 255])), did, [...into], btoa('\\u00ffa'), atob(' /2E= ').charCodeAt(0), atob('YQ'), bad];";
    assert_eq!(
        eval(body).await,
        json!([
            [195, 169, 240, 159, 152, 128], "é😀", "A\u{fffd}", {"read": 1, "written": 2}, [195, 169, 0], "/2E=", 255, "a",
            ["InvalidCharacterError", "InvalidCharacterError", "TypeError", "Error"]
        ])
    );
}

#[tokio::test]
async fn structured_clones() {
    let body = "
        const shared = { n: 1 };
        const from = { date: new Date(5), map: new Map([['k', shared]]), set: new Set([shared]), list: [shared, , 2n], bytes: new Uint8Array([1, 2]).subarray(1), re: /x/gi, err: new RangeError('r', { cause: shared }), undef: undefined, big: 5n };
        from.self = from;
        const to = structuredClone(from);
        const bad = []; for (const f of [() => 1, Symbol('s'), { f() {} }]) { try { structuredClone(f); } catch (e) { bad.push(e.name); } }
        return [to !== from, to.self === to, to.date.getTime(), to.map.get('k') === to.list[0], to.list[0] !== shared, to.set.has(to.list[0]), 1 in to.list, to.list.length, [...to.bytes], String(to.re), to.err instanceof RangeError, to.err.message, to.err.cause === to.list[0], 'undef' in to, typeof to.big, bad];";
    assert_eq!(
        eval(body).await,
        json!([
            true,
            true,
            5,
            true,
            true,
            true,
            false,
            3,
            [2],
            "/x/gi",
            true,
            "r",
            true,
            true,
            "bigint",
            ["DataCloneError", "DataCloneError", "DataCloneError"]
        ])
    );
}

#[tokio::test]
async fn microtasks_and_top_level_await_work() {
    let script = "import { srv } from 'rewind:tools'; const early = await srv.echo({ a: 1 }); export default async () => { const order = []; queueMicrotask(() => order.push(1)); await null; order.push(2); return [early.a, order]; };";
    assert_eq!(play(&pool().await, load(script)).await.result(), json!([1, [1, 2]]));
    let thrown =
        play(&pool().await, main_of("queueMicrotask(() => { throw new Error('micro'); }); await sleep('1d');")).await;
    assert_eq!(thrown.error().message, "Error: micro");
}

#[tokio::test]
async fn a_delivery_for_a_call_that_was_not_made_ends_the_run() {
    let pool = pool().await;
    let (mut instance, _) = pool.load(main_of("await srv.echo(); await sleep(5);"), false).await.expect("a turn");
    let at = Timestamp::from_unix_ms(NOW);
    let turn = instance.resolve(vec![Delivery { seq: 7, at, value: Delivered::Slept }]).await.expect("a turn");
    assert_eq!(turn.end, Some(End::UnknownCall(7)));
}
