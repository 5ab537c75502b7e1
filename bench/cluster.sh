#!/bin/sh
# A cluster of three nodes on this machine beside one node: wrk on 64 connections, closed loop, CPU of all nodes a request.
#
#   bench/cluster.sh [SECONDS [ROUNDS]]        LADOGA_BIN names the binary; default target/release/ladoga
#
# Latencies of a closed loop say how long 64 clients wait for a machine that is full, no more.
set -eu

seconds=${1:-3}
rounds=${2:-3}
binary=${LADOGA_BIN:-target/release/ladoga}
here=$(dirname "$0")
data=${DATA:-$here/out/cluster}
records=100000
value=100
pids=""

stop() {
	for pid in $pids; do kill -CONT "$pid" 2>/dev/null || true; kill "$pid" 2>/dev/null || true; done
	for pid in $pids; do wait "$pid" 2>/dev/null || true; done
	pids=""
	rm -rf "$data"
}
trap stop EXIT INT TERM

ticks() {
	for pid in $pids; do cut -d' ' -f14,15 "/proc/$pid/stat"; done | awk '{ sum += $1 + $2 } END { print sum }'
}

start() { # ports...
	urls=$(for port in "$@"; do printf ',http://127.0.0.1:%s' "$port"; done | cut -c2-)
	for port in "$@"; do
		mkdir -p "$data/$port"
		"$binary" serve --listen "127.0.0.1:$port" --data "$data/$port" --cluster "$urls" --fsync everysec \
			--memory 512MiB --threads 1 >"$data/$port.log" 2>&1 &
		pids="$pids $!"
	done
	for port in "$@"; do
		until curl -sf -o /dev/null -X PUT --data-binary x "http://127.0.0.1:$port/v0/entity?id=probe"; do sleep 0.1; done
	done
}

# Rewrites the target of the script's requests, so that they say how many replicas.
script() { # name replicas
	sed "s|%012d HTTP|%012d$2 HTTP|" "$here/wrk/$1.lua" >"$data/$1.lua"
	echo "$data/$1.lua"
}

run() { # label port script replicas
	file=$(script "$3" "${4:+\\&replicas=$4}")
	before=$(ticks)
	wrk -t1 -c64 "-d${seconds}s" --latency -s "$file" "http://127.0.0.1:$2" -- "$records" "$value" >"$data/wrk.txt"
	after=$(ticks)
	awk -v label="$1" -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" '
		/requests in/ { requests = $1 }
		/Requests\/sec/ { rate = $2 }
		/^ +50%/ { p50 = $2 } /^ +99%/ { p99 = $2 }
		/Non-2xx/ { bad = $NF }
		END { printf "| %s | %.0f | %.1f | %s | %s | %d |\n", label, rate, ticks / hz * 1e6 / requests, p50, p99, bad }
	' "$data/wrk.txt"
}

fill() { # port replicas
	file=$(script put "${2:+\\&replicas=$2}")
	wrk -t1 -c64 -d5s -s "$file" "http://127.0.0.1:$1" -- "$records" "$value" >/dev/null
}

echo "| | requests/s | CPU of all nodes, µs/request | p50 | p99 | bad answers |"
echo "| --- | ---: | ---: | ---: | ---: | ---: |"
for round in $(seq "$rounds"); do
	start 18080
	run "one node, PUT" 18080 put ""
	fill 18080 ""
	run "one node, GET" 18080 get ""
	stop
	start 18081 18082 18083
	run "three nodes, PUT 2/3" 18081 put 2/3
	run "three nodes, PUT 1/1" 18081 put 1/1
	fill 18081 2/3
	run "three nodes, GET 2/3" 18081 get 2/3
	run "three nodes, GET 1/1" 18081 get 1/1
	frozen=${pids##* }
	kill -STOP "$frozen"
	run "three nodes, one of them frozen, PUT 2/3" 18081 put 2/3
	run "three nodes, one of them frozen, GET 2/3" 18081 get 2/3
	stop
done
