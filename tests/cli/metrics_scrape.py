#!/usr/bin/env python3
"""vitrine trace -o FILE.prom and vitrine agent beside Prometheus: promtool finds nothing in their files, and a server that
scrapes them, and the page of the agent, answers with what has fired, and with trace IDs as exemplars.

    metrics_scrape.py VITRINE TRACE_SUBJECT SPANS_SUBJECT
"""
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROUNDS = 50
PAIRS = 3 * ROUNDS
OPERATIONS = 300  # of spans_subject, by turns for three tenants
TRACE = bytes(range(1, 17)).hex()
PATIENCE = 60  # seconds


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, question):
    """What `question` answers, asked again while it is None."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = question()
        if answer is not None:
            return answer
        time.sleep(0.2)
    raise SystemExit(f"FAILED waited {PATIENCE} s for {what}")


def serve(path):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):  # noqa: N802
            with open(path, "rb") as file:
                body = file.read()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def traced(vitrine, subject, options, path):
    """The file that `vitrine trace` leaves of a subject that fires three probes in each of ROUNDS."""
    child = subprocess.Popen([subject], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert "ready" in child.stdout.readline()
    command = [vitrine, "trace", str(child.pid), *options, "-o", path, "--interval", "200ms"]
    trace = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while "tracing" not in (line := trace.stderr.readline()):
        assert line, "vitrine has ended"
    for _ in range(ROUNDS):
        child.stdin.write("fire 3\n")
        child.stdin.flush()
        child.stdout.readline()
    trace.send_signal(signal.SIGINT)
    output, errors = trace.communicate(timeout=PATIENCE)
    child.kill()
    child.wait()
    assert trace.returncode == 130 and output == "", (trace.returncode, output, errors)


@contextlib.contextmanager
def agent(vitrine, subject, textfile):
    """An agent that counts the operations of a subject, all of which are over: the port of its page. The subject is a file
    of its own: the agent traces every process that runs it, those of other tests too."""
    subject = shutil.copy(subject, f"{os.path.dirname(textfile)}/spans_subject")
    child = subprocess.Popen([subject, str(OPERATIONS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()  # its labels are read only once vitrine knows it
    table = f'{{ name = "ends", file = "{subject}", probes = ["shop:end"], count = true, by = ["tenant"], exemplars = true }}'
    process = subprocess.Popen([vitrine, "agent", "--trace", table, "--metrics-by", "tenant", "--textfile", textfile,
                                "--metrics-interval", "300ms", "--interval", "300ms", "--listen", "127.0.0.1:0"],
                               stderr=subprocess.PIPE, text=True)
    try:
        while not (port := re.search(r"127\.0\.0\.1:(\d+)/metrics", line := process.stderr.readline())):
            assert line, "the agent has ended"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        child.stdin.write("go\n")
        child.stdin.flush()

        def counted():
            with open(textfile, encoding="utf-8") as file:
                text = file.read()
            found = re.findall(r"^vitrine_probe_fires_total\{.*\} (\d+)", text, re.M)
            return text if sum(map(int, found)) == OPERATIONS else None

        until("the text file", lambda: counted() if os.path.exists(textfile) else None)
        yield int(port[1])
    finally:
        child.kill()
        child.wait()
        process.terminate()
        status = process.wait(PATIENCE)
    assert status == 0, status


def check(path):
    with open(path, "rb") as file:
        run = subprocess.run(["promtool", "check", "metrics"], stdin=file, capture_output=True, text=True, check=False)
    if run.returncode != 0 or run.stdout or run.stderr:
        raise SystemExit(f"FAILED promtool of {path}: {run.stdout}{run.stderr}")


def main():
    vitrine, subject, spans = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place, agent(vitrine, spans, f"{place}/agent.prom") as page:
        check(f"{place}/agent.prom")
        paths = {}
        for name, options in (("count", ["subject:shot", "--count", "--by", "text"]),
                              ("sum", ["subject:shot", "--sum", "number", "--by", "text"]),
                              ("hist", ["subject:shot", "--hist", "number"]),
                              ("latency", ["--latency", "subject:shot,subject:guarded"])):
            paths[name] = f"{place}/{name}.prom"
            traced(vitrine, subject, options, paths[name])
            check(paths[name])
        with open(f"{place}/all.yml", "w", encoding="utf-8") as file:
            jobs = [{"job_name": name, "scrape_interval": "1s", "scrape_timeout": "1s",
                     "static_configs": [{"targets": [f"127.0.0.1:{serve(path)}"]}]} for name, path in paths.items()]
            jobs.append(jobs[0] | {"job_name": "agent", "static_configs": [{"targets": [f"127.0.0.1:{page}"]}]})
            json.dump({"scrape_configs": jobs}, file)  # which is YAML, too
        port = free_port()
        server = subprocess.Popen(["prometheus", f"--config.file={place}/all.yml", f"--storage.tsdb.path={place}/data",
                                   f"--web.listen-address=127.0.0.1:{port}", "--enable-feature=exemplar-storage"],
                                  stderr=subprocess.DEVNULL)

        def data(name, query, **more):
            url = f"http://127.0.0.1:{port}/api/v1/{name}?" + urllib.parse.urlencode({"query": query} | more)
            try:
                with urllib.request.urlopen(url, timeout=5) as response:
                    return json.load(response)["data"]
            except (urllib.error.URLError, ConnectionError):
                return None

        def ask(query):
            found = (data("query", query) or {"result": []})["result"]
            return {row["metric"].get("text") or row["metric"].get("tenant", ""): float(row["value"][1])
                    for row in found} or None

        def exemplars():
            found = data("query_exemplars", "vitrine_probe_fires_total{trace='ends'}", start=time.time() - 600, end=time.time())
            return {one["labels"]["trace_id"] for series in found or [] for one in series["exemplars"]} or None

        try:
            shots = {"shot 0": ROUNDS, "shot 1": ROUNDS, "shot 2": ROUNDS}
            turn = OPERATIONS // 3
            for query, expected in (
                    ("vitrine_probe_fires_total{trace='ends'}", {"acme": turn, "globex": turn, "initech": turn}),
                    ("vitrine_agent_samples_total > bool 0", {"": 1}),
                    ("sum(vitrine_cpu_seconds_total{job='agent'}) > bool 0", {"": 1}),
                    ('vitrine_probe_fires_total{probe="subject:shot"}', shots),
                    ("vitrine_probe_value_count{job='sum'}", shots),
                    ("vitrine_probe_value_sum{job='sum'}", {"shot 0": 0, "shot 1": ROUNDS, "shot 2": 2 * ROUNDS}),
                    ("vitrine_probe_value_bucket{job='hist',le='0'}", {"": ROUNDS}),
                    ("vitrine_probe_value_bucket{job='hist',le='1'}", {"": 2 * ROUNDS}),
                    ("vitrine_probe_latency_seconds_count", {"": PAIRS}),
                    ("vitrine_probe_latency_seconds_bucket{le='+Inf'}", {"": PAIRS}),
                    ("max by () (histogram_quantile(0.5, vitrine_probe_latency_seconds_bucket) < bool 60)", {"": 1})):
                answer = until(query, lambda query=query: ask(query))
                print(query, answer)
                if answer != expected:
                    raise SystemExit(f"FAILED {query}: {answer}, expected {expected}")
            if (found := until("exemplars", exemplars)) != {TRACE}:
                raise SystemExit(f"FAILED exemplars: {found}, expected {TRACE}")
        finally:
            server.terminate()
            server.wait()
    print(f"promtool finds nothing in {len(paths)} files; Prometheus has the numbers")


if __name__ == "__main__":
    main()
