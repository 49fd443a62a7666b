//! Makes a toolset out of what a harness asks for and what its servers list.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use rewind_bus::catalog::Registration;
use rewind_mcp::{Client, Endpoint, ListLimits, Listing};
use rewind_model::{
    ListedTool, McpServer, ProblemCode, RegisterHostTool, RegisterMcpServer, RegisterToolset, Toolset, ToolsetId,
};
use rewind_schema::{Quarantine, is_export_name, pin_tools};

use crate::{app::App, policies, refusal::Refusal, select::select, workflows};

/// Servers of one toolset, and how many of them are asked at once.
const MOST_SERVERS: usize = 64;
const AT_ONCE: usize = 16;
/// Bytes of a server's name.
const LONGEST_NAME: usize = 128;
/// Bytes of the whole document.
const LARGEST_TOOLSET: usize = 32 << 20;

/// What [`is_export_name`] refuses besides reserved words, for the message.
const TAKEN: [&str; 6] = ["Error", "host", "http", "sleep", "workflows", "ToolError"];

/// A toolset that can be stored.
#[derive(Debug)]
pub(crate) struct PinnedDocument {
    pub(crate) toolset: Toolset,
    pub(crate) registration: Registration,
}

/// Pins a toolset: asks every server for its tools, or takes over those of the base, and checks the
/// workflows against what they will have.
///
/// # Errors
/// `invalid-toolset` when the request names something that cannot be; a server's problem, with its
/// name, when one does not answer as it should; `unknown-toolset`; `script-rejected`. No toolset is stored
/// either way.
pub(crate) async fn pin(app: &App, mut request: RegisterToolset) -> Result<PinnedDocument, Refusal> {
    check_names(&request, app.allow_stdio)?;
    let workflows = std::mem::take(&mut request.workflows);
    let mut document = match request.base.take() {
        Some(base) => derive(app, base).await?,
        None => {
            let servers = futures::stream::iter(std::mem::take(&mut request.mcp_servers));
            let listed = servers.map(list).buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?;
            of_lists(listed, std::mem::take(&mut request.host_tools))
        }
    };
    document.toolset.workflows = workflows::pin(&workflows)?;
    policies::resolve(&mut document.toolset, &request.policies, &document.registration.warnings)?;
    workflows::store(app, &mut document, workflows).await?;
    document.registration.tools = counts(&document.toolset);
    check_size(&document.toolset)?;
    Ok(document)
}

fn invalid<T>(detail: String) -> Result<T, Refusal> {
    Err(Refusal::new(ProblemCode::InvalidToolset, detail))
}

fn check_names(request: &RegisterToolset, allow_stdio: bool) -> Result<(), Refusal> {
    if request.base.is_some() {
        let mut policies = request.policies.keys().map(|of| of.split('.').next());
        let own = policies.all(|export| export == Some(Toolset::WORKFLOWS));
        return if own && request.mcp_servers.is_empty() && request.host_tools.is_empty() {
            Ok(())
        } else {
            invalid(
                "base: tools and their policies are the base's; leave `mcp_servers`, `host_tools` and all `policies` but those of workflows out"
                    .into(),
            )
        };
    }
    if request.mcp_servers.is_empty() && request.host_tools.is_empty() && request.workflows.is_empty() {
        let needs = "a toolset needs `mcp_servers`, `host_tools` or `workflows`: a script without tools can do nothing";
        return invalid(needs.into());
    }
    if request.mcp_servers.len() > MOST_SERVERS {
        return invalid(format!("mcp_servers: {} servers; the limit is {MOST_SERVERS}", request.mcp_servers.len()));
    }
    for (name, server) in &request.mcp_servers {
        if name.len() > LONGEST_NAME || !is_export_name(name) {
            let shown: String = name.chars().take(LONGEST_NAME).collect();
            return invalid(format!(
                "mcp_servers: {shown:?} cannot be an export of \"rewind:tools\": use an ASCII identifier that is no \
                 reserved word of JavaScript and none of {}",
                TAKEN.join(", ")
            ));
        }
        check_transport(server, allow_stdio).or_else(|reason| invalid(format!("mcp_servers.{name}: {reason}")))?;
    }
    Ok(())
}

fn check_transport(server: &RegisterMcpServer, allow_stdio: bool) -> Result<(), &'static str> {
    let stdio = server.command.is_some();
    match &server.url {
        None if !stdio && allow_stdio => {
            Err("give the `url` of a streamable-HTTP server, or the `command` of a server over stdio")
        }
        None if !stdio => Err("give the `url` of a streamable-HTTP server"),
        Some(_) if stdio => Err("give `url` or `command`, not both"),
        Some(_) if !server.args.is_empty() || !server.env.is_empty() => Err("`args` and `env` go with `command`"),
        None if !server.headers.is_empty() => Err("`headers` go with `url`"),
        None if !allow_stdio => Err("servers over stdio are not allowed here: the operator has to start the \
             coordinator and its nodes with `--allow-stdio` (`rewind dev --allow-stdio` does both); or give the \
             `url` of a streamable-HTTP server"),
        _ => Ok(()),
    }
}

/// The tools of a registered toolset, as they are.
async fn derive(app: &App, base: ToolsetId) -> Result<PinnedDocument, Refusal> {
    let pinned = app.registry.get(&app.store, &base).await?;
    let warnings = app.store.ask(|bus| bus.registration(&base)).await?.unwrap_or_default().warnings;
    let toolset = Toolset { workflows: BTreeMap::new(), ..pinned.toolset.clone() };
    Ok(PinnedDocument { toolset, registration: Registration { base: Some(base), warnings, ..Registration::default() } })
}

/// A server, by its name, and what it listed.
type Listed = (String, RegisterMcpServer, Listing);

async fn list((name, server): (String, RegisterMcpServer)) -> Result<Listed, Refusal> {
    let listed = async {
        let client = Client::new(&endpoint(&server))?;
        let listed = client.list_tools(ListLimits::default()).await;
        // The nodes start a server over stdio anew, for the calls; this one was for the list.
        client.close().await;
        listed
    };
    match listed.await {
        Ok(listing) => Ok((name, server, listing)),
        Err(error) => Err(Refusal::server(&name, &error)),
    }
}

fn endpoint(server: &RegisterMcpServer) -> Endpoint {
    let RegisterMcpServer { url, headers, command, args, env, .. } = server.clone();
    match command {
        Some(command) => Endpoint::Stdio { command, args, env },
        None => Endpoint::Http { url: url.unwrap_or_default(), headers },
    }
}

fn of_lists(servers: Vec<Listed>, host_tools: BTreeMap<String, RegisterHostTool>) -> PinnedDocument {
    let mut quarantine = Quarantine::default();
    let mut mcp_servers = BTreeMap::new();
    for (name, server, listing) in servers {
        let pinned = pin_server(&name, server, listing, &mut quarantine);
        mcp_servers.insert(name, pinned);
    }
    let host_tools = host_tools.into_iter().map(listed).collect();
    let host_tools = pin_tools(Toolset::HOST, host_tools, &mut quarantine);
    let toolset = Toolset { v: 1, mcp_servers, host_tools, ..Toolset::default() };
    let registration = Registration { warnings: quarantine.into_warnings(), ..Registration::default() };
    PinnedDocument { toolset, registration }
}

fn check_size(toolset: &Toolset) -> Result<(), Refusal> {
    match toolset.canonical() {
        Err(error) => invalid(error.to_string()),
        Ok(bytes) if bytes.len() > LARGEST_TOOLSET => {
            invalid(format!("the pinned toolset has {} bytes; the limit is {LARGEST_TOOLSET}", bytes.len()))
        }
        Ok(_) => Ok(()),
    }
}

fn listed((name, tool): (String, RegisterHostTool)) -> ListedTool {
    ListedTool {
        name,
        title: None,
        description: Some(tool.description),
        input_schema: tool.input_schema,
        output_schema: tool.output_schema,
        annotations: None,
    }
}

fn counts(toolset: &Toolset) -> BTreeMap<String, usize> {
    let mut counts: BTreeMap<String, usize> =
        toolset.mcp_servers.iter().map(|(name, server)| (name.clone(), server.tools.len())).collect();
    for (export, tools) in [(Toolset::HOST, toolset.host_tools.len()), (Toolset::WORKFLOWS, toolset.workflows.len())] {
        if tools > 0 {
            counts.insert(export.to_owned(), tools);
        }
    }
    counts
}

fn pin_server(name: &str, server: RegisterMcpServer, listing: Listing, quarantine: &mut Quarantine) -> McpServer {
    let selected = select(name, &server, listing.tools, listing.malformed, quarantine);
    McpServer {
        tools: pin_tools(name, selected, quarantine),
        instructions: quarantine.instructions(name, listing.instructions),
        url: server.url,
        headers: server.headers,
        command: server.command,
        args: server.args,
        env: server.env,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(name: &str, server: RegisterMcpServer, allow_stdio: bool) -> Result<(), Refusal> {
        let mcp_servers = BTreeMap::from([(name.to_owned(), server)]);
        check_names(&RegisterToolset { mcp_servers, ..RegisterToolset::default() }, allow_stdio)
    }

    #[test]
    fn a_server_cannot_be_named_like_something_else() {
        let named = |name: &str| {
            let server = RegisterMcpServer { url: Some("http://x/".into()), ..RegisterMcpServer::default() };
            registers(name, server, false)
        };
        assert!(named("github").is_ok() && named("_$1").is_ok());
        for bad in [
            "host",
            "http",
            "sleep",
            "workflows",
            "ToolError",
            "await",
            "class",
            "a-b",
            "1a",
            "",
            "é",
            &"a".repeat(200),
        ] {
            assert!(named(bad).is_err(), "{bad}");
        }
        assert!(check_names(&RegisterToolset::default(), false).is_err());
    }

    #[test]
    fn a_server_has_a_url_or_where_that_is_allowed_a_command() {
        let refusal = |server: serde_json::Value, allow_stdio: bool| {
            let server = serde_json::from_value(server).expect("a server");
            registers("shop", server, allow_stdio).err().map(|refusal| format!("{refusal:?}"))
        };
        let command = serde_json::json!({"command": "shop", "args": ["serve"], "env": {"A": "b"}});
        assert_eq!(refusal(command.clone(), true), None);
        let refused = refusal(command, false).expect("refused");
        assert!(refused.contains("mcp_servers.shop") && refused.contains("--allow-stdio"), "{refused}");
        for bad in [
            serde_json::json!({}),
            serde_json::json!({"url": "http://x/", "command": "shop"}),
            serde_json::json!({"url": "http://x/", "args": ["serve"]}),
            serde_json::json!({"url": "http://x/", "env": {"A": "b"}}),
            serde_json::json!({"command": "shop", "headers": {"a": "b"}}),
        ] {
            assert!(refusal(bad.clone(), true).is_some() && refusal(bad.clone(), false).is_some(), "{bad}");
        }
    }
}
