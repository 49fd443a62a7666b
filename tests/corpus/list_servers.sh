#!/usr/bin/env bash
# Saves the tools of real servers: list_servers.sh TOOLS, into TOOLS/servers/NAME.json
set -euo pipefail
tools=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$tools/servers"

list() {
	local name=$1
	shift
	"$tools/py/bin/python" "$here/list_tools.py" "$tools/servers/$name.json" "$@"
}

npm="$tools/npm/node_modules/@modelcontextprotocol"
list everything node "$npm/server-everything/dist/index.js" stdio
list filesystem node "$npm/server-filesystem/dist/index.js" "$tools/servers"
list memory node "$npm/server-memory/dist/index.js"
list github node "$npm/server-github/dist/index.js"
list orders "$tools/py/bin/python" "$here/../peers/orders.py" --stdio
