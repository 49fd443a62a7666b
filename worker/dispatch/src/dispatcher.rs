use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::future::join_all;

use rewind_bus::{Bus, BusError, host::HostCall};
use rewind_mcp::{Call, CallResult, Client, Endpoint, McpError, Unwrapped, unwrap};
use rewind_model::{
    ErrorCode, Json, Limits, McpServer, Outcome, Payload, Policy, RunId, ToolFailure, ToolKind, TraceContext, Transport,
};
use rewind_run::ParkReason;
use tracing::Instrument;

use crate::{Attempt, Sent, Tools, current::Current, failure, trace};

/// Connections kept at once, and processes of servers over stdio.
const SERVERS: usize = 256;

/// Sends calls. One for a node: it keeps the connections to MCP servers, and the processes of those over
/// stdio, which all runs share.
#[derive(Debug)]
pub struct Dispatcher {
    bus: Bus,
    limits: Limits,
    allow_stdio: bool,
    schema_age: Duration,
    servers: Mutex<HashMap<Endpoint, Arc<Server>>>,
}

/// An MCP server: the connection, and what its tools are at present.
#[derive(Debug)]
struct Server {
    client: Client,
    current: Current,
}

/// JSON-RPC's "invalid params".
const INVALID_PARAMS: i64 = -32602;

impl Dispatcher {
    /// With `allow_stdio` it starts the commands that toolsets name as MCP servers. What a server's tools are
    /// is asked again when that is known for `schema_age`.
    pub fn new(bus: Bus, limits: Limits, allow_stdio: bool, schema_age: Duration) -> Self {
        Self { bus, limits, allow_stdio, schema_age, servers: Mutex::default() }
    }

    /// Gives the connections up, and ends the processes of servers over stdio, which takes some seconds at
    /// most.
    pub async fn close(&self) {
        let servers = std::mem::take(&mut *self.servers.lock().unwrap_or_else(PoisonError::into_inner));
        join_all(servers.values().map(|server| server.client.close())).await;
    }

    /// Makes one attempt of a call that is in the journal. Dropping the future gives the call up.
    pub async fn send(&self, tools: &Tools, attempt: &Attempt) -> Sent {
        let span = tracing::info_span!("tool.call", tool = %attempt.tool, key = %attempt.key, attempt = attempt.number);
        let trace = trace::join(&span, &attempt.trace, &attempt.trace.of_call(&attempt.key, attempt.number));
        self.route(tools, attempt, &trace).instrument(span).await
    }

    async fn route(&self, tools: &Tools, attempt: &Attempt, trace: &TraceContext) -> Sent {
        let sent = match tools.find(&attempt.tool) {
            None => {
                let message = format!("{} is not a tool of this run's toolset", attempt.tool);
                Ok(answered_error(ErrorCode::InvalidArguments, message))
            }
            Some((ToolKind::Host, tool)) => self.queue(attempt, &tool.policy, trace).await,
            Some((ToolKind::Mcp(server), tool)) => self.call(tools, server, attempt, &tool.policy, trace).await,
        };
        // Not the tool's fault: the blob store or the queue could not be reached, or will never do.
        sent.unwrap_or_else(|error| {
            let failure = ToolFailure::new(ErrorCode::Unavailable, format!("{} was not called: {error}", attempt.tool));
            if error.retryable() {
                Sent::Interrupted { failure, sent: false }
            } else {
                Sent::Answered(Outcome::Err(failure))
            }
        })
    }

    async fn queue(&self, attempt: &Attempt, policy: &Policy, trace: &TraceContext) -> Result<Sent, BusError> {
        let call = HostCall {
            tool: attempt.tool.name.clone(),
            key: attempt.key.clone(),
            attempt: attempt.number,
            arguments: attempt.arguments.clone(),
            timeout: policy.timeout,
            namespace: attempt.namespace.clone(),
            at_most_once: attempt.at_most_once,
            trace: trace.clone(),
        };
        // While NATS is away nothing can be said of the tool: no attempt of it is spent.
        self.bus.retry("queue a host call", || self.bus.queue_host_call(&call)).await.map(|_| Sent::Queued)
    }

    async fn call(
        &self,
        tools: &Tools,
        server: &McpServer,
        attempt: &Attempt,
        policy: &Policy,
        trace: &TraceContext,
    ) -> Result<Sent, BusError> {
        if !self.allow_stdio && matches!(server.transport(), Transport::Stdio { .. }) {
            let message = format!(
                "{} was not called: its MCP server is a command that the node would have to start (stdio), and this \
                 node may not; its operator allows it with `rewind-node --allow-stdio`",
                attempt.tool
            );
            return Ok(answered_error(ErrorCode::Refused, message));
        }
        let arguments = self.bus.payload_json_surely(&attempt.arguments).await?;
        let key = attempt.key.to_string();
        let call = Call {
            trace: Some(trace),
            timeout: policy.timeout,
            max_result_bytes: self.limits.result_bytes,
            ..Call::new(&attempt.tool.name, &arguments, &key)
        };
        let server = match self.server(server) {
            Ok(server) => server,
            Err(error) => return Ok(failure::of_mcp(&error)),
        };
        let mismatch = async || {
            if attempt.approved {
                return None;
            }
            server.current.mismatch(&server.client, tools, &attempt.tool, &arguments).await
        };
        if let Some(how) = mismatch().await {
            return Ok(Sent::Parked(ParkReason::SchemaChanged, how));
        }
        match server.client.call(call).await {
            Ok(result) => self.outcome(tools, attempt, result).await.map(Sent::Answered),
            // It has not done it, and may know why: its tool is another one since it was listed.
            Err(error @ McpError::Protocol { code: INVALID_PARAMS, .. }) => {
                server.current.forget().await;
                let changed = |how| Sent::Parked(ParkReason::SchemaChanged, how);
                Ok(mismatch().await.map_or_else(|| failure::of_mcp(&error), changed))
            }
            Err(error) => Ok(failure::of_mcp(&error)),
        }
    }

    async fn outcome(&self, tools: &Tools, attempt: &Attempt, result: CallResult) -> Result<Outcome, BusError> {
        let value = match unwrap(&result) {
            Unwrapped::Failed(message) => return Ok(Outcome::Err(ToolFailure::new(ErrorCode::ToolFailed, message))),
            Unwrapped::Value(value) => value,
        };
        // Who let it go has said that it goes on with what the tool is by now.
        if let Some(failure) = tools.result_refusal(&attempt.tool, &value).filter(|_| !attempt.approved) {
            return Ok(Outcome::Err(failure));
        }
        let value = if attempt.raw { result.into_raw() } else { value };
        let (depth, deepest) = (value.depth(), self.limits.result_depth);
        if depth > deepest {
            let message =
                format!("the result of {} is nested {depth} levels deep; the limit is {deepest}", attempt.tool);
            return Ok(Outcome::Err(ToolFailure::new(ErrorCode::TooLarge, message)));
        }
        self.payload(&attempt.key.run, value).await.map(Outcome::Ok)
    }

    async fn payload(&self, run: &RunId, value: Json) -> Result<Payload, BusError> {
        let mut payload = Payload::Inline(value);
        if payload.inline_size() > self.limits.inline_bytes {
            // The tool has answered: it is not to be asked again because the store is away.
            self.bus.payload_to_blob_surely(run, &mut payload).await?;
        }
        Ok(payload)
    }

    fn server(&self, server: &McpServer) -> Result<Arc<Server>, McpError> {
        let endpoint = Endpoint::from(server.transport());
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(&endpoint) {
            return Ok(Arc::clone(server));
        }
        // Calls that use it keep it alive.
        if servers.len() >= SERVERS
            && let Some(any) = servers.keys().next().cloned()
        {
            servers.remove(&any);
        }
        let server = Arc::new(Server { client: Client::new(&endpoint)?, current: Current::new(self.schema_age) });
        servers.insert(endpoint, Arc::clone(&server));
        Ok(server)
    }
}

fn answered_error(code: ErrorCode, message: String) -> Sent {
    Sent::Answered(Outcome::Err(ToolFailure::new(code, message)))
}
