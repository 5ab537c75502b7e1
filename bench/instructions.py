#!/usr/bin/env python3
"""Counts the instructions that nodes execute in user space for a plain PUT or GET, build beside build.

    python3 bench/instructions.py [--nodes 1|3] [--method PUT|GET] [--rounds N] [--requests N] BEFORE AFTER

BEFORE and AFTER are builds of `ladoga`. One node, or a cluster of three, runs under `valgrind --tool=callgrind`, with one event loop each
and `--fsync never`; one connection sends one request after the other, to a cluster with `replicas=2/3`. Counted is what a run with many
requests has more than one with few, over the requests that it has more. Time does not count, so other work on the machine disturbs
little: what remains is what nodes do by the clock. Needs valgrind; takes a minute a round.
"""
import argparse
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.request

FEW = 500
KEYS = 5000


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until_served(port):
    for _ in range(600):
        try:
            if urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"the node at port {port} does not serve")


def ask_all(port, method, requests, query):
    """Sends so many requests. Values have 100 bytes."""
    connection = socket.create_connection(("127.0.0.1", port))
    answers = connection.makefile("rb")
    length, value = ("Content-Length: 100\r\n", b"v" * 100) if method == "PUT" else ("", b"")
    for number in range(requests):
        key = "key%06d" % (number * 7919 % KEYS)
        head = f"{method} /v0/entity?id={key}{query} HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n{length}\r\n"
        connection.sendall(head.encode() + value)
        status = answers.readline()
        if (b" 201 " if method == "PUT" else b" 200 ") not in status:
            raise SystemExit(f"a {method} was not done: {status!r}")
        while answers.readline() != b"\r\n":
            pass
        if method == "GET":
            answers.read(100)


def instructions(binary, requests, method, nodes_count):
    ports = free_ports(nodes_count)
    cluster, query = [], ""
    if nodes_count > 1:
        cluster, query = ["--cluster", ",".join(f"http://127.0.0.1:{port}" for port in ports)], "&replicas=2/3"
    environment = dict(os.environ, LADOGA_QUORUM_TIMEOUT_MS="60000")
    with tempfile.TemporaryDirectory() as folder:
        nodes = []
        try:
            for port in ports:
                command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, "serve"]
                command += ["--listen", f"127.0.0.1:{port}", "--data", f"{folder}/{port}"]
                command += ["--threads", "1", "--fsync", "never", *cluster]
                with open(f"{folder}/{port}.log", "w") as log:
                    nodes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))
            for port in ports:
                wait_until_served(port)
            if method == "GET":
                ask_all(ports[0], "PUT", KEYS, query)
            ask_all(ports[0], method, requests, query)
        finally:
            for node in nodes:
                node.terminate()
            for node in nodes:
                node.wait()
        logs = [open(f"{folder}/{port}.log").read() for port in ports]
        return sum(int(re.findall(r"Collected : (\d+)", log)[-1]) for log in logs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=3)
    parser.add_argument("--method", choices=["PUT", "GET"], default="PUT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("before")
    parser.add_argument("after")
    arguments = parser.parse_args()
    found = {"before": [], "after": []}
    for number in range(arguments.rounds):
        for name in ["before", "after"] if number % 2 == 0 else ["after", "before"]:
            binary = getattr(arguments, name)
            few, many = (
                instructions(binary, requests, arguments.method, arguments.nodes)
                for requests in [FEW, FEW + arguments.requests]
            )
            more = many - few
            found[name].append(more / arguments.requests)
            print(f"round {number + 1}, {name}: {found[name][-1]:,.0f} instructions a {arguments.method}", flush=True)
    for name, figures in found.items():
        print(f"{name}: {statistics.median(figures):,.0f} ({min(figures):,.0f}..{max(figures):,.0f})")
    ratios = [after / before for before, after in zip(found["before"], found["after"])]
    print(f"after / before: {statistics.median(ratios):.3f} ({min(ratios):.3f}..{max(ratios):.3f})")


if __name__ == "__main__":
    main()
