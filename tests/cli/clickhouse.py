#!/usr/bin/env python3
"""Loads a profile in json-flat into ClickHouse's engine (chdb), and runs every statement of docs/fleet.md.

usage: clickhouse.py VITRINE SUBJECT PAGE VENV

Sums in the engine must be those of the file that vitrine wrote in its other JSON format at the same time.
VENV: where chdb-core is installed by pip, unless it is there already.
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

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


with tempfile.TemporaryDirectory() as folder:
    flat, other = os.path.join(folder, "p.flat.ndjson"), os.path.join(folder, "p.ndjson")
    target = subprocess.Popen([subject, "burn acme"], stdout=subprocess.PIPE)
    target.stdout.readline()
    try:
        subprocess.run([vitrine, "profile", str(target.pid), "--on-cpu", "--off-cpu", "--duration", "2s", "-F", "499",
                        "-o", flat, "-o", other], check=True)
    finally:
        target.kill()
        target.wait()
    # The sums of a file in the format that other tests compare with everything else.
    wanted, samples = collections.Counter(), 0
    for line in rows(pathlib.Path(other).read_text()):
        if "summary" in line:
            continue
        samples += 1
        tenants = [pair["value"] for pair in line["labels"] if pair["key"] == "tenant"]
        wanted[line["measure"], tenants[0] if tenants else ""] += int(line["value_ns"])
    engine = session.Session(os.path.join(folder, "engine"))

    def query(sql):
        return rows(str(engine.query(sql, "JSONEachRow")))

    without_schema = query(f"SELECT count() AS n, sum(value_ns) AS ns FROM file('{flat}', JSONEachRow)")
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

print("\n".join(failures) or f"{samples} samples, {len(queries)} queries")
sys.exit(bool(failures))
