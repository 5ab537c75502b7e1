#!/usr/bin/env bash
# Do verdicts hold? Two nodes of one binary are measured in alternation, many times; then one of them is disturbed in a
# known way. Prints one line a part: in how many of its comparisons there was any verdict, and in how many `worse`.
#
#   bench/verdicts.sh [--binary FILE] [--comparisons 100] [--planted 10] [--seconds 2] [--rate 1000]
#                     [--workloads get,put-overwrite] [--only PART]
#
# Parts: identical, slower (5 % of the time taken away), stall (one second in six), errors (1 % of the keys are gone),
# tail (p99.9 doubled at least), profiles (identical, with CPU profiles: in how many comparisons any frame has a colour).
# The machine must have nothing else to do: with the defaults this takes about five hours. The quickest sound comparison,
# with the default number of rounds, of which a hundred take half an hour:
#
#   bench/verdicts.sh --only identical --seconds 0.3 --workloads get
set -euo pipefail

binary=target/release/ladoga comparisons=100 planted=10 seconds=2 rate=1000 only= workloads_all=get,put-overwrite
while (($#)); do
  case $1 in
    --binary) binary=$2 ;;
    --comparisons) comparisons=$2 ;;
    --planted) planted=$2 ;;
    --seconds) seconds=$2 ;;
    --rate) rate=$2 ;;
    --workloads) workloads_all=$2 ;;
    --only) only=$2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
[[ -x $binary ]] || { echo "$binary is no program: cargo build --release, or --binary FILE" >&2; exit 2; }
binary=$(realpath "$binary")
keys=10000
out=$(mktemp -d)
nodes=() disturber=

end_nodes() {
  if [[ $disturber ]]; then kill "$disturber" 2>/dev/null || true; wait "$disturber" 2>/dev/null || true; disturber=; fi
  for pid in "${nodes[@]}"; do kill -CONT "$pid" 2>/dev/null || true; kill "$pid" 2>/dev/null || true; done
  for pid in "${nodes[@]}"; do wait "$pid" 2>/dev/null || true; done
  nodes=()
}
trap 'end_nodes; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

# Starts a node on a free port; sets `url`.
start_node() {
  local pid
  rm -rf "$out/data-$1"
  "$binary" serve --listen 127.0.0.1:0 --data "$out/data-$1" --fsync never --threads 1 2>"$out/log-$1" &
  pid=$!
  nodes+=("$pid")
  for _ in $(seq 200); do
    url=$(sed -n 's/.* listening on \(http:[^,]*\),.*/\1/p' "$out/log-$1")
    [[ -z $url ]] || return 0
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.05
  done
  cat "$out/log-$1" >&2
  exit 1
}

# Stops a process for `$2` seconds in every `$3`.
disturb() {
  while kill -STOP "$1" 2>/dev/null; do
    sleep "$2"
    kill -CONT "$1" 2>/dev/null || true
    sleep "$(awk "BEGIN { print $3 - $2 }")"
  done
}

# Removes one key in a hundred as soon as both stores are filled.
delete_after_fill() {
  until (($(grep -cE 'filled with ([0-9,]+) of \1 keys' "$out/log") >= 2)); do sleep 0.1; done
  "$binary" bench -t1 -c1 -d 50ms -R $((keys / 100 * 20)) --workload delete --keys $keys "$1" >/dev/null 2>&1
}

# One comparison; its verdicts are in $out/text.
compare() {
  local part=$1 round_seconds=$seconds workloads=$workloads_all profile=(--no-profile) one other
  : >"$out/log"
  start_node one; one=$url
  start_node two; other=$url
  case $part in
    slower) disturb "${nodes[0]}" 0.001 0.02 & disturber=$! ;;
    stall) round_seconds=6; disturb "${nodes[0]}" 1 6 & disturber=$! ;;
    tail) disturb "${nodes[0]}" 0.02 1 & disturber=$! ;;
    errors) workloads=get; delete_after_fill "$one" & disturber=$! ;;
    profiles) profile=(--profile cpu) ;;
  esac
  if ! "$binary" lab run --url "$one" --pid "${nodes[0]}" --peer "$other" --peer-pid "${nodes[1]}" "${profile[@]}" \
    --workloads "$workloads" --rates "$rate,closed" --keys $keys -d "$(awk "BEGIN { print int(1000 * $round_seconds) }")ms" \
    -o "$out/report.html" >"$out/text" 2>"$out/log"; then
    cat "$out/text" "$out/log" >&2
    return 1
  fi
  end_nodes
}

measure() {
  local part=$1 times=$2 any=0 worse=0 told='(better|worse) \(p' bad='worse \(p'
  [[ -z $only || $only == "$part" ]] || return 0
  # Here a verdict is a colour.
  [[ $part != profiles ]] || { told='profile: [1-9][0-9]* of' bad=$told; }
  for number in $(seq "$times"); do
    compare "$part"
    if grep -qE "$told" "$out/text"; then any=$((any + 1)); fi
    if grep -qE "$bad" "$out/text"; then worse=$((worse + 1)); fi
    echo "$part: $number of $times comparisons, $any with any verdict, $worse worse" >&2
    grep -E "$told|profile: [0-9]+ of" "$out/text" | cut -c1-140 | sed 's/^/    /' >&2 || true
  done
  echo "| $part | $times | $any | $worse |"
}

echo "| part | comparisons | any verdict | worse |"
echo "| --- | --- | --- | --- |"
measure identical "$comparisons"
measure slower "$planted"
measure stall "$planted"
measure errors "$planted"
measure tail "$planted"
measure profiles "$planted"
