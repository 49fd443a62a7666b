"""A receiver of webhooks: verifies each with the public `standardwebhooks` package and writes down what came.

Prints one line, {"url", "control"}, when it listens. `GET /control` answers {"requests": [...]}, `POST /control` changes
how it behaves. Every other path takes webhooks.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from standardwebhooks.webhooks import Webhook, WebhookVerificationError


@dataclass
class Behaviour:
    # What requests are to be signed with.
    secret: str = ""
    # Answer to those that verify.
    status: int = 204
    # Answer 500 to so many attempts at each event first.
    fail_first: int = 0
    # Never answer.
    hang: bool = False


class Receiver:
    def __init__(self) -> None:
        self.behaviour = Behaviour()
        self.attempts: Counter[str] = Counter()
        self.requests: list[dict[str, Any]] = []

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                path, headers, body = request
                status, answer = self.control(body) if path == "/control" else await self.webhook(path, headers, body)
                lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(answer)}"]
                # What a receiver would have to be asked for again is in no redirect of its.
                lines += ["Location: /elsewhere"] if 300 <= status < 400 else []
                writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def control(self, body: bytes) -> tuple[int, bytes]:
        for name, value in json.loads(body or b"{}").items():
            assert name in {field.name for field in fields(Behaviour)}, name
            setattr(self.behaviour, name, value)
        return 200, json.dumps({"requests": self.requests}).encode()

    async def webhook(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        event = headers.get("webhook-id", "")
        self.attempts[event] += 1
        status = 500 if self.attempts[event] <= self.behaviour.fail_first else self.behaviour.status
        try:
            Webhook(self.behaviour.secret).verify(body, headers)
            valid = True
        except (WebhookVerificationError, ValueError):
            valid, status = False, 401
        taken = valid and status < 300 and not self.behaviour.hang
        self.requests.append(
            {"path": path, "id": event, "valid": valid, "taken": taken, "at": time.time(), "body": body.decode()}
        )
        if self.behaviour.hang:
            await asyncio.Event().wait()
        return status, b""


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in lines}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return head[0].split(" ")[1], headers, body


async def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    options = arguments.parse_args()
    server = await asyncio.start_server(Receiver().connection, "127.0.0.1", options.port, limit=1 << 20, backlog=1024)
    base = "http://{}:{}".format(*server.sockets[0].getsockname())
    print(json.dumps({"url": f"{base}/hook", "control": f"{base}/control"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
