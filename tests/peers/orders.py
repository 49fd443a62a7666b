"""An order desk as an MCP server: the example for authors of servers that Rewind calls.

    python orders.py --port 8001 --effects effects.jsonl

It speaks MCP over streamable HTTP (2026-07-28, and the protocols before it), and prints one JSON line,
{"url": ...}, once it listens; with --stdio it speaks it over its stdin and stdout instead. Two things are worth copying:

* `list_orders` declares what it returns, so that a script sees types instead of `any`.
* `send_email` recognises a repeated call. A caller that lost the answer cannot know whether the tool
  ran; it calls again with the same idempotency key, and the tool answers without doing it twice.
"""

import argparse
import hashlib
import json
import socket
import time
from pathlib import Path
from typing import Annotated, Literal

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field
from typing_extensions import TypedDict

KEY = "codes.rewind/idempotency-key"

server = MCPServer("orders", instructions="Orders of a small shop, and e-mail to its customers. Amounts are in cents.")


class Order(TypedDict):
    id: str
    customer: str
    email: str
    total_cents: int
    status: Literal["open", "shipped"]


class Orders(TypedDict):
    orders: list[Order]


class Sent(TypedDict):
    message_id: str
    delivered: bool


ORDERS: list[Order] = [
    {"id": "o-1001", "customer": "Ada Lovelace", "email": "ada@example.com", "total_cents": 12_900, "status": "open"},
    {"id": "o-1002", "customer": "Alan Turing", "email": "alan@example.com", "total_cents": 4_250, "status": "shipped"},
    {"id": "o-1003", "customer": "Grace Hopper", "email": "grace@example.com", "total_cents": 99_999, "status": "open"},
    {"id": "o-1004", "customer": "Edsger Dijkstra", "email": "edsger@example.com", "total_cents": 700, "status": "open"},
]


class Outbox:
    """The e-mails that were sent, by idempotency key.

    The key must be remembered in the same breath as the effect, and for as long as a caller may repeat
    a call, restarts included: here by a line in a file, in a real server by a row in the transaction
    that does the work.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.keys: set[str] = set()
        if file and file.exists():
            attempts = map(json.loads, file.read_text().splitlines())
            self.keys = {attempt["key"] for attempt in attempts if attempt["effect"]}

    def send(self, key: str) -> None:
        """Sends it, unless it was sent under this key before."""
        effect = key not in self.keys
        if self.file:
            line = {"tool": "send_email", "key": key, "effect": effect, "ts": time.time()}
            with self.file.open("a") as file:
                file.write(json.dumps(line) + "\n")
        self.keys.add(key)


outbox = Outbox(None)


@server.tool()
async def list_orders(
    status: Annotated[Literal["open", "shipped"] | None, Field(description="Only orders with this status.")] = None,
) -> Orders:
    """Lists the orders, oldest first."""
    return {"orders": [order for order in ORDERS if status in (None, order["status"])]}


@server.tool()
async def send_email(
    ctx: Context,
    to: Annotated[str, Field(description="One address.")],
    subject: str,
    body: Annotated[str, Field(description="Plain text.")],
) -> Sent:
    """Sends an e-mail. The same idempotency key sends it once, and gives the same message id."""
    meta = ctx.request_context.meta or {}
    # Without a key every call is a new e-mail.
    key = meta.get(KEY) or f"unkeyed/{time.time_ns()}"
    outbox.send(key)
    return {"message_id": "m-" + hashlib.sha256(key.encode()).hexdigest()[:16], "delivered": True}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    arguments.add_argument("--stdio", action="store_true", help="serve the process that started this one")
    arguments.add_argument("--effects", type=Path, help="append a JSON line for each attempt to send an e-mail")
    options = arguments.parse_args()

    global outbox
    outbox = Outbox(options.effects)

    if options.stdio:
        return server.run("stdio")
    listener = socket.create_server(("127.0.0.1", options.port), backlog=1024)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}), flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
