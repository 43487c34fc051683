#!/usr/bin/env python3
"""vitrine agent beside profiles: CPU time by label as metrics, and traces of probes as metrics, spans and log records.

    agent_signals.py VITRINE SPANS_SUBJECT PROFILE_SUBJECT RECEIVER.PY SCHEMA_FOLDER DECODED_FOLDER [PART…]

What arrives at a receiver of OTLP, what the page and the text file show, and what the agent's own files of samples hold must
be the same. Processes are selected by a real control group, whose name is that of a container, and by their service.
"""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

VITRINE, SPANS, BURNER, RECEIVER, SCHEMA, DECODED, *PARTS = sys.argv[1:]
sys.path.insert(0, DECODED)
import decoded  # noqa: E402
from agents import Agent, equal, series_of, subject, until  # noqa: E402

decoded.HERE = pathlib.Path(SCHEMA)
N = 600
TENANTS = ("acme", "globex", "initech")
TRACE = bytes(range(1, 17))
CONTAINER = "c0ffee" * 10 + "1234"
plain_value = decoded.value


def value(text):
    """Enumerators and fractions, too."""
    try:
        return plain_value(text)
    except ValueError:
        return text


decoded.value = value


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


@contextlib.contextmanager
def operations(number, program, *more):
    """What begins them. Their process is there before, as its labels are read only once vitrine knows it."""
    child = subprocess.Popen([program, str(number), *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child.stdout.readline()

    def begin():
        child.stdin.write("go\n")
        child.stdin.flush()

    try:
        begin.done = child.stdout.readline
        yield begin
    finally:
        child.kill()
        child.wait()


def operate(number, program):
    subprocess.run([program, str(number)], input="go\n", stdout=subprocess.DEVNULL, text=True, check=True)


def burner(tenant, **options):
    return subject(BURNER, f"burn {tenant}", **options)


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
        with burner("acme", OTEL_SERVICE_NAME="oven"), operations(N, program) as begin:
            agent = Agent(VITRINE, folder, text)
            assert f"trace later: cannot open {folder}/later" in agent.said, agent.said
            begin()
            fires = 'vitrine_probe_fires_total{{trace="ends",probe="shop:end",tenant="{}"}}'
            until("fires", lambda: sum(agent.page().get(fires.format(tenant), 0)
                                       for tenant in (*TENANTS, "__other__")) == N or None)
            until("CPU time", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme",service_name="oven"}'))
            # A file that comes later, and one that an update replaces: its counters go on.
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
            until("fires of both files", lambda: agent.page().get(later) == 36 or None)
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
        equal("fires of a file and of its update", point("vitrine.probe.fires", trace="later", probe="shop:begin")
              .one("as_int"), 36)
        equal("the same in the file", file['vitrine_probe_fires_total{trace="later",probe="shop:begin"}'], 36)
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


def starts_of(bodies, name):
    """From when on a metric counts, in all that came."""
    return {point.one("start_time_unix_nano")
            for metric in items(bodies, "MetricsData", ("resource_metrics", "scope_metrics", "metrics"))
            if metric.one("name") == name.encode() for point in metric.one("sum").all("data_points")}


def reload():
    """Metrics of a new configuration are sent: the ones before have left their spool to them. The agent's own
    counters go on, and so does their start."""
    collector = Collector()
    with tempfile.TemporaryDirectory() as folder, burner("acme", OTEL_SERVICE_NAME="oven"):
        text = settings(folder, collector.url, f'process = ["{BURNING}"]')
        agent = Agent(VITRINE, folder, text)
        until("CPU time", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme",service_name="oven"}'))
        agent.reload(text.replace('by = ["tenant", "service.name"]', 'by = ["tenant"]'))
        until("CPU time by tenant alone", lambda: agent.page().get('vitrine_cpu_seconds_total{tenant="acme"}'))
        agent.end()
        bodies = collector.end()["/v1/metrics"]
        points = last_points(bodies)
        equal("starts of CPU time", len(starts_of(bodies, "vitrine.cpu.time")), 2)
        equal("starts of own counters", len(starts_of(bodies, "vitrine.agent.samples")), 1)
        equal("reloads", points["vitrine.agent.reloads", frozenset()].one("as_int"), 1)
        for labels in ({"tenant": "acme", "service.name": "oven"}, {"tenant": "acme"}):
            assert ("vitrine.cpu.time", frozenset(labels.items())) in points, (labels, sorted(map(str, points)), agent.said)
    print("metrics are sent before and after a reload")


def fires_over_reloads():
    """Each counts once: in a trace that reloads do not concern, and in one that each of them changes."""
    number, pause = 1500, "2000"
    collector = Collector()
    with tempfile.TemporaryDirectory() as folder, burner("acme"):
        program = shutil.copy(SPANS, f"{folder}/subject")

        def trace(name, keys, kind="count = true", probes='probes = ["shop:end"]'):
            return f'[[trace]]\nname = "{name}"\nfile = "{program}"\n{probes}\n{kind}\nby = {json.dumps(keys)}\n'

        def text(keys, by):
            return settings(folder, collector.url, f'process = ["{BURNING}"]',
                            trace("kept", ["tenant"]) + trace("changed", keys)).replace(
                                'by = ["tenant", "service.name"]', f"by = {json.dumps(by)}")

        with operations(number, program, pause) as begin:
            agent = Agent(VITRINE, folder, text(["tenant"], ["tenant"]))
            begin()
            for keys, by in (([], ["tenant"]), (["arg0"], ["service.name"]), (["comm", "tenant"], ["tenant"])):
                time.sleep(0.4)
                agent.reload(text(keys, by) + 'label_values = 1000\n')
            begin.done()
            series = re.compile('vitrine_probe_fires_total{trace="kept"')
            until("all fires", lambda: sum(count for name, count in agent.page().items() if series.match(name)) == number or None)
            agent.end()
        points = last_points(collector.end()["/v1/metrics"])
        for name in ("kept", "changed"):
            found = {labels: point.one("as_int") for (its, labels), point in points.items()
                     if its == "vitrine.probe.fires" and ("trace", name) in labels}
            equal(f"fires of {name}", sum(found.values()), number)
            print(f"{name}: {number} fires over three reloads, in {len(found)} series")


def time_over_reloads():
    """No time is in two profiles: the sampling of the new configuration begins where that of the old one ends."""
    with tempfile.TemporaryDirectory() as folder, burner("acme"):
        def text(frequency):
            return f"""
[profile]
interval = "400ms"
frequency = {frequency}
off_cpu = true
on_cpu = true
[select]
process = ["{BURNING}"]
[files]
output = "{folder}/%t.ndjson"
[agent]
listen = "127.0.0.1:0"
"""
        agent = Agent(VITRINE, folder, text(99))
        for frequency in (98, 97, 96):
            time.sleep(0.6)
            agent.reload(text(frequency))
        time.sleep(0.6)
        agent.end()
        lines = [path.read_text().splitlines()[-1] for path in sorted(pathlib.Path(folder).glob("*.ndjson"))]
        times = [(int(one["start_ns"]), int(one["duration_ns"])) for one in (json.loads(line)["summary"] for line in lines)]
        apart = [later - start - duration for (start, duration), (later, _) in zip(times, times[1:])]
        assert len(times) >= 5 and min(apart) > -1e6, apart  # a millisecond
        print(f"{len(times)} profiles over three reloads, from one to the next at most {max(apart) / 1e6:.1f} ms")


def hidden_files():
    """A file below /home is named as one that the service does not see, as with ProtectHome=."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/home") as home:
        program = shutil.copy(SPANS, f"{home}/subject")
        text = settings(folder, "otlp+http://127.0.0.1:1", f'process = ["{BURNING}"]',
                        f'[[trace]]\nfile = "{program}"\nprobes = ["shop:end"]\ncount = true\n')
        hide = ("unshare", "--mount", "sh", "-c", "mount -t tmpfs -o mode=000 tmpfs /home && exec \"$@\"", "sh")
        agent = Agent(VITRINE, folder, text, "--no-push", before=hide)
        assert "this service does not see files below /home" in agent.said, agent.said
        assert "ProtectHome=read-only" in agent.said, agent.said
        agent.end()
    print("a file that the service does not see is named as such")


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
            burner("inside", preexec_fn=join, OTEL_RESOURCE_ATTRIBUTES="service.name=in%20side"), \
            burner("outside", OTEL_SERVICE_NAME="outer"):
        def text(select):
            return settings(folder, "otlp+http://127.0.0.1:1", select).replace('by = ["tenant"', 'by = ["tenant", "container.id"')

        def tenants(page):
            found = {re.search(r'tenant="(\w*)"', name)[1] for name in page
                     if name.startswith("vitrine_cpu_seconds_total{tenant")}
            return found or None

        agent = Agent(VITRINE, folder, text(f'cgroup = ["{path}"]'), "--no-push")
        for what, select, expected in (
                ("control group", None, "inside"),
                ("not the control group", f'cgroup = ["!{path}"]\nprocess = ["{BURNING}"]', "outside"),
                ("container", f'container = ["{CONTAINER}"]', "inside"),
                ("no container", f'container = ["!?*"]\nprocess = ["{BURNING}"]', "outside"),
                ("service of the environment", 'service = ["out*"]', "outside"),
                ("service among attributes", 'service = ["in side"]', "inside"),
                ("label", f'filter = "tenant=outside"\nprocess = ["{BURNING}"]', "outside"),
                ("no label", f'filter = "tenant!=outside"\nprocess = ["{BURNING}"]', "inside")):
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
    for part in (probes_and_time, reload, fires_over_reloads, time_over_reloads, hidden_files, selection):
        if part.__name__ in PARTS or not PARTS:
            part()
