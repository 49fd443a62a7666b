use std::{fmt, str::FromStr, time::Duration};

use async_nats::{ConnectOptions, jetstream};

use crate::{BusError, error::unavailable, streams};

/// A connection to NATS. Cheap to clone.
#[derive(Clone)]
pub struct Bus {
    pub(crate) jetstream: jetstream::Context,
}

/// The address of a NATS server, `nats://user:password@host:port`; several, with commas between,
/// for a cluster. Shows no password.
#[derive(Clone)]
pub struct Url(Vec<async_nats::ServerAddr>);

impl FromStr for Url {
    type Err = BusError;
    fn from_str(text: &str) -> Result<Self, BusError> {
        // The parser's message would repeat the text, and with it the password.
        let servers = text.split(',').map(|part| part.trim().parse());
        let servers: Result<Vec<_>, _> = servers.collect();
        servers.map(Self).map_err(|_| BusError::Url("write nats://user:password@host:port".into()))
    }
}
impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, server) in self.0.iter().enumerate() {
            write!(f, "{}{}:{}", if n == 0 { "" } else { "," }, server.host(), server.port())?;
        }
        Ok(())
    }
}
impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bus")
    }
}

impl Bus {
    /// Connects, waiting for the server as long as it takes (a node may start before NATS does), and
    /// creates what is missing of the streams and buckets. `name` is what `nats server report
    /// connections` shows.
    ///
    /// # Errors
    /// When the server refuses the credentials, or has a stream of ours with another configuration.
    pub async fn connect(url: &Url, name: &str) -> Result<Self, BusError> {
        let bus = Self::connect_only(url, name).await?;
        bus.retry("create streams", || streams::ensure(&bus)).await?;
        Ok(bus)
    }

    /// As [`Bus::connect`], but creates nothing: for workers, which may have fewer rights.
    ///
    /// # Errors
    /// When the server refuses the credentials.
    pub async fn connect_only(url: &Url, name: &str) -> Result<Self, BusError> {
        let mut options = ConnectOptions::new()
            .name(name)
            .max_reconnects(None)
            .reconnect_delay_callback(|attempts| Duration::from_millis(50 * attempts.min(20) as u64))
            .client_capacity(8192)
            .subscription_capacity(8192);
        if let Some(server) = url.0.iter().find(|server| server.has_user_pass()) {
            let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
            options = options.user_and_password(text(server.username()), text(server.password()));
        }
        let client = loop {
            match options.clone().connect(url.0.clone()).await {
                Ok(client) => break client,
                Err(error) if refused(&error) => {
                    return Err(BusError::Refused { what: "connect", why: format!("{url}: {error}") });
                }
                Err(error) => {
                    tracing::info!(%url, %error, "waiting for NATS");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        };
        let jetstream = jetstream::ContextBuilder::new()
            .timeout(Duration::from_secs(5))
            .max_ack_inflight(20_000)
            .backpressure_on_inflight(true)
            .build(client);
        Ok(Self { jetstream })
    }

    /// Is the connection up, and does JetStream answer?
    ///
    /// # Errors
    /// [`BusError::Unavailable`] when not, within a second.
    pub async fn ping(&self) -> Result<(), BusError> {
        let query = tokio::time::timeout(Duration::from_secs(1), self.jetstream.query_account());
        match query.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(unavailable("ping")(error)),
            Err(elapsed) => Err(unavailable("ping")(elapsed)),
        }
    }

    /// Is the connection up at this moment? While it is not, what is published is kept and sent later,
    /// which is wrong for a request whose sender has been told that it failed.
    pub fn connected(&self) -> bool {
        self.jetstream.client().connection_state() == async_nats::connection::State::Connected
    }

    /// How often the connection has been made so far. When this has grown, what was subscribed before
    /// may take many seconds to find out that it has to begin anew.
    pub fn connects(&self) -> u64 {
        self.jetstream.client().statistics().connects.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Sends what is buffered. For orderly ends of a process.
    pub async fn flush(&self) {
        if let Err(error) = self.jetstream.client().flush().await {
            tracing::warn!(%error, "the last messages to NATS may not have been sent");
        }
    }

    /// Tries `action` until it succeeds or fails for good, waiting longer each time, up to a second.
    ///
    /// # Errors
    /// What `action` failed with for good.
    pub async fn retry<T, F, Fut>(&self, what: &'static str, action: F) -> Result<T, BusError>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, BusError>>,
    {
        let mut wait = Duration::from_millis(20);
        loop {
            match action().await {
                Err(error) if error.retryable() => {
                    tracing::debug!(what, %error, "trying again");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(Duration::from_secs(1));
                }
                done => return done,
            }
        }
    }
}

fn refused(error: &async_nats::ConnectError) -> bool {
    use async_nats::ConnectErrorKind as Kind;
    matches!(error.kind(), Kind::Authentication | Kind::AuthorizationViolation | Kind::ServerParse | Kind::Tls)
}
