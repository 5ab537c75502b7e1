# Everything a person types. What is checked, and in which order, is `cargo xtask ci`.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
URL        := http://127.0.0.1:8080/v0
ARGS       ?=

# command:package, the package being Debian's.
BUILD_TOOLS := cc:build-essential pkg-config:pkg-config curl:curl git:git
# Tests that need one of these are skipped where it cannot be had, and say so.
TEST_TOOLS  := redis-server:redis-server redis-cli:redis-tools chromium:chromium ip:iproute2 unshare:util-linux faketime:faketime prometheus:prometheus
BENCH_TOOLS := wrk:wrk nginx:nginx redis-server:redis-server fio:fio db_bench:rocksdb-tools openssl:openssl

# Servers are in a directory that only root has on its path.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin

# Installs the packages of the commands that are missing, where that is possible; else names them.
define install_missing
@missing=""; \
for tool in $(1); do command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool##*:}"; done; \
if [ -n "$$missing" ]; then \
	if [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	else \
		echo "missing, please install:$$missing" >&2; exit 1; \
	fi; \
fi
endef

# The same, where that is possible; else names what is going to be skipped.
define install_optional
@missing=""; \
for tool in $(1); do command -v "$${tool%%:*}" >/dev/null || missing="$$missing $${tool##*:}"; done; \
if [ -n "$$missing" ]; then \
	if [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && apt-get update -qq \
		&& DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; then :; \
	else \
		echo "not installed, tests that need it are skipped:$$missing" >&2; \
	fi; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help run cluster test bench deb fmt clean build-tools test-tools bench-tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build-tools ## build the node and run it on 127.0.0.1:8080 (settings: make run ARGS="--memory 1GiB")
	cargo build --release -p ladoga
	@echo
	@echo "Try it from another terminal; Ctrl-C here stops the node and loses nothing:"
	@echo "  curl -i -X PUT --data-binary 'deep and cold' '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/entities?start=a&end=z'"
	@echo "  curl -i -X DELETE '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/status'"
	@echo
	@exec $(TARGET_DIR)/release/ladoga serve $(ARGS)

CLUSTER_PORTS := 8081 8082 8083
CLUSTER_DATA  ?= ladoga-cluster-data
CLUSTER_URLS  := http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083

cluster: build-tools ## build the node and run three of them on 127.0.0.1:8081 to 8083
	cargo build --release -p ladoga
	@echo
	@echo "Try it from another terminal; Ctrl-C here stops all three and loses nothing:"
	@echo "  curl -i -X PUT --data-binary 'deep and cold' 'http://127.0.0.1:8081/v0/entity?id=lake'"
	@echo "  curl -i 'http://127.0.0.1:8082/v0/entity?id=lake'                   two of three have to answer"
	@echo "  curl -i 'http://127.0.0.1:8083/v0/entity?id=lake&replicas=3/3'      all of them"
	@echo "  curl -s 'http://127.0.0.1:8081/v0/cluster'                          how they are, as seen from the first"
	@echo "  kill -9 \$$(pgrep -f 'listen 127.0.0.1:8083')                        and ask again"
	@echo
	@trap 'kill $$pids 2>/dev/null; wait; exit 0' INT TERM; pids=""; \
	for port in $(CLUSTER_PORTS); do \
		$(TARGET_DIR)/release/ladoga serve --listen 127.0.0.1:$$port --data $(CLUSTER_DATA)/$$port \
			--cluster $(CLUSTER_URLS) $(ARGS) & \
		pids="$$pids $$!"; \
	done; \
	wait $$pids

test: build-tools test-tools ## everything that must pass, the same as on the server
	cargo xtask ci

bench: build-tools bench-tools ## every benchmark beside its reference (takes a while)
	cargo run --release --manifest-path bench/Cargo.toml -- all $(ARGS)

deb: build-tools ## make a Debian package in target/
	cargo build --release -p ladoga
	ops/deb/build $(TARGET_DIR)/release/ladoga $(TARGET_DIR)

fmt: ## format the code
	@for manifest in $(wildcard Cargo.toml fuzz/Cargo.toml bench/Cargo.toml); do \
		cargo fmt --all --manifest-path $$manifest || exit 1; \
	done

clean: ## remove what was built; data directories stay
	cargo clean

build-tools:
	@command -v cargo >/dev/null || { echo "cargo is missing: https://rustup.rs has it" >&2; exit 1; }
	$(call install_missing,$(BUILD_TOOLS))

test-tools:
	$(call install_optional,$(TEST_TOOLS))

bench-tools:
	$(call install_missing,$(BENCH_TOOLS))
