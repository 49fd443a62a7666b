use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures::future::join_all;

use rewind_bus::{Bus, BusError, host::HostCall};
use rewind_mcp::{Call, CallResult, Client, Endpoint, McpError, Unwrapped, unwrap};
use rewind_model::{
    ErrorCode, Json, Limits, McpServer, Outcome, Payload, Policy, ToolFailure, ToolKind, TraceContext, Transport,
};
use tracing::Instrument;

use crate::{Attempt, Sent, Tools, failure, trace};

/// Connections kept at once, and processes of servers over stdio.
const CLIENTS: usize = 256;

/// Sends calls. One for a node: it keeps the connections to MCP servers, and the processes of those over
/// stdio, which all runs share.
#[derive(Debug)]
pub struct Dispatcher {
    bus: Bus,
    limits: Limits,
    allow_stdio: bool,
    clients: Mutex<HashMap<Endpoint, Client>>,
}

impl Dispatcher {
    /// With `allow_stdio` it starts the commands that toolsets name as MCP servers.
    pub fn new(bus: Bus, limits: Limits, allow_stdio: bool) -> Self {
        Self { bus, limits, allow_stdio, clients: Mutex::default() }
    }

    /// Gives the connections up, and ends the processes of servers over stdio, which takes some seconds at
    /// most.
    pub async fn close(&self) {
        let clients = std::mem::take(&mut *self.clients.lock().unwrap_or_else(PoisonError::into_inner));
        join_all(clients.values().map(Client::close)).await;
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
        let result = match self.client(server) {
            Ok(client) => client.call(call).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(result) => self.outcome(tools, attempt, result).await.map(Sent::Answered),
            Err(error) => Ok(failure::of_mcp(&error)),
        }
    }

    async fn outcome(&self, tools: &Tools, attempt: &Attempt, result: CallResult) -> Result<Outcome, BusError> {
        let value = match unwrap(&result) {
            Unwrapped::Failed(message) => return Ok(Outcome::Err(ToolFailure::new(ErrorCode::ToolFailed, message))),
            Unwrapped::Value(value) => value,
        };
        if let Some(failure) = tools.result_refusal(&attempt.tool, &value) {
            return Ok(Outcome::Err(failure));
        }
        let value = if attempt.raw { result.into_raw() } else { value };
        let (depth, deepest) = (value.depth(), self.limits.result_depth);
        if depth > deepest {
            let message =
                format!("the result of {} is nested {depth} levels deep; the limit is {deepest}", attempt.tool);
            return Ok(Outcome::Err(ToolFailure::new(ErrorCode::TooLarge, message)));
        }
        self.payload(value).await.map(Outcome::Ok)
    }

    async fn payload(&self, value: Json) -> Result<Payload, BusError> {
        let mut payload = Payload::Inline(value);
        if payload.inline_size() > self.limits.inline_bytes {
            // The tool has answered: it is not to be asked again because the store is away.
            self.bus.payload_to_blob_surely(&mut payload).await?;
        }
        Ok(payload)
    }

    fn client(&self, server: &McpServer) -> Result<Client, McpError> {
        let endpoint = Endpoint::from(server.transport());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&endpoint) {
            return Ok(client.clone());
        }
        // Calls that use it keep it alive.
        if clients.len() >= CLIENTS
            && let Some(any) = clients.keys().next().cloned()
        {
            clients.remove(&any);
        }
        let client = Client::new(&endpoint)?;
        clients.insert(endpoint, client.clone());
        Ok(client)
    }
}

fn answered_error(code: ErrorCode, message: String) -> Sent {
    Sent::Answered(Outcome::Err(ToolFailure::new(code, message)))
}
