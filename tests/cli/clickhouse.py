#!/usr/bin/env python3
"""Loads profiles into ClickHouse's engine (chdb), and runs every statement of docs/fleet.md.

usage: clickhouse.py VITRINE SUBJECT PAGE VENV

Once from a file in json-flat, once by --export: HTTP requests that the engine executes as ClickHouse's server does. Sums
in the engine must be those of the file that vitrine wrote in its other JSON format at the same time.
VENV: where chdb-core is installed by pip, unless it is there already.
"""
import collections
import contextlib
import gzip
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import urllib.parse

vitrine, subject, page, venv = sys.argv[1:]
python = pathlib.Path(venv, "bin", "python3")
if pathlib.Path(sys.prefix) != pathlib.Path(venv):
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    if subprocess.run([python, "-c", "import chdb"], stderr=subprocess.DEVNULL).returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "chdb-core>=26"], check=True)
    os.execv(python, [python, *sys.argv])

from chdb import session  # noqa: E402

failures = []


def expect_equal(what, have, wanted):
    if have != wanted:
        failures.append(f"{what}: {have}, not {wanted}")


def rows(text):
    return [json.loads(line) for line in text.splitlines()]


@contextlib.contextmanager
def busy_subject():
    target = subprocess.Popen([subject, "burn acme"], stdout=subprocess.PIPE)
    target.stdout.readline()
    try:
        yield target.pid
    finally:
        target.kill()
        target.wait()


def sums_by_tenant(file):
    """Samples, and nanoseconds by measure and tenant, of a file in the format that other tests compare with all else."""
    sums, samples = collections.Counter(), 0
    for line in rows(pathlib.Path(file).read_text()):
        if "summary" in line:
            continue
        samples += 1
        tenants = [pair["value"] for pair in line["labels"] if pair["key"] == "tenant"]
        sums[line["measure"], tenants[0] if tenants else ""] += int(line["value_ns"])
    return samples, sums


class Server(http.server.ThreadingHTTPServer):
    """Executes each request in the engine. The first one fails as one too many parts does, the response to the second one
    is lost after it was inserted."""

    def __init__(self, engine, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.engine, self.folder, self.requests, self.tokens = engine, folder, 0, []
        self.lock = threading.Lock()

    def insert(self, number, parameters, body):
        file = os.path.join(self.folder, f"request-{number}")
        pathlib.Path(file).write_bytes(body)
        statement = parameters.pop("query")[0].replace("FORMAT", f"FROM INFILE '{file}' SETTINGS " + ", ".join(
            f"{name} = '{values[0]}'" for name, values in parameters.items() if name != "wait_end_of_query") + " FORMAT")
        self.engine.query(statement)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        parameters = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        with server.lock:
            number, server.requests = server.requests, server.requests + 1
            server.tokens.append(parameters["insert_deduplication_token"][0])
            status, text = 200, ""
            if number == 0:
                status, text = 500, "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)"
            else:
                try:
                    server.insert(number, parameters, body)
                except Exception as error:  # chdb has no class for it
                    status, text = 400, str(error)
                    failures.append(f"the engine refused a request: {text[:300]}")
        if number == 1:
            self.connection.close()
            return
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def profile(pid, *options, frequency="499"):
    return subprocess.run([vitrine, "profile", str(pid), "--on-cpu", "--off-cpu", "--duration", "2s", "-F", frequency, *options],
                          check=True, stderr=subprocess.PIPE, text=True).stderr


with tempfile.TemporaryDirectory() as folder:
    flat, other = os.path.join(folder, "p.flat.ndjson"), os.path.join(folder, "p.ndjson")
    with busy_subject() as pid:
        profile(pid, "-o", flat, "-o", other)
    samples, wanted = sums_by_tenant(other)
    engine = session.Session(os.path.join(folder, "engine"))

    def query(sql):
        return rows(str(engine.query(sql, "JSONEachRow")))

    without_schema = query(f"SELECT sum(count) AS n, sum(value_ns) AS ns FROM file('{flat}', JSONEachRow)")
    expect_equal("samples without a schema", int(without_schema[0]["n"]), samples)
    expect_equal("time without a schema", int(without_schema[0]["ns"]), sum(wanted.values()))

    statements = re.findall(r"```sql\n(.*?)```", pathlib.Path(page).read_text(), re.DOTALL)
    tables = [sql for sql in statements if sql.startswith("CREATE")]
    queries = [sql for sql in statements if not sql.startswith("CREATE")]
    expect_equal("statements that make tables", len(tables), 2)
    expect_equal("queries", len(queries), 10)
    engine.query("CREATE DATABASE fleet")
    engine.query("USE fleet")
    for sql in tables:
        engine.query(sql)
    engine.query(f"INSERT INTO samples FROM INFILE '{flat}' FORMAT JSONEachRow")
    by_tenant = query("SELECT measure, labels['tenant'] AS tenant, sum(value_ns) AS ns FROM samples GROUP BY ALL")
    expect_equal("sums by tenant", {(row["measure"], row["tenant"]): int(row["ns"]) for row in by_tenant},
                 dict(wanted))
    hours = query("SELECT measure, tenant, sum(ns) AS ns FROM tenant_hours GROUP BY ALL")
    expect_equal("sums of the view", {(row["measure"], row["tenant"]): int(row["ns"]) for row in hours}, dict(wanted))
    answers = [query(sql) for sql in queries]
    expect_equal("CPU seconds of acme", [row["cpu_seconds"] for row in answers[0] if row["tenant"] == "acme"],
                 [wanted["on_cpu", "acme"] / 1e9])
    self_time = sum(row["self_seconds"] for row in answers[3])
    if not 0 < self_time <= sum(ns for (measure, _), ns in wanted.items() if measure == "on_cpu") / 1e9 + 1e-6:
        failures.append(f"functions have {self_time} s of their own")
    if not any("burn" in row["folded"] for row in answers[9]):
        failures.append("no folded stack of acme has the function that it ran")
    if not all(answers[at] for at in (0, 1, 2, 3, 4, 7, 8, 9)):
        failures.append(f"queries without rows: {[at for at, rows in enumerate(answers) if not rows]}")

    # By --export, into a table of another name, which the URL gives.
    engine.query(tables[0].replace("samples", "sent", 1))
    server = Server(engine, folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with busy_subject() as pid:
        said = profile(pid, "-o", other, "--export-bytes", "64KiB",
                       "--export", f"clickhouse+http://127.0.0.1:{server.server_port}/fleet.sent", frequency="4999")
    server.shutdown()
    sent, wanted = sums_by_tenant(other)
    there = query("SELECT measure, labels['tenant'] AS tenant, sum(value_ns) AS ns, sum(count) AS n FROM sent GROUP BY ALL")
    expect_equal("samples sent", sum(int(row["n"]) for row in there), sent)
    expect_equal("sums sent", {(row["measure"], row["tenant"]): int(row["ns"]) for row in there}, dict(wanted))
    expect_equal("requests", server.requests, len(set(server.tokens)) + 2)
    if len(set(server.tokens)) < 3 or "TOO_MANY_PARTS" not in said:
        failures.append(f"{len(set(server.tokens))} requests, and vitrine said:\n{said}")

print("\n".join(failures) or f"{samples} samples, {len(queries)} queries, {sent} sent in {server.requests} requests")
sys.exit(bool(failures))
