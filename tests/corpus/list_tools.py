"""Starts an MCP server over stdio, and saves what `tools/list` answers: list_tools.py OUT COMMAND [ARG...]"""
import json, subprocess, sys, threading, os
out, command = sys.argv[1], sys.argv[2:]
p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(out + ".err", "w"), text=True, bufsize=1, start_new_session=True)
timer = threading.Timer(40, p.kill); timer.start()
def send(m): p.stdin.write(json.dumps({"jsonrpc": "2.0", **m}) + "\n"); p.stdin.flush()
def answer(i):
    for line in p.stdout:
        try: m = json.loads(line)
        except ValueError: continue
        if isinstance(m, dict) and m.get("id") == i and ("result" in m or "error" in m): return m
    sys.exit("the server ended")
try:
    send({"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}, "sampling": {}, "elicitation": {}}, "clientInfo": {"name": "list-tools", "version": "1"}}})
    answer(1); send({"method": "notifications/initialized"})
    tools, cursor = [], None
    while True:
        send({"id": 2, "method": "tools/list", "params": {"cursor": cursor} if cursor else {}})
        result = answer(2)["result"]; tools += result["tools"]; cursor = result.get("nextCursor")
        if not cursor: break
    json.dump(tools, open(out, "w")); print(out, len(tools))
finally:
    timer.cancel(); p.kill()
