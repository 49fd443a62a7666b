//! Connections: how many, how long one may take to say what it wants, and how they end.

use std::{io, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::sync::CancellationToken;

/// From a connection's first byte to the end of a request's headers; and the time that a connection
/// may be kept without a request.
pub(crate) const HEADERS: Duration = Duration::from_secs(60);
/// Connections at a time; more wait in the listener's queue.
const CONNECTIONS: usize = 10_000;
/// Until the next try when there is no file descriptor left for a connection.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Serves `router` until `stopping`, and then until the requests under way are answered. A connection
/// that does not send a request's headers within `headers` is closed.
pub(crate) async fn serve(listener: TcpListener, router: Router, headers: Duration, stopping: &CancellationToken) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = GracefulShutdown::new();
    let accept = async {
        // The semaphore is never closed.
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            let stream = accept(&listener).await;
            let connection = connection(stream, router.clone(), headers, connections.watcher());
            tokio::spawn(async move {
                connection.await;
                drop(place);
            });
        }
    };
    stopping.run_until_cancelled(accept).await;
    drop(listener);
    connections.shutdown().await;
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Gone before it was accepted.
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::error!(%error, "no connection could be accepted");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
}

fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

async fn connection(stream: TcpStream, router: Router, headers: Duration, watcher: Watcher) {
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(headers)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(%error, "a connection broke off");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        sync::Notify,
    };

    use super::*;

    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n";

    async fn read_to_end(mut stream: TcpStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("the end");
        answer
    }

    #[tokio::test]
    async fn who_never_finishes_a_request_is_cut_off_and_who_has_asked_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (asked, answer) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let handler = {
            let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
            async move || {
                asked.notify_one();
                answer.notified().await;
                "answered"
            }
        };
        let stopping = CancellationToken::new();
        let server = tokio::spawn({
            let (router, stopping) = (Router::new().route("/", get(handler)), stopping.clone());
            async move { serve(listener, router, Duration::from_millis(200), &stopping).await }
        });
        let mut half = TcpStream::connect(address).await.expect("connected");
        half.write_all(REQUEST.as_bytes()).await.expect("sent");
        let mut whole = TcpStream::connect(address).await.expect("connected");
        whole.write_all(format!("{REQUEST}Connection: close\r\n\r\n").as_bytes()).await.expect("sent");
        asked.notified().await;
        let cut = read_to_end(half).await;
        assert!(cut.is_empty() || cut.starts_with("HTTP/1.1 408"), "{cut}");
        // The request that was there in time may take as long as it likes, and the stop waits for it.
        stopping.cancel();
        answer.notify_one();
        assert!(read_to_end(whole).await.ends_with("answered"));
        server.await.expect("an orderly end");
        assert!(TcpStream::connect(address).await.is_err());
    }
}
