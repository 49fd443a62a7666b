//! What the operator sets.

use std::time::Duration;

use anyhow::{Context, ensure};
use rewind_secrets::Secret;

use super::{endpoint::Endpoint, schedule::Schedule, signature::SigningKeys};

/// About a day.
pub(crate) const DEFAULT_RETRY: &str = "5s,30s,2m,10m,30m,1h,2h,4h,8h,8h";
/// Endpoints of an installation: each has a consumer on the stream of events.
const MOST_ENDPOINTS: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    /// An http(s) URL that all events are sent to; may be given several times. In the environment: several with blanks
    /// or commas between. Runs may name another one for themselves.
    #[arg(long = "webhook-url", value_name = "URL", env = "REWIND_WEBHOOK_URLS", hide_env_values = true)]
    webhook_urls: Vec<Secret<String>>,
    /// What webhooks are signed with (Standard Webhooks): `whsec_` and 24 to 64 bytes in base64; while it changes,
    /// several with blanks between. Better given by environment: others on the machine can read a command line.
    #[arg(long, value_name = "SECRET", env = "REWIND_WEBHOOK_SECRET", hide_env_values = true)]
    webhook_secret: Option<Secret<String>>,
    /// The waits between the attempts at an event that its endpoint did not take; after the last it is a dead letter.
    #[arg(long, value_name = "DURATIONS", env = "REWIND_WEBHOOK_RETRY", default_value = DEFAULT_RETRY)]
    webhook_retry: Schedule,
}

const LAST_ATTEMPT: Duration = Duration::from_secs(60);

/// Webhooks as this installation has them.
#[derive(Debug)]
pub(crate) struct Webhooks {
    /// None: nothing is sent, and no run may want it.
    pub(crate) keys: Option<SigningKeys>,
    /// The installation's.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) schedule: Schedule,
}

impl Webhooks {
    /// How long an event of a run may be on its way; `None` when nobody is told of it.
    pub(crate) fn may_take(&self, run_names_one: bool) -> Option<Duration> {
        // The last attempt, and what it takes to publish an event, come on top.
        let told = run_names_one || !self.endpoints.is_empty();
        told.then(|| self.schedule.whole() + LAST_ATTEMPT)
    }
}

impl WebhookArgs {
    /// # Errors
    /// When a URL or the secret is none, there are too many of them, or a URL is given without a secret.
    pub(crate) fn settings(self) -> anyhow::Result<Webhooks> {
        let secret = self.webhook_secret.filter(|secret| !secret.expose().trim().is_empty());
        let keys = secret.as_ref().map(SigningKeys::parse).transpose().context("REWIND_WEBHOOK_SECRET")?;
        let mut endpoints: Vec<Endpoint> = Vec::new();
        let urls = self.webhook_urls.iter().flat_map(|urls| urls.expose().split([' ', '\t', '\n', ',']));
        for url in urls.filter(|url| !url.is_empty()) {
            let endpoint = Endpoint::parse(url).map_err(anyhow::Error::msg).context("--webhook-url")?;
            if !endpoints.contains(&endpoint) {
                endpoints.push(endpoint);
            }
        }
        ensure!(endpoints.len() <= MOST_ENDPOINTS, "--webhook-url: at most {MOST_ENDPOINTS} of them");
        ensure!(
            keys.is_some() || endpoints.is_empty(),
            "--webhook-url needs REWIND_WEBHOOK_SECRET: `whsec_` and 24 to 64 random bytes in base64 \
             (echo whsec_$(openssl rand -base64 32))"
        );
        Ok(Webhooks { keys, endpoints, schedule: self.webhook_retry })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    fn settings(args: &[&str]) -> anyhow::Result<Webhooks> {
        Args::try_parse_from([&["x"], args].concat())?.webhooks.settings()
    }

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn endpoints_come_one_by_one_or_together() {
        let urls = ["--webhook-url", "http://a/ http://b/,http://a/", "--webhook-url", "https://c/t0ken"];
        let set = settings(&[&urls[..], &["--webhook-secret", SECRET]].concat()).expect("valid");
        let shown = format!("{set:?}");
        assert!(shown.contains("[http://a, http://b, https://c]"), "{shown}");
        assert!(!shown.contains("t0ken") && !shown.contains("MfKQ"), "{shown}");
    }

    #[test]
    fn what_cannot_work_is_refused_at_the_start() {
        assert!(settings(&[]).expect("nothing is fine").keys.is_none());
        let unsigned = settings(&["--webhook-url", "http://a/"]).expect_err("unsigned").to_string();
        assert!(unsigned.contains("REWIND_WEBHOOK_SECRET"), "{unsigned}");
        let wrong = settings(&["--webhook-secret", "whsec_s3cret"]).expect_err("no key");
        assert!(!format!("{wrong:#}").contains("s3cret"), "{wrong:#}");
        assert!(settings(&["--webhook-url", "a", "--webhook-secret", SECRET]).is_err());
        assert!(settings(&["--webhook-retry", "soon"]).is_err());
    }
}
