#!/usr/bin/env bash
# Holds the arrows between the crates, and the size of files.
set -euo pipefail
cd "$(dirname "$0")/.."

passed=0
failed=0
refuse() {
	echo "layers: $1" >&2
	failed=$((failed + 1))
}

# $1 must not depend on $2, by whatever way.
apart() {
	if cargo tree --quiet -p "$1" -e normal --prefix none -f '{p}' | grep -q "^$2 v"; then
		refuse "$1 depends on $2"
	else
		passed=$((passed + 1))
	fi
}

for pure in rewind-model rewind-run rewind-schema; do
	for io in tokio async-nats reqwest rmcp; do
		apart "$pure" "$io"
	done
done
apart rewind-run rewind-schema
apart rewind-sandbox rewind-dispatch
apart rewind-sandbox rewind-bus
apart rewind-dispatch rewind-sandbox
apart rewind-sdk rewind-mcp
apart rewind-cli rewind-bus

# $1 is used by $2 alone.
only_user() {
	local users
	users=$(grep -l "^$1\(\.workspace\| =\)" shared/*/Cargo.toml coordinator/*/Cargo.toml worker/*/Cargo.toml | grep -v "^$2/" || true)
	if [ -z "$users" ]; then passed=$((passed + 1)); else refuse "$1 is for $2 alone, but is used in: $users"; fi
}
only_user async-nats shared/bus
only_user rmcp shared/mcp
only_user rquickjs worker/sandbox
only_user jsonschema shared/schema

# A file that grows past this has a noun in it that wants a file of its own. Tests inside are counted.
while read -r lines file; do
	[ "$file" != total ] || continue
	if [ "$lines" -le 600 ]; then passed=$((passed + 1)); else refuse "$file has $lines lines"; fi
done < <(git ls-files '*.rs' '*.py' '*.js' '*.ts' | grep -v /golden/ | xargs wc -l)

echo "layers: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
