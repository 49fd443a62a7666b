"""An MCP server that misbehaves on request: HTTP and JSON-RPC by hand, the protocol with sessions.

    python scripted.py --port 0 --scenario scenario.json

Prints one JSON line, {"url": ..., "control": ...}, once it listens. A scenario is a JSON object whose
members are the fields of `Scenario`. `POST /control` changes some of them while it runs, and with
`"forget": true` ends every session, with `"tell": true` says on every session's stream that the tools have changed; `GET /control` tells what the server has seen. What a call does is decided by the tool's name: see the
functions named `tool_...`.
"""

import argparse
import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

KEY = "codes.rewind/idempotency-key"
# As the example servers of the official TypeScript SDK say it.
NO_SESSION = """{"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}"""


@dataclass
class Scenario:
    # Each page: {"cursor": its own (null for the first), "tools": [...], "nextCursor": ...,
    # "status": an HTTP status to fail with}.
    pages: list[dict[str, Any]] = field(default_factory=lambda: [{"cursor": None, "tools": []}])
    # How every request is answered: "mcp", "html", "json" (not JSON-RPC), "hang", "close", "401".
    answer: str = "mcp"
    # Answers to calls: "json" or "sse".
    stream: str = "json"
    # `effect` drops the connection after the effect and before the answer, so many times a key.
    drop_first: int = 0
    # A session is forgotten after so many calls; 0: never.
    calls_per_session: int = 0
    # What an unknown session is answered with: 404 as specified, or 400 as much server code does.
    expired_status: int = 404
    # Results by the tool's name, verbatim; they go before what a function here would do.
    results: dict[str, Any] = field(default_factory=dict)
    # Tools whose calls are refused as unknown (-32602).
    refuse: list[str] = field(default_factory=list)
    # It says that it tells of changes of its tools, on the stream of a session: see "tell" of `POST /control`.
    announce: bool = False
    # Latency of every call, in milliseconds.
    latency_ms: int = 0


class Drop(Exception):
    """Close the connection without a (further) word."""


class Refuse(Exception):
    """Answer with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Status(Exception):
    """Answer with an HTTP status and a text."""


class Server:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.sessions: dict[str, int] = {}  # id -> calls made in it
        self.opened = 0
        self.connections = 0
        self.effects: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        self.abandoned = 0  # calls of `hang` and `slow` whose client went away
        self.requests: list[dict[str, Any]] = []
        self.listeners: list[Any] = []  # writers of sessions' streams
        self.parked: dict[str, dict[str, Any]] = {}  # event id -> answer, for `resume`

    # -- HTTP ----------------------------------------------------------------------------------------

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await read_request(reader)) is not None:
                await self.request(*request, reader, writer)
        except (Drop, ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def request(self, method: str, path: str, headers: dict[str, str], body: bytes, reader, writer) -> None:
        if path == "/control":
            return self.control(method, body, writer)
        match self.scenario.answer:
            case "html":
                return respond(writer, 200, "<html><title>Welcome</title></html>", "text/html")
            case "json":
                return respond(writer, 200, {"hello": "world"})
            case "401":
                return respond(writer, 401, "who are you? secret-echo", "text/plain")
            case "hang":
                await asyncio.Event().wait()
            case "close":
                raise Drop
        if method == "GET":
            return self.resume(headers, writer)
        if method == "DELETE":
            self.sessions.pop(headers.get("mcp-session-id", ""), None)
            return respond(writer, 200, None)
        message = json.loads(body)
        self.requests.append({"message": message, "headers": headers})
        del self.requests[:-100]
        try:
            await self.message(message, headers, reader, writer)
        except Refuse as refusal:
            respond(writer, 200, {"jsonrpc": "2.0", "id": message.get("id"), "error": refusal.error})
        except Status as answer:
            respond(writer, answer.args[0], answer.args[1], "text/plain")

    def control(self, method: str, body: bytes, writer) -> None:
        if method == "POST":
            changes = json.loads(body)
            if changes.pop("forget", False):
                self.sessions.clear()
            if changes.pop("tell", False):
                for listener in self.listeners:
                    event(listener, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            for name, value in changes.items():
                assert name in {field.name for field in fields(Scenario)}, name
                setattr(self.scenario, name, value)
        seen = ("effects", "attempts", "abandoned", "opened", "connections", "requests")
        respond(writer, 200, {name: getattr(self, name) for name in seen})

    # -- MCP -----------------------------------------------------------------------------------------

    async def message(self, message: dict[str, Any], headers: dict[str, str], reader, writer) -> None:
        session = headers.get("mcp-session-id")
        match message["method"]:
            case "server/discover":
                raise Status(400, "Bad Request: no session, and no initialize")
            case "initialize":
                self.opened += 1
                session = f"session-{self.opened}"
                self.sessions[session] = 0
                result = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {"listChanged": self.scenario.announce}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                    "instructions": "Expect the worst.",
                }
                return respond(writer, 200, answer_to(message, result), headers={"Mcp-Session-Id": session})
        if session not in self.sessions:
            raise Status(self.scenario.expired_status, NO_SESSION)
        match message["method"]:
            case "tools/list":
                respond(writer, 200, answer_to(message, self.page(message.get("params", {}).get("cursor"))))
            case "tools/call":
                self.sessions[session] += 1
                if 0 < self.scenario.calls_per_session < self.sessions[session]:
                    del self.sessions[session]
                    raise Status(self.scenario.expired_status, NO_SESSION)
                await self.call(message, reader, writer)
            case method if method.startswith("notifications/"):
                respond(writer, 202, None)
            case method:
                raise Refuse(-32601, f"no method {method}")

    def page(self, cursor: str | None) -> dict[str, Any]:
        for page in self.scenario.pages:
            if page.get("cursor") == cursor:
                if "status" in page:
                    raise Status(page["status"], "the database is on fire")
                return {name: page[name] for name in ("tools", "nextCursor") if name in page}
        raise Refuse(-32602, f"no cursor {cursor!r}")

    async def call(self, message: dict[str, Any], reader, writer) -> None:
        params = message["params"]
        tool = getattr(self, "tool_" + params["name"], None)
        if params["name"] in self.scenario.refuse:
            raise Refuse(-32602, f"no tool {params['name']}")
        fixed = self.scenario.results.get(params["name"])
        if fixed is not None:
            return respond(writer, 200, answer_to(message, fixed))
        if tool is None:
            raise Refuse(-32602, f"no tool {params['name']}")
        if self.scenario.latency_ms:
            await asyncio.sleep(self.scenario.latency_ms / 1000)
        result = await tool(params.get("arguments", {}), params.get("_meta", {}), Wire(message, reader, writer))
        if result is None:
            return  # the tool has answered by itself
        if self.scenario.stream == "sse":
            begin_stream(writer)
            event(writer, answer_to(message, result))
            end_stream(writer)
        else:
            respond(writer, 200, answer_to(message, result))

    def resume(self, headers: dict[str, str], writer) -> None:
        if "last-event-id" not in headers and self.scenario.announce:
            begin_stream(writer)
            self.listeners.append(writer)
            return
        answer = self.parked.pop(headers.get("last-event-id", ""), None)
        if answer is None:
            return respond(writer, 405, None)
        begin_stream(writer)
        event(writer, answer, "2")
        end_stream(writer)

    # -- tools ---------------------------------------------------------------------------------------

    async def tool_echo(self, arguments, meta, _wire):
        """What came, as it came."""
        return {"content": [], "structuredContent": {"arguments": arguments, "meta": meta}}

    async def tool_raw(self, arguments, _meta, _wire):
        """`result`, as the result."""
        return arguments["result"]

    async def tool_effect(self, _arguments, meta, _wire):
        """One effect per key; may drop the connection after it and before the answer."""
        key = meta.get(KEY, "")
        self.attempts[key] += 1
        if self.effects[key] == 0:
            self.effects[key] += 1
        if self.attempts[key] <= self.scenario.drop_first:
            raise Drop
        return {"content": [{"type": "text", "text": json.dumps({"effects": self.effects[key]})}]}

    async def tool_big(self, arguments, _meta, _wire):
        """A text of `bytes` bytes."""
        return {"content": [{"type": "text", "text": "x" * arguments["bytes"]}]}

    async def tool_fail(self, _arguments, _meta, _wire):
        return {"isError": True, "content": [{"type": "text", "text": "the order is locked"}]}

    async def tool_error(self, _arguments, _meta, _wire):
        raise Refuse(-32042, "nobody expects this")

    async def tool_status(self, arguments, _meta, _wire):
        raise Status(arguments["status"], "upstream says no")

    async def tool_html(self, _arguments, _meta, wire):
        respond(wire.writer, 200, "<html>", "text/html")

    async def tool_hang(self, _arguments, _meta, wire):
        """No answer; notes when the client goes away."""
        await wire.reader.read()
        self.abandoned += 1
        raise Drop

    async def tool_slow(self, arguments, meta, wire):
        """`steps` progress notifications, `step_ms` apart, then the answer."""
        begin_stream(wire.writer)
        for step in range(arguments["steps"]):
            params = {"progressToken": meta["progressToken"], "progress": step}
            event(wire.writer, {"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            await asyncio.sleep(arguments["step_ms"] / 1000)
        event(wire.writer, answer_to(wire.message, {"content": [{"type": "text", "text": "done"}]}))
        end_stream(wire.writer)

    async def tool_cut(self, _arguments, _meta, wire):
        """A stream that ends before the answer."""
        begin_stream(wire.writer)
        raise Drop

    async def tool_half(self, _arguments, _meta, wire):
        """A body that ends before its announced length."""
        wire.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
        raise Drop

    async def tool_resume(self, _arguments, _meta, wire):
        """A stream that ends before the answer, which a GET with its event id then gives."""
        self.parked["1"] = answer_to(wire.message, {"content": [{"type": "text", "text": "resumed"}]})
        begin_stream(wire.writer)
        wire.writer.write(chunk(b"retry: 10\nid: 1\ndata:\n\n"))
        end_stream(wire.writer)


@dataclass
class Wire:
    message: dict[str, Any]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


def answer_to(message: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ")
    lines = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in lines}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return method, path, headers, body


def respond(writer, status: int, body: Any, kind: str = "application/json", headers: dict[str, str] | None = None) -> None:
    text = b"" if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    lines = [f"HTTP/1.1 {status} {'OK' if status < 400 else 'No'}", f"Content-Length: {len(text)}"]
    if body is not None:
        lines.append(f"Content-Type: {kind}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + text)


def begin_stream(writer) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")


def event(writer, message: dict[str, Any], event_id: str | None = None) -> None:
    name = f"id: {event_id}\n" if event_id else ""
    writer.write(chunk(f"{name}data: {json.dumps(message)}\n\n".encode()))


def end_stream(writer) -> None:
    writer.write(b"0\r\n\r\n")


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    arguments.add_argument("--scenario", type=Path, help="a JSON file; without it the server behaves")
    options = arguments.parse_args()
    scenario = Scenario(**json.loads(options.scenario.read_text())) if options.scenario else Scenario()
    server = await asyncio.start_server(Server(scenario).connection, "127.0.0.1", options.port, limit=1 << 26, backlog=1024)
    base = "http://{}:{}".format(*server.sockets[0].getsockname())
    print(json.dumps({"url": f"{base}/mcp", "control": f"{base}/control"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
