#!/usr/bin/env python3
"""Increments beside plain PUTs of the same key, in a cluster of three nodes: how many are decided, build beside build.

    python3 bench/contended.py [--rounds N] [--seconds N] BUILD [BUILD]

BUILD is a build of `ladoga`. Six clients increment one key and three overwrite it, as fast as they can or with a pause of five milliseconds, through
all nodes or through one of them (four and two clients then). What is told: requests of a second that were decided, the share that got
`504`, "nobody knows whether it took effect", and how long they took. Takes half a minute a round for each build.
"""
import argparse
import collections
import http.client
import statistics
import subprocess
import tempfile
import threading
import time

from instructions import free_ports, wait_until_served

TARGET = "/v0/entity?id=contended"
LOADS = {
    "all nodes": (3, 6, 3, 0),
    "all nodes, a pause of 5 ms behind each PUT": (3, 6, 3, 0.005),
    "one node": (1, 4, 2, 0),
    "one node, a pause of 5 ms behind each PUT": (1, 4, 2, 0.005),
}


class Cluster:
    def __init__(self, build, data):
        self.ports = free_ports(3)
        nodes = ",".join(f"http://127.0.0.1:{port}" for port in self.ports)
        self.nodes = [
            subprocess.Popen(
                [build, "serve", "--data", f"{data}/{port}", "--listen", f"127.0.0.1:{port}", "--cluster", nodes],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for port in self.ports
        ]

    def __enter__(self):
        for port in self.ports:
            wait_until_served(port)
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait()


def ask(connection, method, target, body=None):
    connection.request(method, target, body=body)
    answer = connection.getresponse()
    answer.read()
    return answer.status


def run(build, load, seconds):
    through, increments, puts, pause = LOADS[load]
    told, took, failed = collections.Counter(), {"increment": [], "put": []}, []
    with tempfile.TemporaryDirectory() as data, Cluster(build, data) as cluster:
        end = time.monotonic() + seconds

        def act(kind, port):
            request = {"increment": ("POST", f"{TARGET}&increment=1"), "put": ("PUT", TARGET, "0")}[kind]
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                while (began := time.monotonic()) < end:
                    told[kind, ask(connection, *request)] += 1
                    took[kind].append(time.monotonic() - began)
                    time.sleep(pause if kind == "put" else 0)
            except (OSError, http.client.HTTPException) as error:
                failed.append(f"{kind} through port {port}: {error}")

        clients = [("increment", n) for n in range(increments)] + [("put", n) for n in range(puts)]
        threads = [threading.Thread(target=act, args=(kind, cluster.ports[n % through])) for kind, n in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise SystemExit(f"{load}: {failed[0]}")
    figures = {}
    for kind, success in (("increment", 200), ("put", 201)):
        figures[f"{kind}s/s"] = told[kind, success] / seconds
        figures[f"{kind}s undecided, %"] = 100 * told[kind, 504] / len(took[kind])
        took[kind].sort()
        for percent in (50, 99):
            figures[f"{kind}, p{percent} ms"] = 1000 * took[kind][len(took[kind]) * percent // 100]
    return figures


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("builds", nargs="+", metavar="BUILD")
    asked = arguments.parse_args()
    for load in LOADS:
        rounds = [[run(build, load, asked.seconds) for build in asked.builds] for _ in range(asked.rounds)]
        for place, build in enumerate(asked.builds):
            print(f"{load}: {build}")
            for figure in rounds[0][place]:
                values = [of_builds[place][figure] for of_builds in rounds]
                print(f"  {figure:24} {statistics.median(values):8.2f} ({min(values):.2f}..{max(values):.2f})", flush=True)


if __name__ == "__main__":
    main()
