"""An MCP server over stdio that misbehaves on request: JSON-RPC by hand, the protocol with sessions.

    python pipes.py --diary diary.jsonl

Appends a JSON line to the diary for its start and for each message that it gets: {"start": pid, ...} and
{"message": ...}. What a call does is decided by the tool's name: see the functions named `tool_...`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

KEY = "codes.rewind/idempotency-key"


def say(message):
    say_text(json.dumps(message))


def say_text(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answer(message, result):
    # The id last, as the official TypeScript SDK has it.
    say({"result": result, "jsonrpc": "2.0", "id": message["id"]})


def refuse(message, code, text):
    say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}})


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


class Server:
    def __init__(self, options):
        self.options = options
        self.held = []

    def note(self, entry):
        if self.options.diary:
            with open(self.options.diary, "a") as diary:
                diary.write(json.dumps(entry) + "\n")

    def run(self):
        self.note({"start": os.getpid(), "environment": dict(os.environ), "arguments": self.options.rest})
        if self.options.ignore_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self.options.dies:
            sys.stderr.write("no such module\n")
            sys.exit(3)
        if self.options.greets:
            say_text("Welcome to the server!")
        for line in sys.stdin:
            message = json.loads(line)
            # A copy of the text shows that numbers came as they were sent.
            self.note({"message": message, "text": line.rstrip("\n")})
            self.message(message)
        while self.options.stays:
            time.sleep(1)

    def message(self, message):
        match message.get("method"):
            case "server/discover":
                match self.options.discover:
                    case "die":
                        os._exit(1)
                    case "ignore":
                        return
                    case "odd":
                        say({"jsonrpc": "2.0", "id": "what?", "error": {"code": -32600, "message": "what?"}})
                    case "anonymous":
                        say({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "what?"}})
                    case _:
                        refuse(message, -32601, "Method not found")
            case "initialize":
                answer(message, {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "pipes", "version": "1"},
                    "instructions": "Expect the worst.",
                })
            case "tools/list":
                names = [name.removeprefix("tool_") for name in dir(self) if name.startswith("tool_")]
                answer(message, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]})
            case "tools/call":
                params = message["params"]
                result = getattr(self, "tool_" + params["name"])(params.get("arguments", {}), message)
                if result is not None:
                    answer(message, result)
            case method if method is not None and "id" in message:
                refuse(message, -32601, f"no method {method}")

    # -- tools ---------------------------------------------------------------------------------------

    def tool_echo(self, arguments, message):
        """What came, as it came, and who answers."""
        return {"content": [], "structuredContent": {
            "arguments": arguments, "meta": message["params"].get("_meta", {}), "pid": os.getpid(),
        }}

    def tool_raw(self, arguments, message):
        """`text` on stdout, in which ID is the request's."""
        say_text(arguments["text"].replace("ID", json.dumps(message["id"])))

    def tool_die(self, _arguments, _message):
        os._exit(7)

    def tool_die_once(self, _arguments, message):
        """Dies at the first attempt with a key; the diary remembers it."""
        key = message["params"]["_meta"][KEY]
        with open(self.options.diary) as diary:
            calls = [json.loads(line).get("message", {}) for line in diary]
        calls = [call["params"] for call in calls if call.get("method") == "tools/call"]
        keys = [call["_meta"].get(KEY) for call in calls if call["name"] == "die_once"]
        if keys.count(key) == 1:
            os._exit(7)
        return text({"attempts": keys.count(key)})

    def tool_hang(self, _arguments, _message):
        """No answer; what comes next is still read."""

    def tool_deaf(self, _arguments, _message):
        """No answer, and nothing is read any more."""
        time.sleep(3600)

    def tool_big(self, arguments, message):
        """A line with a text of `bytes` bytes."""
        sys.stdout.write('{"result":{"content":[{"type":"text","text":"')
        for _ in range(arguments["bytes"] // 1000):
            sys.stdout.write("x" * 1000)
        say_text('"}]},"jsonrpc":"2.0","id":%s}' % json.dumps(message["id"]))

    def tool_endless(self, _arguments, _message):
        """A line without end."""
        while True:
            sys.stdout.write("x" * 100_000)

    def tool_flood(self, arguments, _message):
        """`lines` lines on stderr, with characters for a terminal, and one very long one."""
        for number in range(arguments["lines"]):
            sys.stderr.write(f"\x1b[31mline {number}\x07\n")
        sys.stderr.write("y" * (10 << 20) + "\n")
        sys.stderr.flush()
        return text("flooded")

    def tool_garbage(self, _arguments, _message):
        """Lines that are no messages, before the answer."""
        for line in ["hello", "[1,2]", '{"jsonrpc"', "", "\x00\xff", "null", '{"id":99999,"result":{}}']:
            say_text(line)
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}})
        say({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        return text("done")

    def tool_slow(self, arguments, message):
        """`steps` progress notifications, `step_ms` apart, then the answer."""
        token = message["params"]["_meta"]["progressToken"]
        for step in range(arguments["steps"]):
            say({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step}})
            time.sleep(arguments["step_ms"] / 1000)
        return text("done")

    def tool_hold(self, arguments, message):
        """Answers once `count` calls have come, the last one first."""
        self.held.append(message)
        if len(self.held) == arguments["count"]:
            for held in reversed(self.held):
                answer(held, text({"key": held["params"]["_meta"][KEY]}))
            self.held.clear()

    def tool_grandchild(self, _arguments, _message):
        """Starts a process that ignores what it is told; its id."""
        child = subprocess.Popen(
            [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(3600)"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr,
        )
        child.stdout.readline()
        self.note({"grandchild": child.pid})
        return text({"pid": child.pid, "parent": os.getpid()})


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--diary", help="where to note what comes")
    arguments.add_argument("--discover", default="refuse", help="refuse, die, ignore, odd or anonymous: what becomes of server/discover")
    arguments.add_argument("--dies", action="store_true", help="at once")
    arguments.add_argument("--greets", action="store_true", help="with a line on stdout that is no message")
    arguments.add_argument("--stays", action="store_true", help="when its stdin is closed")
    arguments.add_argument("--ignore-sigterm", action="store_true")
    arguments.add_argument("rest", nargs="*")
    Server(arguments.parse_args()).run()


if __name__ == "__main__":
    main()
