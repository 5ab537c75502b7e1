#!/usr/bin/env bash
# What do conditional writes cost beside plain ones? One node, then three, in alternating rounds; prints a table in Markdown.
#
#   bench/conditional.sh [--binary FILE] [--rounds 3] [--seconds 3] [--rate 20000] [--cluster-rate 5000]
#                        [--fsync everysec]
#
# Open loop on 64 connections for p50 and p99; closed loop for increments of 10,000 keys and of one, through one node; and of one
# through all nodes at the same time, on 21 connections to each: the sum of what they do, and the latency of the slowest.
set -euo pipefail

binary=target/release/ladoga rounds=3 seconds=3 rate=20000 cluster_rate=5000 fsync=everysec
while (($#)); do
  case $1 in
    --binary) binary=$2 ;;
    --rounds) rounds=$2 ;;
    --seconds) seconds=$2 ;;
    --rate) rate=$2 ;;
    --cluster-rate) cluster_rate=$2 ;;
    --fsync) fsync=$2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
[[ -x $binary ]] || { echo "$binary is no program: cargo build --release, or --binary FILE" >&2; exit 2; }
binary=$(realpath "$binary")
script=$(dirname "$(realpath "$0")")/wrk/conditional.lua
out=$(mktemp -d) nodes=() list=()

end_nodes() {
  for pid in "${nodes[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${nodes[@]}"; do wait "$pid" 2>/dev/null || true; done
  nodes=()
}
trap 'end_nodes; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# Starts as many nodes; sets `list` to all of them, and `url` to the first.
start_nodes() {
  local first=$((20000 + RANDOM % 20000)) number
  list=()
  for ((number = 0; number < $1; number++)); do list+=("http://127.0.0.1:$((first + number))"); done
  url=${list[0]}
  for ((number = 0; number < $1; number++)); do
    local cluster=()
    (($1 == 1)) || cluster=(--cluster "$(IFS=,; echo "${list[*]}")")
    "$binary" serve --listen "127.0.0.1:$((first + number))" --data "$out/data-$1-$number" --threads 1 \
      --fsync "$fsync" "${cluster[@]}" 2>"$out/log-$1-$number" &
    nodes+=($!)
  done
  for _ in $(seq 200); do
    if curl -fsS -o "$out/ready" "$url/readyz" 2>"$out/curl"; then return; fi
    sleep 0.05
  done
  cat "$out"/log-"$1"-* >&2
  exit 1
}

# CPU time of the nodes so far, in microseconds.
cpu_us() { for pid in "${nodes[@]}"; do cat "/proc/$pid/stat"; done |
  awk -v tick="$(getconf CLK_TCK)" '{ ticks += $14 + $15 } END { printf "%d", ticks * 1e6 / tick }'; }

# run NAME KIND KEYS [RATE]: one round; appends its figures to $out/NAME.
run() {
  local name=$1 kind=$2 keys=$3 open=() before
  (($# < 4)) || open=(-R "$4")
  before=$(cpu_us)
  "$binary" bench -t1 -c64 -d "${seconds}s" -T 10s "${open[@]}" -s "$script" --json "$out/json" "$url" \
    -- "$kind" "$keys" "$RANDOM" >"$out/text" 2>&1 || { cat "$out/text" >&2; exit 1; }
  python3 - "$out/json" "$(($(cpu_us) - before))" >>"$out/$name" <<'PY'
import json, sys
result, cpu_us = json.load(open(sys.argv[1])), float(sys.argv[2])
good = result["answers"]["2xx"]["count"]
bad = result["requests"] - good + sum(result["errors"][kind] for kind in ("connect", "read", "write", "timeout"))
latency = result["latency_us"]
print(latency["p50"], latency["p99"], good / result["duration_s"], cpu_us / max(good, 1), bad)
PY
}

# run_through_all NAME KIND KEYS: one round of the closed loop through each node; appends the figures of all to $out/NAME.
run_through_all() {
  local name=$1 kind=$2 keys=$3 before number loads=()
  before=$(cpu_us)
  for number in "${!list[@]}"; do
    "$binary" bench -t1 -c21 -d "${seconds}s" -T 10s -s "$script" --json "$out/json-$number" "${list[number]}" \
      -- "$kind" "$keys" "$RANDOM" >"$out/text-$number" 2>&1 &
    loads+=($!)
  done
  for number in "${!loads[@]}"; do
    wait "${loads[number]}" || { cat "$out/text-$number" >&2; exit 1; }
  done
  python3 - "$(($(cpu_us) - before))" "$out/json" >>"$out/$name" <<'PY'
import glob, json, sys
cpu_us, pattern = float(sys.argv[1]), sys.argv[2] + "-*"
p50 = p99 = rate = good = bad = 0
for path in glob.glob(pattern):
    result = json.load(open(path))
    ok = result["answers"]["2xx"]["count"]
    bad += result["requests"] - ok + sum(result["errors"][kind] for kind in ("connect", "read", "write", "timeout"))
    p50, p99 = max(p50, result["latency_us"]["p50"]), max(p99, result["latency_us"]["p99"])
    good, rate = good + ok, rate + ok / result["duration_s"]
print(p50, p99, rate, cpu_us / max(good, 1), bad)
PY
}

# One line of the table: medians, lowest and highest.
row() {
  python3 - "$1" "$out/$2" <<'PY'
import sys
rounds = [[float(figure) for figure in line.split()] for line in open(sys.argv[2])]
def cell(column, unit):
    values = sorted(line[column] * unit for line in rounds)
    digits = 0 if values[-1] >= 1000 else 2
    return f"{values[len(values) // 2]:,.{digits}f} ({values[0]:,.{digits}f}..{values[-1]:,.{digits}f})"
print(f"| {sys.argv[1]} | {cell(0, 1e-3)} | {cell(1, 1e-3)} | {cell(2, 1)} | {cell(3, 1)} | {int(sum(line[4] for line in rounds))} |")
PY
}

echo "| | p50, ms | p99, ms | good/s | CPU of all nodes, µs | bad |"
echo "| --- | --- | --- | --- | --- | --- |"
for count in 1 3; do
  start_nodes "$count"
  at=$((count == 1 ? rate : cluster_rate))
  "$binary" bench -t1 -c64 -d "${seconds}s" -s "$script" "$url" -- plain 10000 1 >"$out/text" 2>&1
  for _ in $(seq "$rounds"); do
    run "plain-$count" plain 10000 "$at"
    run "if-match-$count" if-match 10000 "$at"
    run "sum-$count" increment 10000 "$at"
    run "sums-closed-$count" increment 10000
    run "one-closed-$count" increment 1
    ((count == 1)) || run_through_all "one-through-all-$count" increment 1
  done
  end_nodes
  what=$( ((count == 1)) && echo "one node" || echo "three nodes, 2/3")
  row "$what, $at/s: plain \`PUT\`" "plain-$count"
  row "$what, $at/s: \`PUT\`, \`If-Match: *\`" "if-match-$count"
  row "$what, $at/s: increments of 10,000 keys" "sum-$count"
  row "$what, closed loop: increments of 10,000 keys" "sums-closed-$count"
  row "$what, closed loop: increments of one key" "one-closed-$count"
  ((count == 1)) || row "$what, closed loop: increments of one key through all nodes" "one-through-all-$count"
done
