//! Calls a second and CPU a call, against a server that does nothing.
//!
//! `cargo bench -p rewind-mcp`. The server is this program again, in a process of its own, so that its
//! CPU is not counted.
#![allow(clippy::print_stdout, reason = "it reports to a person")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use futures::future::join_all;
use rewind_mcp::{Call, Client, Endpoint};
use rewind_model::Json;

/// Which server this process is to be.
const SERVER: &str = "REWIND_BENCH_SERVER";

/// Answers on a kept-alive connection until it is closed.
fn serve(stream: TcpStream, stateless: bool) {
    stream.set_nodelay(true).expect("set");
    let mut reader = BufReader::with_capacity(1 << 16, stream.try_clone().expect("cloned"));
    let mut writer = stream;
    while let Some(body) = read_request(&mut reader) {
        let message: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        let result = match message["method"].as_str().expect("a method") {
            "server/discover" if stateless => {
                r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"ttlMs":0,"cacheScope":"private","capabilities":{"tools":{}}}"#
            }
            "server/discover" => "",
            "initialize" => {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}"#
            }
            "tools/call" => r#"{"content":[],"structuredContent":{"orders":[{"id":"o-1","total_cents":12900}]}}"#,
            _ => {
                writer.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n").expect("sent");
                continue;
            }
        };
        let id = &message["id"];
        let body = if result.is_empty() {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: s\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        if writer.write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

fn listen(stateless: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    println!("{}", listener.local_addr().expect("bound").port());
    for stream in listener.incoming() {
        let stream = stream.expect("accepted");
        std::thread::spawn(move || serve(stream, stateless));
    }
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().expect("a name").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    Duration::from_millis(ticks * 10)
}

/// Ends with the measurement, also with one that fails.
struct Server(std::process::Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    match std::env::var(SERVER).as_deref() {
        Ok("stateless") => listen(true),
        Ok(_) => listen(false),
        Err(_) => measure(),
    }
}

#[tokio::main(worker_threads = 2)]
async fn measure() {
    for era in ["stateless", "session"] {
        let server = std::process::Command::new(std::env::current_exe().expect("known"))
            .env(SERVER, era)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("started");
        let mut server = Server(server);
        let mut port = String::new();
        BufReader::new(server.0.stdout.take().expect("piped")).read_line(&mut port).expect("readable");
        let started = Instant::now();
        let endpoint = Endpoint::http(format!("http://127.0.0.1:{}/mcp", port.trim()));
        let client = Client::new(&endpoint).expect("valid");
        println!("{era}: Client::new {:?}", started.elapsed());
        let arguments = Json::parse(r#"{"status":"open","limit":100}"#).expect("JSON");
        client.call(Call::new("t", &arguments, "run_1/1")).await.expect("called");
        for parallel in [1, 16, 100] {
            let (started, before, calls) = (Instant::now(), cpu(), 20_000);
            let callers = (0..parallel).map(|_| {
                let (client, arguments) = (client.clone(), arguments.clone());
                tokio::spawn(async move {
                    for _ in 0..calls / parallel {
                        client.call(Call::new("t", &arguments, "run_1/1")).await.expect("called");
                    }
                })
            });
            join_all(callers).await;
            let (elapsed, used) = (started.elapsed(), cpu() - before);
            println!(
                "{era}, {parallel:>3} at once: {:>6.0} calls/s, {:>4.0} µs CPU a call",
                f64::from(calls) / elapsed.as_secs_f64(),
                used.as_secs_f64() * 1e6 / f64::from(calls)
            );
        }
    }
}
