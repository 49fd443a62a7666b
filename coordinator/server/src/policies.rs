//! From the policies that a harness gives to the one that each tool has.

use std::{collections::BTreeMap, time::Duration};

use rewind_model::{
    Policy, ProblemCode, RegisterPolicy, RegisterRetry, Toolset, ToolsetWarning, format_duration, parse_duration,
};

use crate::refusal::Refusal;

/// Policies of one request.
const MOST: usize = 10_000;
/// A host tool may take days.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);
const LONGEST_PARK: Duration = Duration::from_secs(3_650 * 86_400);
const LONGEST_INTERVAL: Duration = Duration::from_secs(86_400);
const MOST_ATTEMPTS: u32 = 100;
const STEEPEST: f64 = 100.0;

/// Gives every tool its policy: its own, over its server's (`github.*`), over the default one, member by member.
///
/// A policy of a tool that was `left_out` (by its name there, `server.tool`) is one of nothing, and no fault.
///
/// # Errors
/// `invalid-toolset`, naming the policy and its member.
pub(crate) fn resolve(
    toolset: &mut Toolset,
    policies: &BTreeMap<String, RegisterPolicy>,
    left_out: &[ToolsetWarning],
) -> Result<(), Refusal> {
    let refuse = |detail: String| Err(Refusal::new(ProblemCode::InvalidToolset, detail));
    if policies.len() > MOST {
        return refuse(format!("policies: {} of them; the limit is {MOST}", policies.len()));
    }
    for (of, given) in policies {
        let known = match of.split_once('.') {
            Some((export, "*")) => {
                [Toolset::HOST, Toolset::WORKFLOWS].contains(&export) || toolset.mcp_servers.contains_key(export)
            }
            Some((Toolset::WORKFLOWS, name)) => toolset.workflows.contains_key(name),
            Some(_) => of.parse().is_ok_and(|name| toolset.tool(&name).is_some()),
            None => false,
        };
        let known = known || left_out.iter().any(|warning| warning.tool == *of);
        let shown: String = of.chars().take(200).collect();
        if !known {
            return refuse(format!(
                "policies: {shown:?} names no tool of this toolset: write `server.tool`, `host.tool`, `workflows.name`, or `server.*` for a default"
            ));
        }
        let sensible = || if of.starts_with("workflows.") { check_workflow(given) } else { Ok(()) };
        let over = |mut policy: Policy| apply(&mut policy, given).and_then(|()| check(&policy));
        over(Policy::default())
            .and_then(|()| sensible())
            .or_else(|(member, why)| refuse(format!("policies[{shown:?}].{member}: {why}")))?;
    }
    for (export, name, policy) in policies_of(toolset) {
        for of in [format!("{export}.*"), format!("{export}.{name}")] {
            let Some(given) = policies.get(&of) else { continue };
            let applied = apply(policy, given).and_then(|()| check(policy));
            applied.or_else(|(member, why)| {
                refuse(format!("policies[{of:?}].{member}: {why} (together with the defaults of {export})"))
            })?;
        }
    }
    Ok(())
}

/// Export, name and policy of all that scripts may call.
fn policies_of(toolset: &mut Toolset) -> impl Iterator<Item = (&str, &str, &mut Policy)> {
    let servers = toolset.mcp_servers.iter_mut().flat_map(|(export, server)| {
        server.tools.iter_mut().map(move |(name, tool)| (export.as_str(), name.as_str(), &mut tool.policy))
    });
    let host = toolset.host_tools.iter_mut();
    let host = host.map(move |(name, tool)| (Toolset::HOST, name.as_str(), &mut tool.policy));
    let workflows = toolset.workflows.iter_mut();
    let workflows = workflows.map(move |(name, workflow)| (Toolset::WORKFLOWS, name.as_str(), &mut workflow.policy));
    servers.chain(host).chain(workflows)
}

/// A workflow's call is a run, which is started once and has its own calls, with theirs.
fn check_workflow(given: &RegisterPolicy) -> Result<(), Wrong> {
    let RegisterPolicy { delivery, timeout, retry, approval: _, park_limit: _ } = given;
    let RegisterRetry { max_attempts, initial_interval, max_interval, backoff } = retry;
    let retries = max_attempts.is_some() || initial_interval.is_some() || max_interval.is_some() || backoff.is_some();
    let means_nothing = [("delivery", delivery.is_some()), ("timeout", timeout.is_some()), ("retry", retries)];
    match means_nothing.into_iter().find(|(_, is_given)| *is_given) {
        Some((member, _)) => Err((member, "a workflow's run is started exactly once, and takes the time that it takes: only `approval` and `park_limit` go with workflows".into())),
        None => Ok(()),
    }
}

type Wrong = (&'static str, String);

fn apply(policy: &mut Policy, given: &RegisterPolicy) -> Result<(), Wrong> {
    let RegisterPolicy { delivery, timeout, retry, approval, park_limit } = given;
    let RegisterRetry { max_attempts, initial_interval, max_interval, backoff } = retry;
    let set = |duration: &mut Duration, given: &Option<String>, member| match given {
        None => Ok(()),
        Some(text) => match parse_duration(text) {
            Ok(parsed) => {
                *duration = parsed;
                Ok(())
            }
            Err(error) => Err((member, error.to_string())),
        },
    };
    set(&mut policy.timeout, timeout, "timeout")?;
    set(&mut policy.retry.initial_interval, initial_interval, "retry.initial_interval")?;
    set(&mut policy.retry.max_interval, max_interval, "retry.max_interval")?;
    if park_limit.is_some() {
        let mut limit = Duration::ZERO;
        set(&mut limit, park_limit, "park_limit")?;
        policy.park_limit = Some(limit);
    }
    policy.delivery = delivery.unwrap_or(policy.delivery);
    policy.approval = approval.unwrap_or(policy.approval);
    policy.retry.max_attempts = max_attempts.unwrap_or(policy.retry.max_attempts);
    policy.retry.backoff = backoff.unwrap_or(policy.retry.backoff);
    Ok(())
}

fn check(policy: &Policy) -> Result<(), Wrong> {
    let retry = &policy.retry;
    let longest = |member, duration: Duration, least: Duration, most: Duration| {
        let fits = (least..=most).contains(&duration);
        let range = || format!("from {} to {}", format_duration(least), format_duration(most));
        if fits { Ok(()) } else { Err((member, format!("{} is not {}", format_duration(duration), range()))) }
    };
    let instant = Duration::from_millis(1);
    longest("timeout", policy.timeout, instant, LONGEST_TIMEOUT)?;
    if let Some(limit) = policy.park_limit {
        longest("park_limit", limit, instant, LONGEST_PARK)?;
    }
    longest("retry.initial_interval", retry.initial_interval, instant, LONGEST_INTERVAL)?;
    longest("retry.max_interval", retry.max_interval, retry.initial_interval, LONGEST_INTERVAL)?;
    if !(1..=MOST_ATTEMPTS).contains(&retry.max_attempts) {
        return Err(("retry.max_attempts", format!("{} is not from 1 to {MOST_ATTEMPTS}", retry.max_attempts)));
    }
    if !(1.0..=STEEPEST).contains(&retry.backoff) {
        return Err(("retry.backoff", format!("{} is not from 1 to {STEEPEST}", retry.backoff)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rewind_model::{Approval, Delivery, Digest};
    use serde_json::{Value, json};

    use super::*;

    fn toolset() -> Toolset {
        let tool = json!({"input_schema": {}, "policy": Policy::default()});
        let script = Digest::of("a script");
        serde_json::from_value(json!({"v": 1, "host_tools": {"refund": tool}, "workflows": {"pay": {"script": script}},
            "mcp_servers": {"mail": {"url": "http://x/", "tools": {"send": tool, "a.b": tool}}}}))
        .expect("a toolset")
    }

    fn resolved(policies: Value) -> Result<Toolset, String> {
        let mut toolset = toolset();
        let policies = serde_json::from_value(policies).map_err(|error| error.to_string())?;
        resolve(&mut toolset, &policies, &[]).map_err(|refusal| format!("{refusal:?}"))?;
        Ok(toolset)
    }

    #[test]
    fn a_tool_s_own_policy_goes_over_its_server_s_member_by_member() {
        let toolset = resolved(json!({
            "mail.*": {"timeout": "5s", "delivery": "at_most_once"},
            "mail.a.b": {"timeout": "2d", "retry": {"max_attempts": 1}},
            "host.refund": {"approval": "always", "retry": {"initial_interval": "1h", "max_interval": "2h", "backoff": 1}},
        }))
        .expect("policies");
        let policy = |name: &str| toolset.tool(&name.parse().expect("a name")).expect("a tool").1.policy.clone();
        let (send, both, refund) = (policy("mail.send"), policy("mail.a.b"), policy("host.refund"));
        assert_eq!((send.timeout, send.delivery), (Duration::from_secs(5), Delivery::AtMostOnce));
        assert_eq!(send.retry, Policy::default().retry);
        assert_eq!((both.timeout, both.delivery), (Duration::from_secs(2 * 86_400), Delivery::AtMostOnce));
        assert_eq!(both.retry.max_attempts, 1);
        assert_eq!((refund.approval, refund.retry.max_interval), (Approval::Always, Duration::from_secs(7_200)));
        assert_eq!(resolved(json!({})).expect("none"), self::toolset());
        let workflows = resolved(json!({"workflows.*": {"park_limit": "2d"}, "workflows.pay": {"approval": "always"}}));
        let pay = &workflows.expect("policies").workflows["pay"];
        assert_eq!(
            (pay.policy.approval, pay.policy.park_limit),
            (Approval::Always, Some(2 * Duration::from_secs(86_400)))
        );
    }

    #[test]
    fn nonsense_is_refused_with_its_member() {
        for (policies, said) in [
            (json!({"mail.sned": {}}), "mail.sned"),
            (json!({"post.*": {}}), "post.*"),
            (json!({"mail": {}}), "mail"),
            (json!({"mail.send": {"timeout": "0s"}}), "timeout"),
            (json!({"mail.send": {"timeout": "fast"}}), "timeout"),
            (json!({"mail.send": {"retry": {"max_attempts": 0}}}), "max_attempts"),
            (json!({"mail.send": {"retry": {"backoff": 0.5}}}), "backoff"),
            (json!({"mail.send": {"retry": {"initial_interval": "1h"}}}), "max_interval"),
            (json!({"mail.send": {"delivery": "exactly_once"}}), "exactly_once"),
            (json!({"mail.send": {"retries": 3}}), "retries"),
            (json!({"mail.send": {"park_limit": "0s"}}), "park_limit"),
            (json!({"mail.send": {"park_limit": "soon"}}), "park_limit"),
            (json!({"workflows.refund": {}}), "workflows.refund"),
            (json!({"workflows.pay": {"delivery": "at_most_once"}}), "delivery"),
            (json!({"workflows.*": {"timeout": "1s"}}), "timeout"),
            (json!({"workflows.pay": {"retry": {"backoff": 2}}}), "retry"),
        ] {
            let refused = resolved(policies.clone()).expect_err("refused");
            assert!(refused.contains(said), "{policies}: {refused}");
        }
    }
}
