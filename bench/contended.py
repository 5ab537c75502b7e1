#!/usr/bin/env python3
"""Increments beside plain PUTs of the same key, in a cluster of three nodes: how many are decided, build beside build.

    python3 bench/contended.py [--rounds N] [--seconds N] BUILD [BUILD]

BUILD is a build of `ladoga`. Six clients increment one key and three overwrite it, as fast as they can or every five milliseconds, through
all nodes or through one of them (four and two clients then). What is told: requests of a second that were decided, the share that got
`504`, "nobody knows whether it took effect", and how long an increment took. Takes half a minute a round for each build.
"""
import argparse
import collections
import http.client
import socket
import statistics
import subprocess
import tempfile
import threading
import time

LOADS = {
    "all nodes": (3, 6, 3, 0),
    "all nodes, 600 PUT/s at most": (3, 6, 3, 0.005),
    "one node": (1, 4, 2, 0),
    "one node, 400 PUT/s at most": (1, 4, 2, 0.005),
}


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


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
            for _ in range(300):
                try:
                    if ask(http.client.HTTPConnection("127.0.0.1", port, timeout=5), "GET", "/readyz") == 200:
                        break
                except OSError:
                    pass
                time.sleep(0.1)
            else:
                raise SystemExit(f"the node at port {port} does not serve")
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
    told, took = collections.Counter(), []
    with tempfile.TemporaryDirectory() as data, Cluster(build, data) as cluster:
        end = time.monotonic() + seconds

        def increment(port):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            while (began := time.monotonic()) < end:
                told["increment", ask(connection, "POST", "/v0/entity?id=contended&increment=1")] += 1
                took.append(time.monotonic() - began)

        def put(port):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            while time.monotonic() < end:
                told["put", ask(connection, "PUT", "/v0/entity?id=contended", "0")] += 1
                time.sleep(pause)

        clients = [(increment, client) for client in range(increments)] + [(put, client) for client in range(puts)]
        threads = [threading.Thread(target=act, args=(cluster.ports[n % through],)) for act, n in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    took.sort()
    figures = {}
    for kind, success in (("increment", 200), ("put", 201)):
        asked = sum(count for (of, _), count in told.items() if of == kind)
        figures[f"{kind}s/s"] = told[kind, success] / seconds
        figures[f"{kind}s undecided, %"] = 100 * told[kind, 504] / asked
    figures["increment, p50 ms"] = 1000 * took[len(took) // 2]
    figures["increment, p99 ms"] = 1000 * took[len(took) * 99 // 100]
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
