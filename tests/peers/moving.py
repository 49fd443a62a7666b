"""An MCP server whose tool changes while it runs, and that says so: the official SDK, the protocol without sessions.

    python moving.py --port 0

`effect` takes a `title` until `move` has been called, and a `subject` from then on. Prints one JSON line,
{"url": ...}, once it listens.
"""

import argparse
import json
import socket

import uvicorn
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("moving")


def effect(title: str) -> dict[str, str]:
    """Does it."""
    return {"done": title}


def effect_of_subject(subject: str) -> dict[str, str]:
    """Does it."""
    return {"done": subject}


@server.tool()
async def move(ctx: Context) -> dict[str, bool]:
    """Renames the argument of `effect`, and tells who listens."""
    server.remove_tool("effect")
    server.add_tool(effect_of_subject, name="effect")
    await ctx.notify_tools_changed()
    return {"moved": True}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    options = arguments.parse_args()
    server.add_tool(effect, name="effect")
    listener = socket.create_server(("127.0.0.1", options.port), backlog=1024)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}), flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
