#!/usr/bin/env python3
"""What a door to Cassandra costs beside its bare driver, and beside a cluster of Ladoga. Prints tables in Markdown.

    python3 bench/cassandra.py [--target DIR] [--rounds 3] [--seconds 3] [--records 1000000] [--only get-1,range,...] [--quick]

Three nodes of Cassandra, a door with one event loop, the driver in a loop with the same statements (`bare_driver`, an example of
`ladoga-cassandra`), and three nodes of Ladoga, all on this machine; they take turns. Throughput and CPU time are of a closed loop, latency
is of an open one at half of what the slower of the two carries. The CPU time of both loops is told: in a closed one the two sides have
different rates, and what handles more requests a wake-up takes less for each. A cell is `median (min..max)`; a ratio is taken round by round.

Needs `cargo build --release -p ladoga -p ladoga-cassandra --example bare_driver --bin ladoga` and
`cargo build -p ladoga-cassandra-nodes`. In full it takes at most 12 minutes; `--only` measures some of get-1, get-2, get-3, put-1, put-2,
put-3, if-match-2 and range, of a door and of a cluster (`--only cluster,...`: of the cluster alone, `--only door,...`: of the door alone).
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import api
from api import cell, table

COPIES = 3
CASES = [(operation, ack) for operation in ("get", "put") for ack in (1, 2, 3)] + [("if-match", 2)]
LEVELS = {1: "one", 2: "quorum", 3: "all"}
LUA = """
local operation, count, query
function init(args)
   operation, count, query = args[1], tonumber(args[2]), "&replicas=" .. args[3]
   math.randomseed(tonumber(args[4]))
   if operation ~= "get" then wrk.body = string.rep("v", 100) end
   if operation == "if-match" then wrk.headers["If-Match"] = "*" end
end
function request()
   local target = string.format("/v0/entity?id=key:%09d%s", math.random(count) - 1, query)
   return wrk.format(operation == "get" and "GET" or "PUT", target)
end
"""
running = []


def start(command, **more):
    process = subprocess.Popen(command, **more)
    running.append(process)
    return process


def end_all():
    for process in running:
        if process.stdin:
            # What starts Cassandra removes its data once its input ends.
            process.stdin.close()
        else:
            process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait()


def wait_until_ready(url, process, seconds=60):
    for _ in range(seconds * 20):
        if process.poll() is not None:
            return False
        try:
            if urllib.request.urlopen(url + "/readyz", timeout=5).status == 200:
                return True
        except OSError:
            time.sleep(0.05)
    sys.exit(f"{url} does not serve after {seconds} s")


def cpu_us(pids):
    return sum(map(api.cpu_us, pids))


class Cassandra:
    """Its nodes, until the input of what started them ends."""

    def __init__(self, target):
        command = [target / "debug/ladoga-cassandra-nodes", str(COPIES)]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.nodes = self.process.stdout.readline().strip()
        if not self.nodes:
            sys.exit("Cassandra cannot be started")


class Served:
    """A door, or the nodes of a cluster: requests go to the first one."""

    def __init__(self, bench, commands):
        self.bench, self.processes = bench, []
        for command in commands:
            log = open(bench.dir + "/log", "a")
            self.processes.append(start(command, stdout=subprocess.DEVNULL, stderr=log))
        self.url = "http://" + commands[0][commands[0].index("--listen") + 1]

    def run(self, operation, ack, rate=None):
        """Requests a second, CPU time of the processes for each in µs, p50 and p99 in ms, and how many failed."""
        bench, out = self.bench, self.bench.dir + "/bench.json"
        command = [bench.binary, "bench", "-t1", f"-c{bench.connections}", f"-d{bench.seconds}s", "-T", "10s"]
        command += ["-R", str(rate)] if rate else []
        command += ["-s", bench.lua, "--json", out, self.url, "--"]
        command += [operation, str(bench.keys), f"{ack}/{COPIES}", str(time.time_ns() % 1_000_000)]
        pids = [process.pid for process in self.processes]
        before = cpu_us(pids)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        spent, result = cpu_us(pids) - before, json.load(open(out))
        good = result["answers"]["2xx"]["count"]
        bad = result["requests"] - good + sum(result["errors"][kind] for kind in ("connect", "read", "write", "timeout"))
        latency = result["latency_us"]
        return good / result["duration_s"], spent / max(good, 1), latency["p50"] / 1e3, latency["p99"] / 1e3, bad

    def most_memory_kib(self):
        """The most that the first process ever had in memory."""
        status = pathlib.Path(f"/proc/{self.processes[0].pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0])

    def range(self, scope):
        """Records a second of a range of everything, and how many there are."""
        count = int(urllib.request.urlopen(f"{self.url}/v0/entities?start=k&count=true{scope}").read())
        began, size = time.monotonic(), 0
        with urllib.request.urlopen(f"{self.url}/v0/entities?start=k{scope}") as answer:
            while piece := answer.read(1 << 20):
                size += len(piece)
        return count / (time.monotonic() - began), count, size


class Bare:
    """The driver by itself."""

    def __init__(self, bench, nodes, keyspace):
        self.bench, self.nodes, self.keyspace = bench, nodes, keyspace

    def ask(self, operation, level, seconds, keys, *rate):
        command = [self.bench.bare, self.nodes, self.keyspace, operation, level]
        command += [str(self.bench.connections), str(seconds), str(keys), *map(str, rate)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    def run(self, operation, ack, rate=None):
        rates = [rate] if rate else []
        result = json.loads(self.ask(operation, LEVELS[ack], self.bench.seconds, self.bench.keys, *rates))
        good, latency = result["good"], result["latency_us"]
        cpu = result["cpu_us"] / max(good, 1)
        return good / result["duration_s"], cpu, latency["p50"] / 1e3, latency["p99"] / 1e3, result["bad"]


class Bench:
    def __init__(self, arguments):
        self.target = pathlib.Path(arguments.target).resolve()
        self.binary = str(self.target / "release/ladoga")
        self.bare = str(self.target / "release/examples/bare_driver")
        self.rounds, self.seconds, self.connections = arguments.rounds, arguments.seconds, arguments.connections
        self.records, self.keys = arguments.records, min(arguments.records, 100_000)
        self.dir = tempfile.mkdtemp()
        self.lua = self.dir + "/requests.lua"
        pathlib.Path(self.lua).write_text(LUA)

    def door(self, nodes, keyspace, writes):
        """A door, as soon as the nodes of Cassandra know each other."""
        for _ in range(60):
            listen = f"127.0.0.1:{api.free_port()}"
            command = [self.binary, "serve", "--listen", listen, "--threads", "1", "--engine", "cassandra"]
            command += ["--cassandra-nodes", nodes, "--cassandra-keyspace", keyspace, "--cassandra-writes", writes]
            command += ["--cassandra-replicas", str(COPIES), "--fsync", "everysec"]
            door = Served(self, [command])
            if wait_until_ready(door.url, door.processes[0]):
                return door
            running.remove(door.processes[0])
            time.sleep(1)
        sys.exit("no door starts: " + pathlib.Path(self.dir + "/log").read_text()[-2_000:])

    def cluster(self):
        ports = [api.free_port() for _ in range(COPIES)]
        urls = ",".join(f"http://127.0.0.1:{port}" for port in ports)
        fixed = ["--threads", "1", "--fsync", "everysec", "--memory", "512MiB", "--cluster", urls]
        commands = [[self.binary, "serve", "--listen", f"127.0.0.1:{port}", "--data", f"{self.dir}/data-{port}", *fixed]
                    for port in ports]
        cluster = Served(self, commands)
        for port, process in zip(ports, cluster.processes):
            if not wait_until_ready(f"http://127.0.0.1:{port}", process):
                sys.exit("a node of the cluster ended: " + pathlib.Path(self.dir + "/log").read_text()[-2_000:])
        return cluster

    def fill(self, url):
        """All records, by lines of batches."""
        lines = self.dir + "/lines"
        with open(lines, "w") as out:
            for number in range(self.records):
                out.write('{"op":"put","key":"key:%09d","value":"%s"}\n' % (number, "v" * 100))
        subprocess.run([self.binary, "batch", lines, "--url", url], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        os.remove(lines)

    def compare(self, case, door, bare):
        """Rounds of a closed loop in turns, then of an open one: a row of the table."""
        operation, ack = case
        closed = {side: [] for side in (door, bare)}
        for _ in range(self.rounds):
            for side in (door, bare):
                closed[side].append(side.run(operation, ack))
        rate = int(min(statistics.median(one[0] for one in closed[side]) for side in (door, bare)) / 2)
        half = {side: [] for side in (door, bare)}
        for _ in range(self.rounds):
            for side in (door, bare):
                half[side].append(side.run(operation, ack, max(rate, 1)))
        column = lambda rounds, index: [one[index] for one in rounds]
        ratio_of = lambda runs: [mine[1] / theirs[1] for mine, theirs in zip(runs[door], runs[bare]) if theirs[1]]
        added = [mine[2] - theirs[2] for mine, theirs in zip(half[door], half[bare])]
        bad = sum(one[4] for side in (door, bare) for one in closed[side] + half[side])
        name = f"`{operation.upper() if operation != 'if-match' else 'PUT, If-Match: *'}` {ack}/{COPIES}"
        return [name, cell(column(closed[door], 0)), cell(column(closed[bare], 0)), cell(column(closed[door], 1)),
                cell(column(closed[bare], 1)), cell(ratio_of(closed), 2), f"{rate:,}", cell(column(half[door], 1)),
                cell(column(half[bare], 1)), cell(ratio_of(half), 2), cell(column(half[door], 2), 2),
                cell(column(half[bare], 2), 2), cell(added, 2), cell(column(half[door], 3), 2),
                cell(column(half[bare], 3), 2), str(bad)]

    def alone(self, case, side):
        operation, ack = case
        closed = [side.run(operation, ack) for _ in range(self.rounds)]
        rate = max(int(statistics.median(one[0] for one in closed) / 2), 1)
        half = [side.run(operation, ack, rate) for _ in range(self.rounds)]
        name = f"`{operation.upper() if operation != 'if-match' else 'PUT, If-Match: *'}` {ack}/{COPIES}"
        return [name, cell([one[0] for one in closed]), cell([one[1] for one in closed]), f"{rate:,}",
                cell([one[2] for one in half], 2), cell([one[3] for one in half], 2),
                str(sum(one[4] for one in closed + half))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default=os.environ.get("CARGO_TARGET_DIR", "target"), help="where the builds are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--only", default="", help="what is measured, as a list with commas; everything if nothing is said")
    parser.add_argument("--quick", action="store_true", help="tiny: shows that it works; its figures mean nothing")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds, arguments.records, arguments.connections = 1, 1, 2_000, 8
    sides = {"door", "cluster"}
    only = set(filter(None, arguments.only.split(",")))
    if unknown := only - sides - {name_of(case) for case in CASES} - {"range"}:
        parser.error(f"--only has {', '.join(sorted(unknown))}")
    # What is left out says nothing about the other kind of words.
    sides, what = only & sides or sides, only - sides
    cases = [case for case in CASES if not what or name_of(case) in what]
    bench = Bench(arguments)
    try:
        if "door" in sides:
            measure_door(bench, cases, not what or "range" in what)
            end_all()
            running.clear()
        if "cluster" in sides:
            measure_cluster(bench, cases, not what or "range" in what)
    finally:
        end_all()
        shutil.rmtree(bench.dir)


def name_of(case):
    return f"{case[0]}-{case[1]}"


def measure_door(bench, cases, with_range):
    cassandra = Cassandra(bench.target)
    plain, lwt = (bench.door(cassandra.nodes, keyspace, writes) for keyspace, writes in (("plain", "plain"), ("lwt", "lwt")))
    bare = {door: Bare(bench, cassandra.nodes, keyspace) for door, keyspace in ((plain, "plain_rf3"), (lwt, "lwt_rf3"))}
    bare[plain].ask("fill", "all", 1, bench.records if with_range else bench.keys)
    bare[lwt].ask("fill", "all", 1, bench.keys)
    print(f"### A door beside the bare driver: {bench.connections} connections, values of 100 B, {COPIES} nodes\n")
    rows = []
    for case in cases:
        door = lwt if case[0] == "if-match" else plain
        rows.append(bench.compare(case, door, bare[door]))
    table(["", "door, requests/s", "driver, requests/s", "door, CPU µs/request", "driver, CPU µs/request", "CPU, ratio",
           "half of capacity, requests/s", "door, CPU µs/request at half", "driver, at half", "CPU at half, ratio", "door p50, ms",
           "driver p50, ms", "added, ms", "door p99, ms", "driver p99, ms",
           "bad"], rows)
    if with_range:
        print_range(bench, "a door to Cassandra", plain, "")


def measure_cluster(bench, cases, with_range):
    cluster = bench.cluster()
    bench.fill(cluster.url)
    print(f"### A cluster of Ladoga: {bench.connections} connections, values of 100 B, {COPIES} nodes\n")
    table(["", "requests/s", "CPU of all nodes, µs/request", "half of capacity, requests/s", "p50, ms", "p99, ms", "bad"],
          [bench.alone(case, cluster) for case in cases])
    if with_range:
        print_range(bench, "a cluster of Ladoga", cluster, "&scope=cluster")


def print_range(bench, name, side, scope):
    rounds = [side.range(scope) for _ in range(bench.rounds)]
    print("### A range of everything\n")
    table(["", "records", "records/s", "most memory of the first process, MiB"],
          [[name, f"{rounds[0][1]:,}", cell([one[0] for one in rounds]), f"{side.most_memory_kib() / 1024:.0f}"]])


if __name__ == "__main__":
    main()
