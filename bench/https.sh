#!/usr/bin/env bash
# wrk and `ladoga bench` over https, in turns (A B, B A) against one nginx with TLS 1.3, each with the same command line: requests
# a second, percentiles, and the generator's CPU time a request. Prints a table; each cell is the median of the rounds with the
# lowest and the highest, and a ratio is taken round by round.
#
#   bench/https.sh [--binary FILE] [--rounds 5] [--seconds 5] [--connections 16]
#
# It needs wrk, nginx and openssl: `make bench-tools` installs the first two.
set -euo pipefail
PATH=$PATH:/usr/local/sbin:/usr/sbin

binary=target/release/ladoga rounds=5 seconds=5 connections=16
while (($#)); do
  case $1 in
    --binary) binary=$2 ;;
    --rounds) rounds=$2 ;;
    --seconds) seconds=$2 ;;
    --connections) connections=$2 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
  esac
  shift 2
done
[[ -x $binary ]] || { echo "$binary is no program: cargo build --release, or --binary FILE" >&2; exit 2; }
for tool in wrk nginx openssl; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed: make bench-tools" >&2; exit 2; }
done
out=$(mktemp -d)
server=
trap '[[ -z $server ]] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }; rm -rf "$out"' EXIT
trap 'exit 130' INT TERM

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$out/key.pem" -out "$out/certificate.pem" 2>"$out/openssl.log" ||
  { cat "$out/openssl.log" >&2; exit 1; }
port=$((20000 + RANDOM % 20000))
url=https://127.0.0.1:$port/
cat >"$out/nginx.conf" <<END
daemon off;
master_process off;
worker_processes 1;
error_log stderr error;
pid nginx.pid;
events { worker_connections 4096; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path temp-body;
  proxy_temp_path temp-proxy;
  fastcgi_temp_path temp-fastcgi;
  uwsgi_temp_path temp-uwsgi;
  scgi_temp_path temp-scgi;
  server {
    listen 127.0.0.1:$port ssl;
    ssl_certificate $out/certificate.pem;
    ssl_certificate_key $out/key.pem;
    ssl_protocols TLSv1.3;
    location / { return 200 "$(printf '%0100d' 0)"; }
  }
}
END
nginx -p "$out" -c nginx.conf -e stderr 2>"$out/nginx.log" &
server=$!
for _ in $(seq 100); do
  "$binary" bench -t1 -c1 -d 50ms "$url" >/dev/null 2>&1 && break
  kill -0 "$server" 2>/dev/null || { cat "$out/nginx.log" >&2; exit 1; }
  sleep 0.05
done

# One run: appends `requests/s p50 p75 p90 p99 CPU-a-request`, times in microseconds, to the file of the tool.
measure() {
  local tool=$1 command=(wrk)
  [[ $tool == wrk ]] || command=("$binary" bench)
  local TIMEFORMAT='%U %S'
  { time "${command[@]}" -t1 -c"$connections" -d"$seconds" --latency "$url" >"$out/text" 2>"$out/errors"; } 2>"$out/cpu" ||
    { cat "$out/text" "$out/errors" >&2; exit 1; }
  if grep -qE 'Socket errors|Non-2xx' "$out/text"; then cat "$out/text" >&2; exit 1; fi
  awk '
    function micros(text) { return text ~ /us$/ ? text + 0 : text ~ /ms$/ ? text * 1e3 : text ~ /m$/ ? text * 6e7 : text * 1e6 }
    FILENAME == ARGV[1] { cpu = ($1 + $2) * 1e6; next }
    $1 ~ /^(50|75|90|99)(\.0+)?%$/ { at[int($1)] = micros($2) }
    / requests in / { requests = $1 }
    /^Requests\/sec:/ { rate = $2 }
    END { print rate, at[50], at[75], at[90], at[99], cpu / requests }
  ' "$out/cpu" "$out/text" >>"$out/$tool"
}

for round in $(seq "$rounds"); do
  order=(ladoga wrk)
  ((round % 2)) || order=(wrk ladoga)
  for tool in "${order[@]}"; do measure "$tool"; done
  echo "round $round of $rounds" >&2
done

# Median (lowest..highest) of a column of numbers.
spread() {
  sort -g | awk -v digits="$1" '{ v[NR] = $1 } END {
    middle = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
    printf "%.*f (%.*f..%.*f)", digits, middle, digits, v[1], digits, v[NR] }'
}
echo "| https, $connections connections | wrk | ladoga bench | ladoga / wrk |"
echo "| --- | --- | --- | --- |"
column=0
for name in requests/s 'p50, µs' 'p75, µs' 'p90, µs' 'p99, µs' "generator's CPU a request, µs"; do
  column=$((column + 1))
  digits=0
  ((column != 6)) || digits=2
  ratio=$(paste -d ' ' "$out/wrk" "$out/ladoga" | awk -v c="$column" '{ print $(c + 6) / $c }' | spread 2)
  echo "| $name | $(cut -d' ' -f"$column" "$out/wrk" | spread "$digits") |" \
    "$(cut -d' ' -f"$column" "$out/ladoga" | spread "$digits") | $ratio |"
done
