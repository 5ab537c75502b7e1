# Everything a person types. What is checked, and in which order, is `cargo xtask ci`.

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
URL        := http://127.0.0.1:8080/v0
ARGS       ?=
# Without the driver for Cassandra, which takes a third of the time of a build and a quarter of the binary.
EMBEDDED   := --no-default-features

# command:package, the package being Debian's.
BUILD_TOOLS := cc:build-essential pkg-config:pkg-config curl:curl git:git
# Tests that need one of these are skipped where it cannot be had, and say so.
TEST_TOOLS  := redis-server:redis-server redis-cli:redis-tools chromium:chromium ip:iproute2 unshare:util-linux faketime:faketime \
	prometheus:prometheus java:openjdk-17-jre-headless mvn:maven setpriv:util-linux tclsh:tcl
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

# Builds a release with these flags. The profile that it is optimized by fits one compiler.
define release
@[ "$$(rustc --version | cut -d' ' -f1,2)" = "$$(head -n 1 pgo/compiler)" ] || \
	echo "note: the profile for this build was made with $$(head -n 1 pgo/compiler); without one that fits, requests take up to a tenth more CPU (make pgo)" >&2
cargo build --release -p ladoga $(1)
endef

.DEFAULT_GOAL := help
.PHONY: help run cluster cassandra test bench pgo deb fmt clean build-tools test-tools bench-tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build-tools ## build the node and run it on 127.0.0.1:8080 (settings: make run ARGS="--memory 1GiB")
	$(call release,$(EMBEDDED))
	@echo
	@echo "Try it from another terminal; Ctrl-C here stops the node and loses nothing:"
	@echo "  curl -i -X PUT --data-binary 'deep and cold' '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/entities?start=a&end=z'"
	@echo "  curl -i -X DELETE '$(URL)/entity?id=lake'"
	@echo "  curl -i '$(URL)/status'"
	@echo
	@exec $(TARGET_DIR)/release/ladoga serve $(ARGS)

# Ctrl-C reaches the nodes as well as the shell that has started them, which therefore only waits for them; `kill` of make
# reaches the shell alone, which passes it on.
wait_for_pids = failed=0; for pid in $$pids; do wait $$pid || failed=1; done; exit $$failed

CLUSTER_PORTS := 8081 8082 8083
CLUSTER_DATA  ?= ladoga-cluster-data
CLUSTER_URLS  := http://127.0.0.1:8081,http://127.0.0.1:8082,http://127.0.0.1:8083

cluster: build-tools ## build the node and run three of them on 127.0.0.1:8081 to 8083
	$(call release,$(EMBEDDED))
	@echo
	@echo "Try it from another terminal; Ctrl-C here stops all three and loses nothing:"
	@echo "  curl -i -X PUT --data-binary 'deep and cold' 'http://127.0.0.1:8081/v0/entity?id=lake'"
	@echo "  curl -i 'http://127.0.0.1:8082/v0/entity?id=lake'                   two of three have to answer"
	@echo "  curl -i 'http://127.0.0.1:8083/v0/entity?id=lake&replicas=3/3'      all of them"
	@echo "  curl -s 'http://127.0.0.1:8081/v0/cluster'                          how they are, as seen from the first"
	@echo "  kill -9 \$$(pgrep -f 'listen 127.0.0.1:8083')                        and ask again"
	@echo
	@trap '' INT; trap 'kill $$pids 2>/dev/null; $(wait_for_pids)' TERM; pids=""; \
	for port in $(CLUSTER_PORTS); do \
		$(TARGET_DIR)/release/ladoga serve --listen 127.0.0.1:$$port --data $(CLUSTER_DATA)/$$port \
			--cluster $(CLUSTER_URLS) $(ARGS) & \
		pids="$$pids $$!"; \
	done; \
	$(wait_for_pids)

CASSANDRA_PORTS := 8091 8092

cassandra: build-tools ## run three nodes of Cassandra, and two doors to them on 127.0.0.1:8091 and 8092
	$(call install_missing,java:openjdk-17-jre-headless mvn:maven setpriv:util-linux)
	$(call release)
	cargo build -p ladoga-cassandra-nodes
	@echo
	@echo "Three nodes of Cassandra are started; this takes up to a minute, and the first time they are fetched."
	@echo "Then try it from another terminal; Ctrl-C here stops everything, and removes it:"
	@echo "  curl -i -X PUT --data-binary 'deep and cold' 'http://127.0.0.1:8091/v0/entity?id=lake'"
	@echo "  curl -i 'http://127.0.0.1:8092/v0/entity?id=lake'                   through the other door"
	@echo "  curl -i 'http://127.0.0.1:8092/v0/entity?id=lake&replicas=3/3'      all three copies have to answer"
	@echo "  curl -s 'http://127.0.0.1:8091/metrics' | grep ladoga_cassandra     what the door says about Cassandra"
	@echo
	@dir=$$(mktemp -d); mkfifo $$dir/stay; doors=""; \
	end() { trap '' INT TERM; rm -f $$dir/nodes; [ -z "$$doors" ] || wait $$doors; exec 9>&-; wait; rm -rf $$dir; exit 0; }; \
	trap end INT; trap 'kill $$doors 2>/dev/null; end' TERM; \
	$(TARGET_DIR)/debug/ladoga-cassandra-nodes 3 < $$dir/stay > $$dir/nodes & nodes=$$!; \
	exec 9> $$dir/stay; \
	until [ -s $$dir/nodes ]; do kill -0 $$nodes 2>/dev/null || { rm -rf $$dir; exit 1; }; sleep 1; done; \
	echo "Cassandra listens on $$(cat $$dir/nodes)"; \
	for port in $(CASSANDRA_PORTS); do \
		( trap 'kill $$!; wait; exit 0' TERM; \
		until { $(TARGET_DIR)/release/ladoga serve --engine cassandra --cassandra-nodes $$(cat $$dir/nodes) \
			--cassandra-replicas 3 --listen 127.0.0.1:$$port $(ARGS) & wait $$!; }; do sleep 2; [ -e $$dir/nodes ] || exit 0; done ) & \
		doors="$$doors $$!"; \
	done; \
	wait $$doors

test: build-tools test-tools ## everything that must pass, the same as on the server
	cargo xtask ci

bench: build-tools bench-tools ## every benchmark beside its reference, and one page of them: bench/out/page.html (takes an hour)
	cargo run --release --manifest-path bench/Cargo.toml -- all $(ARGS)

pgo: build-tools bench-tools ## make the profile that releases are optimized by anew: after a change of what requests do, or a new compiler
	pgo/make

deb: build-tools ## make a Debian package in target/
	$(call release)
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
