//! Harnesses are told what happens, whatever dies meanwhile.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, ensure};
use futures::future::try_join_all;
use reqwest::{Method, StatusCode};
use rewind_model::{DeadDelivery, Event, Page, Resent, Run, RunId, RunStatus};
use rewind_tests::{Cluster, ClusterOptions, Peer, Tools, eventually, eventually_within, pause, resume};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Counter, host_toolset, run_to_end};

/// A process that takes webhooks.
struct Receiver {
    peer: Peer,
    http: reqwest::Client,
}

/// A request as the receiver got it.
#[derive(Debug, Clone, Deserialize)]
struct Request {
    path: String,
    id: String,
    /// Its signature is right.
    valid: bool,
    taken: bool,
    /// Seconds since 1970.
    at: f64,
    body: String,
}

impl Request {
    fn event(&self) -> anyhow::Result<Event> {
        serde_json::from_str(&self.body).with_context(|| format!("reading {}", self.body))
    }
}

impl Receiver {
    async fn start() -> anyhow::Result<Self> {
        let peer = Peer::receiver(&Tools::find()?).await?;
        Ok(Self { peer, http: reqwest::Client::builder().no_proxy().build()? })
    }

    fn url(&self) -> anyhow::Result<String> {
        self.peer.said("url")
    }

    async fn change(&self, changes: &Value) -> anyhow::Result<()> {
        let request = self.http.post(self.peer.said("control")?).body(changes.to_string());
        request.send().await?.error_for_status()?;
        Ok(())
    }

    /// Those so far, all of them with the right signature.
    async fn requests(&self) -> anyhow::Result<Vec<Request>> {
        #[derive(Deserialize)]
        struct Seen {
            requests: Vec<Request>,
        }
        let text = self.http.get(self.peer.said("control")?).send().await?.text().await?;
        let Seen { requests } = serde_json::from_str(&text)?;
        ensure!(requests.iter().all(|request| request.valid), "a signature is wrong: {requests:?}");
        Ok(requests)
    }

    async fn taken(&self) -> anyhow::Result<Vec<Request>> {
        Ok(self.requests().await?.into_iter().filter(|request| request.taken).collect())
    }

    /// The first request of this type about the run that the receiver took.
    async fn got(&self, run: &RunId, kind: &str) -> anyhow::Result<Request> {
        eventually(&format!("{kind} of {run}"), || async {
            let taken = self.taken().await.ok()?;
            taken.into_iter().find(|request| {
                request.event().is_ok_and(|event| event.data.run == *run && event.kind.as_str() == kind)
            })
        })
        .await
    }
}

/// A system that sends all events to `receivers`, with these waits between attempts.
async fn start(receivers: &[&Receiver], retry: &str) -> anyhow::Result<Cluster> {
    let urls = receivers.iter().map(|receiver| receiver.url()).collect::<anyhow::Result<Vec<_>>>()?;
    start_with(&urls.join(" "), receivers, retry, "info").await
}

async fn start_with(urls: &str, receivers: &[&Receiver], retry: &str, log: &str) -> anyhow::Result<Cluster> {
    let env = [
        ("REWIND_WEBHOOK_URLS", urls),
        ("REWIND_WEBHOOK_RETRY", retry),
        ("REWIND_SCHEMA_AGE", "0s"),
        ("REWIND_LOG", log),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let cluster = Cluster::start_with(ClusterOptions { env, ..ClusterOptions::default() }).await?;
    let secret = cluster.dev_file()?.webhook_secret;
    for receiver in receivers {
        receiver.change(&json!({"secret": secret})).await?;
    }
    Ok(cluster)
}

async fn dead(cluster: &Cluster) -> anyhow::Result<Vec<DeadDelivery>> {
    let page = cluster.api.request::<Page<DeadDelivery>>(Method::GET, "/v1/webhooks/dead", None).await?;
    Ok(page.map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?.items)
}

async fn resend(cluster: &Cluster, id: &str) -> anyhow::Result<Result<Resent, StatusCode>> {
    let path = format!("/v1/webhooks/dead/{id}/resend");
    Ok(cluster.api.request::<Resent>(Method::POST, &path, None).await?.map_err(|refusal| refusal.status))
}

const OK: &str = "export default async () => 1";

/// Of a tool's declaration, arguments, results, an error's message: none is for a webhook.
const NEVER: &str = "s3cret";

#[tokio::test]
async fn ends_and_parked_calls_are_told_once_signed_and_without_what_they_carry() -> anyhow::Result<()> {
    let receiver = Receiver::start().await?;
    let cluster = start(&[&receiver], "1s,1s,1s").await?;
    let counter = Counter::start(&cluster, json!({})).await?;
    let policies = json!({"shop.effect": {"approval": "always"}});
    let toolset = json!({"mcp_servers": {"shop": {"url": counter.url()?}}, "policies": policies});
    let toolset = cluster.api.register(&toolset).await?.id;
    let script = |body: &str| {
        format!("import {{ shop, sleep }} from \"rewind:tools\";\nexport default async function main() {{ {body} }}")
    };
    let start = async |body: &str| -> anyhow::Result<RunId> {
        let request = json!({"toolset": toolset, "script": script(body), "input": NEVER, "namespace": "ada",
            "labels": {"team": "7"}});
        Ok(cluster.api.start_with(&request).await?.id)
    };
    let completed = start(r#"return "s3cret""#).await?;
    let failed = start(r#"throw new Error("s3cret")"#).await?;
    let cancelled = start(r#"await shop.effect({ card: "s3cret" })"#).await?;
    let changed = start(r#"await sleep("1s"); await shop.echo({ card: "s3cret" })"#).await?;
    let tool = json!({"name": "echo", "inputSchema": {"type": "object", "required": ["s3cret_too"]}});
    counter.change(&json!({"pages": [{"cursor": null, "tools": [tool]}]})).await?;

    let approval = receiver.got(&cancelled, "call.approval_required").await?.event()?;
    let call = approval.data.call.context("a call")?;
    ensure!((call.tool.to_string().as_str(), call.reason.as_str()) == ("shop.effect", "approval"), "{call:?}");
    ensure!(call.key.to_string() == format!("{cancelled}/1"), "{call:?}");
    let drift = receiver.got(&changed, "tool.schema_changed").await?.event()?;
    ensure!(drift.data.call.is_some_and(|call| call.seq == 2 && call.reason == "schema_changed"));
    cluster.api.request::<Value>(Method::POST, &format!("/v1/runs/{cancelled}/cancel"), None).await?.ok();
    receiver.got(&cancelled, "run.cancelled").await?;
    receiver.got(&completed, "run.completed").await?;
    let failure = receiver.got(&failed, "run.failed").await?.event()?.data;
    ensure!(failure.error_code.as_deref() == Some("script_error"), "{failure:?}");
    ensure!(failure.status == Some(RunStatus::Failed) && failure.namespace.as_deref() == Some("ada"), "{failure:?}");
    ensure!(failure.labels["team"] == "7", "{failure:?}");

    // The next coordinator begins where that one was.
    cluster.kill_coordinator().await?;
    let last =
        eventually("the API is back", || async { cluster.api.start(&toolset, OK, Value::Null).await.ok() }).await?;
    receiver.got(&last.id, "run.completed").await?;
    let requests = receiver.requests().await?;
    let ids: BTreeSet<&str> = requests.iter().map(|request| request.id.as_str()).collect();
    ensure!(requests.len() == 6 && ids.len() == 6, "{requests:#?}");
    ensure!(!requests.iter().any(|request| request.body.contains(NEVER)), "{requests:#?}");
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_fails_gets_it_again_with_the_same_id() -> anyhow::Result<()> {
    let receiver = Receiver::start().await?;
    let cluster = start(&[&receiver], "100ms,200ms,300ms,30s").await?;
    receiver.change(&json!({"fail_first": 3})).await?;
    let toolset = host_toolset(&cluster).await?;
    let run = run_to_end(&cluster, &toolset, OK).await?.id;
    receiver.got(&run, "run.completed").await?;
    let requests = receiver.requests().await?;
    ensure!(requests.len() == 4, "{requests:#?}");
    ensure!(requests.iter().all(|request| request.id == requests[0].id && request.body == requests[0].body));
    ensure!(dead(&cluster).await?.is_empty());
    Ok(())
}

/// Seconds from each run's end to when the receiver had its event.
async fn delays(receiver: &Receiver, ended: &[Run]) -> anyhow::Result<Vec<f64>> {
    let mut delays = Vec::new();
    for run in ended {
        let request = receiver.got(&run.id, "run.completed").await?;
        let ended_at = run.ended_at.context("an end")?.unix_ms();
        delays.push(request.at - ended_at as f64 / 1_000.0);
    }
    delays.sort_by(f64::total_cmp);
    Ok(delays)
}

#[tokio::test]
async fn slow_and_dead_endpoints_hold_nobody_else_up() -> anyhow::Result<()> {
    let (good, hanging, good_of_runs, hanging_of_runs) =
        futures::future::try_join4(Receiver::start(), Receiver::start(), Receiver::start(), Receiver::start()).await?;
    let closed = format!("http://{}/", std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?);
    let urls = [closed.clone(), hanging.url()?, good.url()?].join(",");
    let receivers = [&good, &hanging, &good_of_runs, &hanging_of_runs];
    let cluster = start_with(&urls, &receivers, "1s,30s,1h", "info").await?;
    for receiver in [&hanging, &hanging_of_runs] {
        receiver.change(&json!({"hang": true})).await?;
    }
    let toolset = host_toolset(&cluster).await?;
    let run = async |webhook: String| -> anyhow::Result<Run> {
        let body = json!({"toolset": toolset, "script": OK, "webhook": webhook});
        let run = cluster.api.start_with(&body).await?;
        cluster.api.ended(&run.id).await
    };
    let bad = [hanging_of_runs.url()?, closed];
    try_join_all((0..60).map(|n| run(bad[n % 2].clone()))).await?;
    eventually("the hanging endpoints are busy", || async {
        let busy = !hanging.requests().await.ok()?.is_empty() && !hanging_of_runs.requests().await.ok()?.is_empty();
        busy.then_some(())
    })
    .await?;
    let url = good_of_runs.url()?;
    let ended = try_join_all((0..40).map(|_| run(url.clone()))).await?;
    for receiver in [&good, &good_of_runs] {
        let delays = delays(receiver, &ended).await?;
        eprintln!("from a run's end to its webhook: p50 {:.3} s, longest {:.3} s", delays[20], delays[39]);
        ensure!(delays[39] < 5.0, "{delays:?}");
    }
    ensure!(hanging.taken().await?.is_empty() && hanging_of_runs.taken().await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn what_is_given_up_is_listed_and_can_be_sent_again() -> anyhow::Result<()> {
    let (receiver, other) = futures::future::try_join(Receiver::start(), Receiver::start()).await?;
    let cluster = start(&[&receiver, &other], "100ms,200ms").await?;
    receiver.change(&json!({"status": 503})).await?;
    let toolset = host_toolset(&cluster).await?;
    let run = run_to_end(&cluster, &toolset, OK).await?.id;
    let letter = eventually("a dead letter", || async { dead(&cluster).await.ok()?.pop() }).await?;
    ensure!(letter.run == run && letter.why.contains("503") && letter.attempts == 3, "{letter:?}");
    ensure!(receiver.url()?.starts_with(&letter.endpoint) && !letter.endpoint.contains("hook"), "{letter:?}");
    let first = receiver.requests().await?;
    ensure!(first.len() == 3, "{first:?}");

    // The one that took it does not get it again; who is to get it, does, under the same id.
    receiver.change(&json!({"status": 204})).await?;
    let resent = resend(&cluster, &letter.id).await?.map_err(|status| anyhow::anyhow!("{status}"))?;
    let got = receiver.got(&run, "run.completed").await?;
    ensure!(got.id == first[0].id && got.id == resent.event.to_string() && got.body == first[0].body, "{got:?}");
    ensure!(dead(&cluster).await?.is_empty());
    ensure!(resend(&cluster, &letter.id).await? == Err(StatusCode::NOT_FOUND));
    ensure!(resend(&cluster, "evt_x-runs").await? == Err(StatusCode::NOT_FOUND));
    ensure!(other.requests().await?.len() == 1);

    // 410 means that there is no use in trying; a redirect is not followed. The command line says it all, too.
    receiver.change(&json!({"status": 410})).await?;
    other.change(&json!({"status": 307})).await?;
    run_to_end(&cluster, &toolset, OK).await?;
    eventually("two dead letters", || async { (dead(&cluster).await.ok()?.len() == 2).then_some(()) }).await?;
    let rewind = async |args: &[&str]| -> anyhow::Result<String> {
        let mut command = tokio::process::Command::new(cluster.tools().rewind());
        let output = command.args(args).arg("--data").arg(cluster.data()).output().await?;
        ensure!(output.status.success(), "{output:?}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let listed: Page<DeadDelivery> = serde_json::from_str(&rewind(&["webhook", "dead", "--json"]).await?)?;
    let whys: BTreeMap<u32, &str> = listed.items.iter().map(|dead| (dead.attempts, dead.why.as_str())).collect();
    ensure!(whys[&1].contains("410") && whys[&3].contains("307"), "{whys:?}");
    for dead in &listed.items {
        ensure!(rewind(&["webhook", "dead"]).await?.contains(&dead.id));
        receiver.change(&json!({"status": 200})).await?;
        other.change(&json!({"status": 200})).await?;
        ensure!(rewind(&["webhook", "resend", &dead.id]).await?.contains(dead.event.as_str()));
    }
    eventually("both got it", || async {
        let (one, two) = (receiver.taken().await.ok()?, other.taken().await.ok()?);
        (one.len() == 2 && two.len() == 2).then_some(())
    })
    .await
}

#[tokio::test]
async fn coordinators_and_nats_die_and_no_event_is_lost() -> anyhow::Result<()> {
    let receiver = Receiver::start().await?;
    let cluster = start(&[&receiver], "1s,1s,2s,5s,5s,5s,5s,5s,5s,5s,10s,10s,10s").await?;
    let toolset = host_toolset(&cluster).await?;
    let mut started: Vec<RunId> = Vec::new();
    let start_some = async |count: usize| -> anyhow::Result<Vec<RunId>> {
        let starts = (0..count).map(|_| async {
            eventually("a run is started", || async { cluster.api.start(&toolset, OK, Value::Null).await.ok() }).await
        });
        Ok(try_join_all(starts).await?.into_iter().map(|run| run.id).collect())
    };
    for round in 0..3 {
        // It ends while some are on their way, and while some wait for their next attempt.
        receiver.change(&json!({"hang": round == 0, "status": if round == 1 { 500 } else { 204 }})).await?;
        let before = receiver.requests().await?.len();
        started.extend(start_some(40).await?);
        eventually("some are tried", || async { (receiver.requests().await.ok()?.len() > before).then_some(()) })
            .await?;
        let (more, killed) = tokio::join!(start_some(20), async {
            match round {
                0 | 1 => cluster.kill_coordinator().await,
                _ => cluster.kill_nats().await,
            }
        });
        killed?;
        started.extend(more?);
    }
    // Another one takes over from one that neither answers nor ends.
    let urls = receiver.url()?;
    let secret = cluster.dev_file()?.webhook_secret;
    let env = [("REWIND_WEBHOOK_URLS", urls.as_str()), ("REWIND_WEBHOOK_SECRET", &secret)];
    let other = cluster.another_coordinator(&env).await?;
    let silent = cluster.dev_file()?.pids.coordinator;
    pause(silent);
    let taken_over = async {
        let run = other.api.start(&toolset, OK, Value::Null).await?.id;
        other.api.ended(&run).await?;
        receiver.got(&run, "run.completed").await.map(|_| run)
    }
    .await;
    resume(silent);
    started.push(taken_over?);

    let wanted: BTreeSet<RunId> = started.into_iter().collect();
    let ids = eventually_within(Duration::from_secs(120), "every event is taken", || async {
        let mut ids: BTreeMap<RunId, BTreeSet<String>> = BTreeMap::new();
        for request in receiver.taken().await.ok()? {
            ids.entry(request.event().ok()?.data.run).or_default().insert(request.id);
        }
        wanted.iter().all(|run| ids.contains_key(run)).then_some(ids)
    })
    .await?;
    ensure!(ids.len() == wanted.len() && ids.values().all(|ids| ids.len() == 1), "one event, one id: {ids:?}");
    let taken = receiver.taken().await?.len();
    eprintln!("{} events, taken {taken} times", wanted.len());
    Ok(())
}

/// As somebody with access to NATS could write it.
async fn poison(cluster: &Cluster, run: &RunId) -> anyhow::Result<()> {
    let url: async_nats::ServerAddr = cluster.dev_file()?.nats.parse()?;
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    let options = async_nats::ConnectOptions::with_user_and_password(text(url.username()), text(url.password()));
    let jetstream = async_nats::jetstream::new(options.connect(url).await?);
    jetstream.publish(rewind_bus::names::journal(run), "garbage".into()).await?.await?;
    jetstream.publish("rewind.event.-.run.completed.garbage", "garbage".into()).await?.await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_read_keeps_no_other_event_back() -> anyhow::Result<()> {
    let receiver = Receiver::start().await?;
    let cluster = start(&[&receiver], "1s,1s").await?;
    let policies = json!({"host.refund": {"approval": "always"}});
    let toolset = json!({"host_tools": crate::support::refund_tools(), "policies": policies});
    let toolset = cluster.api.register(&toolset).await?.id;
    let script = "import { host } from \"rewind:tools\";\nexport default async () => host.refund({})";
    let poisoned = cluster.api.start(&toolset, script, Value::Null).await?.id;
    receiver.got(&poisoned, "call.approval_required").await?;
    poison(&cluster, &poisoned).await?;
    // Who leads next has to look at it again.
    cluster.bus().await?.set_event_cursor(0).await?;
    cluster.kill_coordinator().await?;
    for _ in 0..10 {
        let run =
            eventually("the API is back", || async { cluster.api.start(&toolset, OK, Value::Null).await.ok() }).await?;
        receiver.got(&run.id, "run.completed").await?;
    }
    let bus = cluster.bus().await?;
    eventually("the cursor moves on", || async { (bus.event_cursor().await.ok()? > 20).then_some(()) }).await?;
    ensure!(receiver.requests().await?.len() == 11, "nothing is told twice");
    Ok(())
}

#[tokio::test]
async fn a_run_may_name_an_endpoint_and_what_is_secret_is_in_no_log() -> anyhow::Result<()> {
    let (all, own) = futures::future::try_join(Receiver::start(), Receiver::start()).await?;
    let urls = [all.url()?, own.url()?].join(" ");
    let cluster = start_with(&urls, &[&all, &own], "100ms", "debug").await?;
    let toolset = host_toolset(&cluster).await?;
    // `own` is told of everything as well; what runs want is at another path.
    let hook = own.url()?.replace("/hook", "/t0ken-path?t0ken=query");
    let body = json!({"toolset": toolset, "script": OK, "webhook": hook});
    let run = cluster.api.start_with(&body).await?.id;
    let shown = cluster.api.send(Method::GET, &format!("/v1/runs/{run}"), None).await?.text().await?;
    let plain = run_to_end(&cluster, &toolset, OK).await?.id;
    all.got(&run, "run.completed").await?;
    all.got(&plain, "run.completed").await?;
    own.got(&plain, "run.completed").await?;
    let at_path = eventually("the run's own endpoint", || async {
        let taken = own.taken().await.ok()?;
        taken.iter().any(|request| request.path.starts_with("/t0ken-path")).then_some(taken)
    })
    .await?;
    let own_path: Vec<_> = at_path.iter().filter(|request| request.path.starts_with("/t0ken-path")).collect();
    ensure!(own_path.len() == 1 && own_path[0].event()?.data.run == run, "{own_path:?}");

    // The runs below it are told of at the same place.
    let workflows = json!({"base": toolset, "workflows": {"below": {"script": OK}}});
    let above = "import { workflows } from \"rewind:tools\";\nexport default async () => workflows.below(null)";
    let with_below = cluster.api.register(&workflows).await?.id;
    let parent = cluster.api.start_with(&json!({"toolset": with_below, "script": above, "webhook": hook})).await?.id;
    eventually("the child's event", || async {
        let taken = own.taken().await.ok()?;
        let parents = taken
            .iter()
            .filter(|request| request.path.starts_with("/t0ken-path"))
            .map(|request| request.event().ok().and_then(|event| event.data.parent));
        parents.flatten().find(|key| key.run == parent && key.seq == 1)
    })
    .await?;

    // Also where it fails for good.
    own.change(&json!({"status": 500})).await?;
    let given_up = cluster.api.start_with(&body).await?.id;
    let letters = eventually("dead letters", || async {
        let letters = dead(&cluster).await.ok()?;
        (letters.iter().filter(|letter| letter.run == given_up).count() == 2).then_some(letters)
    })
    .await?;
    let log = std::fs::read_to_string(cluster.path("dev.log"))?;
    ensure!(log.contains("is given up"), "the log is there, and says so");
    let secret = cluster.dev_file()?.webhook_secret;
    for text in [&log, &shown, &format!("{letters:?}")] {
        let shown = text.lines().find(|line| line.contains("t0ken") || line.contains(&secret));
        ensure!(shown.is_none(), "a secret is shown: {shown:?}");
    }
    // Where no secret is set, nothing can be sent.
    let none = [("REWIND_WEBHOOK_URLS", ""), ("REWIND_WEBHOOK_SECRET", "")];
    let other = cluster.another_coordinator(&none).await?;
    let refused = other.api.request::<Run>(Method::POST, "/v1/runs", Some(&body)).await?.err().context("refused")?;
    let detail = refused.problem.detail.unwrap_or_default();
    ensure!(refused.status == 422 && detail.contains("REWIND_WEBHOOK_SECRET"), "{detail}");
    Ok(())
}
