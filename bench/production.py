#!/usr/bin/env python3
"""What running it in production costs: TLS beside nginx with the same certificate, and backups. Prints tables in Markdown.

    python3 bench/production.py [--binary FILE] [--rounds 5] [--seconds 3] [--records 1000000] [--only tls,handshakes,backup]

One node with one event loop and the load generator on the same machine; what is compared runs in alternating rounds. A cell is
`median (min..max)`. Needs a release build of `ladoga`; `tls` and `handshakes` need nginx, and `handshakes` openssl too.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from api import HERE, Node, bench, cell, cpu_us, end, free_port, run, script_of, table, wait_until_there

os.environ["PATH"] += ":/usr/local/sbin:/usr/sbin"


class Nginx:
    """One process that answers everything with 100 bytes, or a `PUT` with 201."""

    def __init__(self, certificate, key):
        self.dir, self.port = tempfile.mkdtemp(), free_port()
        temporary = "".join(f"{kind}_temp_path {kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        pathlib.Path(self.dir + "/nginx.conf").write_text(f"""
daemon off; master_process off; worker_processes 1; error_log stderr error; pid nginx.pid;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000; {temporary}
  server {{ listen 127.0.0.1:{self.port} ssl; ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;
    location / {{ if ($request_method = PUT) {{ return 201; }} return 200 "{'x' * 100}"; }} }} }}
""")
        command = ["nginx", "-p", self.dir, "-c", "nginx.conf", "-e", "stderr"]
        self.process = subprocess.Popen(command, stderr=open(self.dir + "/log", "w"))
        Node.running.append(self)
        self.url = f"https://127.0.0.1:{self.port}"
        wait_until_there(self.port)

    def cpu_us(self):
        return cpu_us(self.process.pid)

    def end(self):
        Node.running.remove(self)
        end(self.process)
        shutil.rmtree(self.dir)


def certificates(arguments):
    """Where certificates for this machine are made: the folder, and the paths of a certificate and its key."""
    folder = tempfile.mkdtemp()
    command = [arguments.binary, "certs", "create", "--dir", folder + "/certs", "--host", "localhost,127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return folder, folder + "/certs/localhost.pem", folder + "/certs/localhost.key"


def fill(arguments, node, count, folder):
    """Stores the keys that `wrk/get.lua` asks for."""
    lines = (json.dumps({"op": "put", "key": f"key:{number:012d}", "value": "v" * 100}) for number in range(count))
    path = folder + "/fill"
    pathlib.Path(path).write_text("\n".join(lines) + "\n")
    command(arguments, "batch", path, "--url", node.url, "-k")


def with_tls(arguments, certificate, key):
    return Node(arguments, flags=["--tls-cert", certificate, "--tls-key", key], scheme="https")


def tls(arguments):
    """Requests over TLS: nginx with the same certificate, and the same node in the clear."""
    print("### TLS 1.3 beside nginx with the same certificate\n")
    print("64 connections, keep-alive, closed loop; values of 100 B; nginx answers with a constant.\n")
    folder, certificate, key = certificates(arguments)
    servers = {"node, TLS": with_tls(arguments, certificate, key), "nginx, TLS": Nginx(certificate, key), "node": Node(arguments)}
    for node in (servers["node, TLS"], servers["node"]):
        fill(arguments, node, 100_001, folder)
    figures = {}
    for round_ in range(arguments.rounds):
        for method in ("PUT", "GET"):
            order = list(servers.items())
            for name, server in order if round_ % 2 else order[::-1]:
                values = [100] if method == "PUT" else []
                script = HERE / f"wrk/{method.lower()}.lua"
                figures.setdefault((method, name), []).append(bench(arguments, server, script, 100_000, *values, round_ + 1)[:2])
    rows = []
    for method, name in figures:
        mine, nginx = figures[method, name], figures[method, "nginx, TLS"]
        ratios = [[us[which] / them[which] for us, them in zip(mine, nginx)] for which in (0, 1)]
        rows.append([f"`{method}`, {name}", cell([rate for rate, _ in mine]), cell([cpu for _, cpu in mine], 2)]
                    + [cell(ratio, 2) for ratio in ratios])
    table(["", "requests/s", "CPU of the server, µs/request", "requests/s by nginx's", "CPU by nginx's"], rows)
    for server in servers.values():
        server.end()
    shutil.rmtree(folder)


def handshakes(arguments):
    """Full handshakes a second and what each costs the server, with the request that follows."""
    print("### TLS handshakes\n")
    print("`openssl s_time -new`: one client after another, each with a full handshake and one `GET`.\n")
    folder, certificate, key = certificates(arguments)
    servers = {"node": with_tls(arguments, certificate, key), "nginx": Nginx(certificate, key)}
    figures = {name: [] for name in servers}
    for _ in range(arguments.rounds):
        for name, server in servers.items():
            before = server.cpu_us()
            command = ["openssl", "s_time", "-connect", f"127.0.0.1:{server.port}", "-new", "-time", str(arguments.seconds),
                       "-www", "/v0/entity?id=key"]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            count = next(int(line.split()[0]) for line in out.splitlines() if "connections in" in line and "real" in line)
            figures[name].append((count / arguments.seconds, (server.cpu_us() - before) / count))
    rows = [[name, cell([rate for rate, _ in of]), cell([cpu for _, cpu in of])] for name, of in figures.items()]
    table(["", "connections/s", "CPU of the server, µs/connection"], rows)
    for server in servers.values():
        server.end()
    shutil.rmtree(folder)


FILL = """
local next = -1
function init(args) wrk.body = string.rep("v", 100) end
function request() next = next + 1; return wrk.format("PUT", string.format("/v0/entity?id=key:%012d", next)) end
"""


def bytes_below(folder):
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())


def command(arguments, *words):
    """How long a command takes, in seconds, and what it prints."""
    began = time.monotonic()
    done = subprocess.run([arguments.binary, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ladoga {' '.join(words)}: {done.returncode}: {done.stderr}")
    return time.monotonic() - began, done.stdout


def backup(arguments):
    """How long a backup and a restore take, how many bytes they move, and what writers notice."""
    print(f"### Backup of about {arguments.records:,} records of 100 B\n")
    node = Node(arguments)
    seconds = 0
    while (stored := records_of(node)) < arguments.records:
        bench(arguments, node, script_of(node, FILL.replace("-1", str(stored))), connections=64, seconds=5)
        seconds += 5
    repository, restored = tempfile.mkdtemp(dir=arguments.dir), tempfile.mkdtemp(dir=arguments.dir)
    to = ["backup", "create", "--to", repository, "--url", node.url]
    rows, stored = [], bytes_below(node.dir + "/data")
    rows.append(["records, bytes of the data directory", f"{records_of(node):,}, {stored / 1e6:,.0f} MB"])
    for name in ("first backup", "second backup, nothing changed"):
        before = bytes_below(repository)
        took, _ = command(arguments, *to)
        added = bytes_below(repository) - before
        rows.append([name, f"{took:.1f} s, {added / 1e6:,.3f} MB ({100 * added / stored:.3f} %)"])
    rows.append(["verify", f"{command(arguments, 'backup', 'verify', '--to', repository)[0]:.1f} s"])
    took, _ = command(arguments, "restore", "--from", repository, "--data", restored + "/data")
    rows.append(["restore into a directory", f"{took:.1f} s"])
    table(["", ""], rows)
    writers(arguments, node)
    node.end()
    for folder in (repository, restored):
        shutil.rmtree(folder)


def writers(arguments, node):
    """`PUT` at a fixed rate, alone and beside first backups, one after another."""
    rate, script = 20_000, HERE / "wrk/put.lua"
    latencies = {"alone": [], "beside backups": []}
    for round_ in range(arguments.rounds):
        for name, of in latencies.items():
            over, repositories = threading.Event(), []

            def back_up():
                while not over.is_set():
                    repositories.append(tempfile.mkdtemp(dir=arguments.dir))
                    command(arguments, "backup", "create", "--to", repositories[-1], "--url", node.url)

            thread = threading.Thread(target=back_up)
            if name != "alone":
                thread.start()
            of.append(bench(arguments, node, script, 1_000_000, 100, round_ + 1, rate=rate, seconds=3 * arguments.seconds)[2])
            over.set()
            if name != "alone":
                thread.join()
            for repository in repositories:
                shutil.rmtree(repository)
    print(f"`PUT` at {rate:,}/s on 64 connections, latency in ms:\n")
    at = {"p50": "p50", "p99": "p99", "p99.9": "p99.9", "max": "max"}
    rows = [[name] + [cell([one[figure] / 1000 for one in of], 2) for figure in at] for name, of in latencies.items()]
    table(["", *at], rows)


def records_of(node):
    url = node.url + "/v0/entities?start=%00&count=true"
    out = subprocess.run(["curl", "-sf", url], check=True, capture_output=True, text=True).stdout
    return int(out)


if __name__ == "__main__":
    run(__doc__, {"tls": tls, "handshakes": handshakes, "backup": backup})
