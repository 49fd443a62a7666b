"""Starts an MCP server over stdio, and saves what `tools/list` answers, all pages of it.

    python list_tools.py OUT.json COMMAND [ARG...]

What the server says on stderr is in OUT.json.err.
"""

import json
import subprocess
import sys
import threading

PATIENCE_S = 60


class Server:
    def __init__(self, command: list[str], log) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, text=True, start_new_session=True)
        self.last = 0

    def send(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict) -> dict:
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # a greeting
            if isinstance(message, dict) and message.get("id") == self.last and "method" not in message:
                if "result" not in message:
                    sys.exit(f"{method}: {message.get('error')}")
                return message["result"]
        sys.exit(f"{method}: the server ended")


def main() -> None:
    out, command = sys.argv[1], sys.argv[2:]
    with open(f"{out}.err", "w") as log:
        server = Server(command, log)
        timer = threading.Timer(PATIENCE_S, server.process.kill)
        timer.start()
        try:
            client = {"name": "list-tools", "version": "1"}
            capabilities = {"roots": {}, "sampling": {}, "elicitation": {}}
            server.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client})
            server.send({"method": "notifications/initialized"})
            tools, cursor = [], None
            while True:
                page = server.ask("tools/list", {} if cursor is None else {"cursor": cursor})
                tools += page["tools"]
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
        finally:
            timer.cancel()
            server.process.kill()
    with open(out, "w") as file:
        json.dump(tools, file)


main()
