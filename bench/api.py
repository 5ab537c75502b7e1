#!/usr/bin/env python3
"""What the data API costs: durability per request, batches, the change feed, idle clients of Redis. Prints tables in Markdown.

    python3 bench/api.py [--binary FILE] [--rounds 5] [--seconds 3] [--only fsync,batch,cluster-batch,feed,cluster-feed,idle]

One node with one event loop (three for `cluster-...`), the load generator and Python on the same machine; what is compared runs in alternating rounds. A cell is
`median (min..max)`. Needs a release build of `ladoga`; with redis-server, `idle` has it beside the node.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")


class Node:
    running = []

    def __init__(self, arguments, fsync="everysec", resp=False, flags=(), scheme="http", port=None):
        self.dir = tempfile.mkdtemp(dir=arguments.dir)
        self.port, self.resp = port or free_port(), free_port() if resp else None
        self.followed_port = self.port
        command = [arguments.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", self.dir + "/data"]
        command += ["--threads", "1", "--fsync", fsync, "--memory", "1GiB"]
        command += ["--resp", f"127.0.0.1:{self.resp}"] if resp else []
        command += flags
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.dir + "/log", "w"))
        Node.running.append(self)
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        wait_until_there(self.port)

    def cpu_us(self):
        return cpu_us(self.process.pid)

    def resident_bytes(self):
        return resident_bytes(self.process.pid)

    def end(self):
        Node.running.remove(self)
        end(self.process)
        shutil.rmtree(self.dir)


class Cluster:
    """Three nodes: clients write through the first one, and follow at the last one."""

    def __init__(self, arguments):
        ports = [free_port() for _ in range(3)]
        flags = ["--cluster", ",".join(f"http://127.0.0.1:{port}" for port in ports)]
        self.nodes = [Node(arguments, flags=flags, port=port) for port in ports]
        first, last = self.nodes[0], self.nodes[-1]
        self.dir, self.url, self.port, self.followed_port = first.dir, first.url, first.port, last.port
        for node in self.nodes:
            wait_until_ready(node)

    def cpu_us(self):
        return sum(node.cpu_us() for node in self.nodes)

    def end(self):
        for node in self.nodes:
            node.end()


def wait_until_ready(node):
    for _ in range(400):
        try:
            return urllib.request.urlopen(node.url + "/readyz").close()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{node.url} does not become ready")


def end(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_until_there(port):
    for _ in range(400):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing listens on port {port}")


def cpu_us(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / TICK


def resident_bytes(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def cell(values, digits=0):
    middle = statistics.median(values)
    return f"{middle:,.{digits}f} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| " + " | ".join("---" for _ in head) + " |")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def bench(arguments, node, script, *more, rate=None, connections=64, seconds=None):
    """One run of the load generator: requests a second that were good, CPU of the node for each, latency in µs."""
    out = node.dir + "/bench.json"
    command = [arguments.binary, "bench", "-t1", f"-c{connections}", f"-d{seconds or arguments.seconds}s", "-T", "10s"]
    command += ["-R", str(rate)] if rate else []
    command += ["-s", str(script), "--json", out, node.url, "--", *map(str, more)]
    before = node.cpu_us()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    result = json.load(open(out))
    good = result["answers"]["2xx"]["count"]
    if good < result["requests"]:
        sys.exit(f"{result['requests'] - good} of {result['requests']} requests failed")
    return good / result["duration_s"], (node.cpu_us() - before) / good, result["latency_us"]


def script_of(node, text):
    path = node.dir + "/script.lua"
    pathlib.Path(path).write_text(text)
    return path


PUT = """
local count
function init(args) count = tonumber(args[1]); math.randomseed(tonumber(args[2])); wrk.body = string.rep("v", 100) end
function request() return wrk.format("PUT", string.format("/v0/entity?id=key:%09d%s", math.random(count), "{query}")) end
"""


def fsync(arguments):
    """The same durability by the node's setting and by the request."""
    print("### `fsync=` of a request beside the node's setting\n")
    print("`PUT` of 100 B, 64 connections, closed loop.\n")
    cases = [("always", ""), ("everysec", "&fsync=always"), ("everysec", ""), ("always", "&fsync=everysec")]
    nodes = {setting: Node(arguments, setting) for setting in ("always", "everysec")}
    figures = {case: [] for case in cases}
    for round_ in range(arguments.rounds):
        for setting, query in cases:
            script = script_of(nodes[setting], PUT.replace("{query}", query))
            figures[setting, query].append(bench(arguments, nodes[setting], script, 100_000, round_)[:2])
    rows = [[f"node `{setting}`, request {'`' + query[1:] + '`' if query else 'says nothing'}",
             cell([rate for rate, _ in figures[setting, query]]), cell([cpu for _, cpu in figures[setting, query]], 1)]
            for setting, query in cases]
    table(["", "requests/s", "CPU of the node, µs/request"], rows)
    for node in nodes.values():
        node.end()


def batch(arguments):
    """Operations a second in a batch beside single requests, on one connection, and the memory of a long batch."""
    print("### `POST /v0/batch` beside requests of their own\n")
    print("One connection; values of 100 B; a batch has 100,000 lines.\n")
    node = Node(arguments)
    get = PUT.replace('"PUT"', '"GET"').replace('wrk.body = string.rep("v", 100)', "")
    single = {"put": PUT.replace("{query}", ""), "get": get.replace("{query}", "")}
    figures = {}
    for round_ in range(arguments.rounds):
        for kind in ("put", "get"):
            figures.setdefault((kind, "batch"), []).append(one_batch(node, kind))
            script = script_of(node, single[kind])
            run = bench(arguments, node, script, BATCH_LINES - 1, round_, connections=1)
            figures.setdefault((kind, "requests"), []).append(run[:2])
    rows = [[f"`{kind}`, {how}", cell([rate for rate, _ in runs]), cell([cpu for _, cpu in runs], 1)]
            for (kind, how), runs in figures.items()]
    table(["", "operations/s", "CPU of the node, µs/operation"], rows)
    node.end()


BATCH_LINES = 100_000


def one_batch(node, kind):
    """Operations a second of one batch, and CPU of the node for each."""
    line = {"put": {"op": "put", "value": "v" * 100}, "get": {"op": "get"}}[kind]
    body = "".join(json.dumps({**line, "key": f"key:{n:09d}"}) + "\n" for n in range(BATCH_LINES))
    before, started = node.cpu_us(), time.monotonic()
    request = urllib.request.Request(node.url + "/v0/batch", body.encode(), method="POST")
    answers = urllib.request.urlopen(request).read().splitlines()
    took = time.monotonic() - started
    bad = [answer for answer in answers if json.loads(answer)["status"] not in (200, 201)]
    if bad or len(answers) != BATCH_LINES:
        sys.exit(f"{len(answers)} answers, {len(bad)} of them failures: {bad[:1]}")
    return BATCH_LINES / took, (node.cpu_us() - before) / BATCH_LINES


def cluster_batch(arguments):
    """The same of three nodes, a majority asked for each key."""
    print("### `POST /v0/batch` to a cluster of three nodes\n")
    print("One connection; values of 100 B; a batch has 100,000 lines, each decided by a majority.\n")
    cluster, figures = Cluster(arguments), {}
    for _ in range(arguments.rounds):
        for kind in ("put", "get"):
            figures.setdefault(kind, []).append(one_batch(cluster, kind))
    rows = [[f"`{kind}`", cell([rate for rate, _ in runs]), cell([cpu for _, cpu in runs], 1)] for kind, runs in figures.items()]
    table(["", "operations/s", "CPU of all nodes, µs/operation"], rows)
    cluster.end()


def followed(arguments):
    """What a follower costs writers, how soon it knows, and what idle ones take."""
    print("### Changes that are followed\n")
    node = Node(arguments)
    feed(arguments, node)
    node.end()
    idle_followers(arguments)


def cluster_followed(arguments):
    """The same of three nodes, through the one that is not written through."""
    print("### Changes of a cluster of three nodes that are followed\n")
    cluster = Cluster(arguments)
    feed(arguments, cluster)
    cluster.end()


def feed(arguments, node):
    print("`PUT` of 100 B, 64 connections, closed loop, `everysec`. The followers read everything, on the same two cores.\n")
    script = script_of(node, PUT.replace("{query}", ""))
    figures = {0: [], 1: []}
    for round_ in range(arguments.rounds):
        for count in figures:
            followers = [Reader(node) for _ in range(count)]
            figures[count].append(bench(arguments, node, script, 100_000, round_)[:2])
            for follower in followers:
                follower.end()
    rows = [[f"{count} followers", cell([rate for rate, _ in runs]), cell([cpu for _, cpu in runs], 1)]
            for count, runs in figures.items()]
    table(["", "requests/s", "CPU of the node, µs/request"], rows)
    half = int(statistics.median(rate for rate, _ in figures[0]) / 4)
    print(f"From the acknowledgement of a write to its event, beside {half:,} other writes a second.\n")
    latencies = [latency for _ in range(arguments.rounds) for latency in probe(arguments, node, script, half)]
    latencies.sort()
    at = lambda part: f"{latencies[min(len(latencies) - 1, int(part * len(latencies)))] * 1e3:.2f}"
    table(["probes", "p50, ms", "p99, ms", "max, ms"],
          [[str(len(latencies)), at(0.5), at(0.99), f"{latencies[-1] * 1e3:.2f}"]])


class Reader:
    """A follower that throws away what it gets, in a process of its own."""

    def __init__(self, node):
        request = "GET /v0/changes?start=%00 HTTP/1.1\r\nHost: h\r\n\r\n"
        code = ("import socket,sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])));"
                "s.sendall(sys.argv[2].encode()); b = bytearray(1 << 20);\nwhile s.recv_into(b): pass")
        self.process = subprocess.Popen([sys.executable, "-c", code, str(node.followed_port), request])
        time.sleep(0.3)

    def end(self):
        self.process.kill()
        self.process.wait()


def probe(arguments, node, script, rate):
    """Latencies of single writes that a follower of their keys sees, in seconds."""
    follower = socket.create_connection(("127.0.0.1", node.followed_port))
    follower.sendall(b"GET /v0/changes?start=probe:&end=probe; HTTP/1.1\r\nHost: h\r\n\r\n")
    arrived = {}

    def read():
        rest = b""
        while data := follower.recv(1 << 16):
            now = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if b'"probe:' in line:
                    arrived[line.split(b'"probe:', 1)[1].split(b'"', 1)[0]] = now

    reader = threading.Thread(target=lambda: swallow(read), daemon=True)
    reader.start()
    load = threading.Thread(target=bench, args=(arguments, node, script, 100_000, 1), kwargs={"rate": rate, "seconds": arguments.seconds + 2})
    load.start()
    time.sleep(1)
    writer, acknowledged = socket.create_connection(("127.0.0.1", node.port)), {}
    until, number, tag = time.monotonic() + arguments.seconds, 0, os.urandom(4).hex()
    while time.monotonic() < until:
        key = f"{tag}{number:06d}"
        writer.sendall(f"PUT /v0/entity?id=probe:{key} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nv".encode())
        if b" 201 " not in writer.recv(4096):
            sys.exit("a probe was not acknowledged")
        acknowledged[key.encode()] = time.monotonic()
        number += 1
        time.sleep(0.002)
    load.join()
    time.sleep(0.5)
    follower.shutdown(socket.SHUT_RDWR)
    missing = [key for key in acknowledged if key not in arrived]
    if missing:
        sys.exit(f"{len(missing)} of {len(acknowledged)} probes were not told")
    return [max(0.0, arrived[key] - at) for key, at in acknowledged.items()]


def swallow(work):
    try:
        work()
    except OSError:
        pass


def idle_followers(arguments):
    node, count = Node(arguments), 10_000
    before, sockets = node.resident_bytes(), []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", node.port))
        one.sendall(b"GET /v0/changes?start=a&end=b HTTP/1.1\r\nHost: h\r\n\r\n")
        sockets.append(one)
    heads = answered(sockets, b"HTTP/1.1 200 ")
    after = node.resident_bytes()
    print(f"{heads:,} idle followers: {before / 1048576:.0f} MiB resident before, {after / 1048576:.0f} MiB with them.\n", flush=True)
    for one in sockets:
        one.close()
    node.end()


def idle(arguments):
    """Memory of idle clients of Redis."""
    print("### 10,000 idle connections of clients of Redis\n")
    rows, count = [], 10_000
    node = Node(arguments, resp=True)
    rows.append(["Ladoga", *idle_connections(node.process.pid, node.resp, count)])
    node.end()
    if program := shutil.which("redis-server"):
        folder, port = tempfile.mkdtemp(dir=arguments.dir), free_port()
        redis = subprocess.Popen([program, "--port", str(port), "--save", "", "--maxclients", "20000", "--dir", folder],
                                 stdout=subprocess.DEVNULL)
        wait_until_there(port)
        rows.append(["Redis", *idle_connections(redis.pid, port, count)])
        end(redis)
        shutil.rmtree(folder)
    table(["", "connections", "resident before, MiB", "with them, MiB", "KiB each"], rows)


def answered(sockets, expected):
    """How many get an answer that begins as expected; of the others, what one gets is told."""
    answers = [one.recv(4096) for one in sockets]
    others = [answer for answer in answers if not answer.startswith(expected)]
    if others:
        print(f"{len(others)} get something else, such as {others[0][:200]!r}\n")
    return len(answers) - len(others)


def idle_connections(pid, port, count):
    before, sockets = resident_bytes(pid), []
    for _ in range(count):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(b"PING\r\n")
        sockets.append(one)
    pongs = answered(sockets, b"+PONG\r\n")
    after = resident_bytes(pid)
    for one in sockets:
        one.close()
    return [f"{pongs:,}", f"{before / 1048576:.0f}", f"{after / 1048576:.0f}", f"{(after - before) / 1024 / count:.1f}"]


def run(description, parts):
    """Runs parts of a script as its command line says, and ends what they leave."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/ladoga")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--dir", help="where data goes: a directory on a disk", default=None)
    parser.add_argument("--only", default=",".join(parts))
    arguments = parser.parse_args()
    arguments.binary = os.path.realpath(arguments.binary)
    if not os.access(arguments.binary, os.X_OK):
        parser.error(f"{arguments.binary} is no program: cargo build --release -p ladoga, or --binary FILE")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for part in arguments.only.split(","):
        if part not in parts:
            parser.error(f"--only {part}: expected some of {', '.join(parts)}")
        try:
            parts[part](arguments)
        finally:
            for node in list(Node.running):
                node.end()


if __name__ == "__main__":
    run(__doc__, {"fsync": fsync, "batch": batch, "cluster-batch": cluster_batch, "feed": followed, "cluster-feed": cluster_followed, "idle": idle})
