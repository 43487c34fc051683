#!/usr/bin/env python3
"""vitrine agent beside profiles: CPU time by label as metrics, and traces of probes as metrics, spans and log records.

    agent_signals.py VITRINE SPANS_SUBJECT PROFILE_SUBJECT RECEIVER.PY SCHEMA_FOLDER DECODED_FOLDER

What arrives at a receiver of OTLP, what the page and the text file show, and what the agent's own files of samples hold must
be the same. Processes are selected by a real control group, whose name is that of a container, and by their service.
"""
import atexit
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

VITRINE, SPANS, BURNER, RECEIVER, SCHEMA, DECODED = sys.argv[1:]
sys.path.insert(0, DECODED)
import decoded  # noqa: E402

decoded.HERE = pathlib.Path(SCHEMA)
N = 600
TENANTS = ("acme", "globex", "initech")
TRACE = bytes(range(1, 17))
PATIENCE = 60  # seconds
CONTAINER = "c0ffee" * 10 + "1234"
plain_value = decoded.value


def value(text):
    """Enumerators and fractions, too."""
    try:
        return plain_value(text)
    except ValueError:
        return text


decoded.value = value


def equal(what, found, expected):
    if found != expected:
        raise SystemExit(f"FAILED {what}: {found}, expected {expected}")


def until(what, question):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if (answer := question()) is not None:
            return answer
        time.sleep(0.1)
    raise SystemExit(f"FAILED waited {PATIENCE} s for {what}")


class Collector:
    def __init__(self, *answers):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen([sys.executable, RECEIVER, self.folder.name, *(answers or ("200",))],
                                        stdout=subprocess.PIPE, text=True)
        self.url = f"otlp+http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def end(self):
        """Path -> bodies."""
        self.process.kill()
        found = collections.defaultdict(list)
        for line in map(json.loads, self.process.stdout.read().splitlines()):
            found[line["path"]].append(pathlib.Path(line["body"]).read_bytes())
        return found


def attributes(message):
    return {pair.one("key").decode(): next(iter(pair.one("value").values()))[-1] for pair in message.all("attributes")}


def items(bodies, kind, names):
    return [item for body in bodies for resource in decoded.decode("signals.proto", f"otlp.{kind}", body).all(names[0])
            for scope in resource.all(names[1]) for item in scope.all(names[2])]


def last_points(bodies):
    """(name, attributes) -> point, the last that came."""
    found = {}
    for metric in items(bodies, "MetricsData", ("resource_metrics", "scope_metrics", "metrics")):
        kind = next(name for name in ("sum", "gauge", "exponential_histogram") if name in metric)
        for point in metric.one(kind).all("data_points"):
            its = {key: text.decode() for key, text in attributes(point).items()}
            found[metric.one("name").decode(), frozenset(its.items())] = point
    return found


class Agent:
    def __init__(self, folder, text, *more):
        self.file = pathlib.Path(folder, "agent.toml")
        self.file.write_text(text)
        self.process = subprocess.Popen([VITRINE, "agent", self.file, *more], stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # it would hold the output of a failed test open
        self.said = ""
        self.changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        self.port = re.search(r"127\.0\.0\.1:(\d+)/metrics", self.until("profiling: "))[1]

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.said += line
                self.changed.notify_all()

    def until(self, text, after=0):
        with self.changed:
            if not self.changed.wait_for(lambda: "\n" in self.said[self.said.find(text, after):]
                                         and text in self.said[after:], PATIENCE):
                raise SystemExit(f"FAILED the agent never said {text!r}:\n{self.said}")
            return self.said

    def page(self):
        """Series -> value."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE) as response:
            return series_of(response.read().decode())

    def reload(self, text):
        after = len(self.said)
        self.file.write_text(text)
        self.process.send_signal(signal.SIGHUP)
        self.until("the configuration is reloaded", after)

    def end(self, expected=0):
        self.process.send_signal(signal.SIGTERM)
        equal("exit code", (self.process.wait(PATIENCE), self.said), (expected, self.said))


def series_of(text):
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, number = re.fullmatch(r"(\S+(?:\{.*?\})?) (\S+)(?: # .*)?", line).groups()
            assert name not in found, name
            found[name] = float(number)
    return found


@contextlib.contextmanager
def operations(number, program):
    """What begins them. Their process is there before, as its labels are read only once vitrine knows it."""
    child = subprocess.Popen([program, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()

    def begin():
        child.stdin.write("go\n")
        child.stdin.flush()

    try:
        yield begin
    finally:
        child.kill()
        child.wait()


def operate(number, program):
    subprocess.run([program, str(number)], input="go\n", stdout=subprocess.DEVNULL, text=True, check=True)


@contextlib.contextmanager
def burner(tenant, **options):
    child = subprocess.Popen([BURNER, f"burn {tenant}"], stdout=subprocess.PIPE, text=True, **options)
    child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def settings(folder, url, select, traces=""):
    return f"""
[profile]
interval = "300ms"
[select]
{select}
[export]
signals_url = "{url}"
spool = "{folder}/spool"
[metrics]
by = ["tenant", "service.name"]
interval = "300ms"
textfile = "{folder}/vitrine.prom"
[files]
output = ["{folder}/%t.ndjson"]
[agent]
listen = "127.0.0.1:0"
{traces}"""


def traces(program, folder):
    return f"""
[[trace]]
name = "ends"
file = "{program}"
probes = ["shop:end"]
count = true
by = ["tenant"]
label_values = 2
exemplars = true
[[trace]]
file = "{program}"
latency = ["shop:begin", "shop:end"]
match = "id"
[[trace]]
name = "operations"
file = "{program}"
spans = ["shop:begin", "shop:end"]
match = "id"
[[trace]]
name = "logs"
file = "{program}"
probes = ["shop:end"]
where = "amount < 100 && tenant == \\"acme\\""
[[trace]]
name = "later"
file = "{folder}/later"
probes = ["shop:begin"]
count = true
"""


def probes_and_time():
    collector = Collector()
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(SPANS, f"{folder}/subject")
        text = settings(folder, collector.url, f'process = ["{BURNING}"]', traces(program, folder))
        with burner("acme", env={**os.environ, "OTEL_SERVICE_NAME": "oven"}), operations(N, program) as begin:
            agent = Agent(folder, text)
            assert f"trace later: cannot open {folder}/later" in agent.said, agent.said
            begin()
            fires = 'vitrine_probe_fires_total{{trace="ends",probe="shop:end",tenant="{}"}}'
            until("fires", lambda: sum(agent.page().get(fires.format(tenant), 0)
                                       for tenant in (*TENANTS, "__other__")) == N or None)
            until("CPU time", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme",service_name="oven"}'))
            # A file that comes later, and one that an update replaces: counters begin at 0.
            shutil.copy(SPANS, f"{folder}/later.new")
            os.rename(f"{folder}/later.new", f"{folder}/later")
            agent.until("trace later: its files are there now")
            operate(30, f"{folder}/later")
            later = 'vitrine_probe_fires_total{trace="later",probe="shop:begin"}'
            until("fires of the file that came", lambda: agent.page().get(later) == 30 or None)
            shutil.copy(SPANS, f"{folder}/later.new")
            os.rename(f"{folder}/later.new", f"{folder}/later")
            agent.until("trace later: a file was replaced")
            operate(6, f"{folder}/later")
            until("fires of the new file", lambda: agent.page().get(later) == 6 or None)
            agent.end()
        arrived = collector.end()
        points = last_points(arrived["/v1/metrics"])
        file = series_of(pathlib.Path(folder, "vitrine.prom").read_text())

        def point(name, **labels):
            return points[name, frozenset(labels.items())]

        # Of three tenants two have series of their own.
        counts = {dict(labels)["tenant"]: point for (name, labels), point in points.items()
                  if name == "vitrine.probe.fires" and ("trace", "ends") in labels}
        equal("counts", sorted(one.one("as_int") for one in counts.values()), [N // 3] * 3)
        equal("tenants", len(set(counts) & set(TENANTS)), 2)
        assert "__other__" in counts, counts
        equal("exemplars", {one.one("exemplars").one("trace_id") for one in counts.values()}, {TRACE})
        equal("folded", point("vitrine.trace.folded.values", trace="ends", key="tenant").one("as_int"), 1)
        latency = point("vitrine.probe.latency", trace="shop:begin", probe="shop:end")
        equal("latencies", latency.one("count"), N)
        equal("the same in the file", file['vitrine_probe_latency_seconds_count{trace="shop:begin",probe="shop:end"}'], N)
        spans = items(arrived["/v1/traces"], "TracesData", ("resource_spans", "scope_spans", "spans"))
        equal("spans", (len(spans), len({span.one("span_id") for span in spans})), (N, N))
        equal("children", sum(span.one("trace_id") == TRACE for span in spans), N // 2)
        logs = items(arrived["/v1/logs"], "LogsData", ("resource_logs", "scope_logs", "log_records"))
        wanted = [number for number in range(N) if number % 3 == 0 and number % 300 < 100]
        equal("log records", sorted(attributes(one)["arg.id"] for one in logs), wanted)
        equal("events", point("vitrine.trace.events", trace="logs").one("as_int"), len(wanted))

        # CPU time: as the samples in the files are.
        wanted, samples = collections.Counter(), 0
        for path in pathlib.Path(folder).glob("*.ndjson"):
            for line in map(json.loads, path.read_text().splitlines()):
                if "summary" not in line:
                    wanted[tuple(sorted((one["key"], one["value"]) for one in line["labels"]))] += int(line["value_ns"])
                    samples += 1
        acme = sum(ns for labels, ns in wanted.items() if ("tenant", "acme") in labels)
        for where, found in (("file", file['vitrine_cpu_seconds_total{tenant="acme",service_name="oven"}']),
                             ("receiver", point("vitrine.cpu.time", tenant="acme", **{"service.name": "oven"})
                              .one("as_double"))):
            equal(f"CPU time of acme, {where}", round(float(found) * 1e9), acme)
        own = point("vitrine.agent.samples").one("as_int")
        assert own > 0 and samples >= own, (own, samples)
        equal("spools", sorted(path.name for path in pathlib.Path(folder).glob("spool*")),
              ["spool-logs", "spool-metrics", "spool-spans"])
    print(f"{N} operations as metrics, spans and log records; {acme / 1e9:.2f} s of CPU time, {samples} samples")


def reload():
    """Metrics of a new configuration are sent: the ones before have left their spool to them."""
    collector = Collector()
    with tempfile.TemporaryDirectory() as folder, burner("acme", env={**os.environ, "OTEL_SERVICE_NAME": "oven"}):
        text = settings(folder, collector.url, f'process = ["{BURNING}"]')
        agent = Agent(folder, text)
        until("CPU time", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme",service_name="oven"}'))
        agent.reload(text.replace('by = ["tenant", "service.name"]', 'by = ["tenant"]'))
        until("CPU time by tenant alone", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme"}'))
        agent.end()
        points = last_points(collector.end()["/v1/metrics"])
        for labels in ({"tenant": "acme", "service.name": "oven"}, {"tenant": "acme"}):
            assert ("vitrine.cpu.time", frozenset(labels.items())) in points, (labels, sorted(map(str, points)), agent.said)
    print("metrics are sent before and after a reload")


@contextlib.contextmanager
def control_group(name):
    """A path in cgroup2, and what has a process join it."""
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["mount", "-t", "cgroup2", "none", root], check=True)
        group = pathlib.Path(root, name)
        try:
            group.mkdir(parents=True)
            yield f"/{name}", lambda: (group / "cgroup.procs").write_text("0")
        finally:
            time.sleep(0.1)
            group.rmdir()
            subprocess.run(["umount", root], check=True)


def selection():
    """Only processes of a control group, of a container, of a service; and a reload that chooses another one."""
    with tempfile.TemporaryDirectory() as folder, \
            control_group(f"vitrine-test-{os.getpid()}-docker-{CONTAINER}.scope") as (path, join), \
            burner("inside", preexec_fn=join, env={**os.environ, "OTEL_RESOURCE_ATTRIBUTES": "service.name=in%20side"}), \
            burner("outside", env={**os.environ, "OTEL_SERVICE_NAME": "outer"}):
        def text(select):
            return settings(folder, "otlp+http://127.0.0.1:1", select).replace('by = ["tenant"', 'by = ["tenant", "container.id"')

        def tenants(page):
            found = {re.search(r'tenant="(\w*)"', name)[1] for name in page
                     if name.startswith("vitrine_cpu_seconds_total{tenant")}
            return found or None

        agent = Agent(folder, text(f'cgroup = ["{path}"]'), "--no-push")
        for what, select, expected in (
                ("control group", None, "inside"),
                ("not the control group", f'cgroup = ["!{path}"]\nprocess = ["{BURNING}"]', "outside"),
                ("container", f'container = ["{CONTAINER}"]', "inside"),
                ("no container", f'container = ["!?*"]\nprocess = ["{BURNING}"]', "outside"),
                ("service of the environment", 'service = ["out*"]', "outside"),
                ("service among attributes", 'service = ["in side"]', "inside")):
            if select:
                agent.reload(text(select) + f"# {what}\n")
            before = agent.page()
            # Time by label goes on where only the selection changes: what grows is selected.
            found = until(f"profiles by {what}", lambda: tenants({name: seconds for name, seconds in agent.page().items()
                                                                  if seconds > before.get(name, 0)}))
            equal(what, found, {expected})
            if expected == "inside":
                assert any(f'container_id="{CONTAINER}"' in name for name in agent.page()), agent.page()
            print(f"selected by {what}: {expected}")
        agent.end()


with tempfile.TemporaryDirectory() as programs:
    # Other tests run the same program.
    BURNER = shutil.copy(BURNER, f"{programs}/burner-{os.getpid()}")
    BURNING = pathlib.Path(BURNER).name
    probes_and_time()
    reload()
    selection()
