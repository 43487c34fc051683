"""What an engine has of an agent, and what the agent's files and its subjects say that it must have."""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from agents import Agent, equal, pairs_and_spans, profile_of, subject, until

N = 600
TENANTS = ("acme", "globex", "initech")
TRACE = bytes(range(1, 17)).hex()


class Receiver:
    """The program of tests/export/otlpreceiver."""

    def __init__(self, program, host="127.0.0.1", before=()):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name, "lines")
        with open(self.path, "a", encoding="utf-8") as output:
            self.process = subprocess.Popen([*before, program, host], stdout=output)
        self.ports = until("the receiver", self._ports)

    def _ports(self):
        line = self.path.read_text().partition("\n")
        return json.loads(line[0]) if line[1] else None

    def end(self):
        """Signal -> lines."""
        self.process.kill()
        self.process.wait()
        found = collections.defaultdict(list)
        with open(self.path, encoding="utf-8") as lines:
            next(lines)
            for one in map(json.loads, lines):
                found[one.pop("signal")].append(one)
        return found


def settings(folder, url, program, burning):
    trace = f'[[trace]]\nfile = "{program}"\n'
    return profile_of(burning, "500ms") + f"""\
[export]
url = "{url}"
spool = "{folder}/spool"
[metrics]
by = ["service.name", "tenant"]
interval = "500ms"
[files]
output = ["{folder}/%t.ndjson"]
[agent]
listen = "127.0.0.1:0"
{trace}name = "ends"
probes = ["shop:end"]
count = true
by = ["tenant"]
exemplars = true
{pairs_and_spans(program)}{trace}name = "logs"
probes = ["shop:end"]
"""


def of_source(folder):
    """By measure, tenant and trace: nanoseconds and samples, of the agent's files."""
    sums, samples = collections.Counter(), collections.Counter()
    for path in pathlib.Path(folder).glob("*.ndjson"):
        for line in map(json.loads, path.read_text().splitlines()):
            if "summary" in line:
                continue
            tenants = [one["value"] for one in line["labels"] if one["key"] == "tenant"]
            key = line["measure"], "".join(tenants), line.get("trace_id", "")
            sums[key] += int(line["value_ns"])
            samples[key] += int(line.get("count", 1))
    return sums, samples


def of_receiver(profiles):
    sums, samples = collections.Counter(), collections.Counter()
    for one in profiles:
        on_cpu = one["type"] == "samples"
        key = "on_cpu" if on_cpu else "off_cpu", one["attributes"].get("tenant", ""), one["trace_id"]
        sums[key] += len(one["times"]) * one["period"] if on_cpu else sum(one["values"])
        samples[key] += len(one["times"])
    return sums, samples


def compare(arrived, folder, service="oven"):
    """All four signals of an agent with settings(), which has ended. `arrived`: signal -> lines."""
    sums, samples = of_source(folder)
    found_sums, found_samples = of_receiver(arrived["profiles"])
    equal("sums by measure, tenant and trace", found_sums, sums)
    equal("samples", found_samples, samples)
    for key in (("on_cpu", "acme", ""), ("off_cpu", "globex", ""), ("on_cpu", "", TRACE)):
        assert sums[key] > 0, (key, sums)
    equal("services", {one["resource"].get("service.name") for one in arrived["profiles"]}, {service})

    last = {(one["name"], frozenset(one["attributes"].items())): one for one in arrived["metrics"]}

    def point(name, **labels):
        return last[name, frozenset(labels.items())]

    for tenant in TENANTS:
        fires = point("vitrine.probe.fires", trace="ends", probe="shop:end", tenant=tenant)
        equal("fires", (fires["value"], fires["exemplars"]), (N // 3, [TRACE]))
    pairs = point("vitrine.probe.latency", trace="pairs", probe="shop:end")
    equal("latencies, and those in buckets", (pairs["count"], pairs["inside"]), (N, N))
    for metric, measure, tenant in (("cpu", "on_cpu", "acme"), ("off_cpu", "off_cpu", "globex")):
        time = point(f"vitrine.{metric}.time", tenant=tenant, **{"service.name": service})["value"]
        equal(f"{metric} time of {tenant}", round(time * 1e9), sums[measure, tenant, ""])

    spans = arrived["traces"]
    equal("spans", (len(spans), len({one["span_id"] for one in spans})), (N, N))
    equal("children", collections.Counter(one["trace_id"] == TRACE for one in spans), {True: N // 2, False: N // 2})
    for tenant in TENANTS:
        equal("spans of a tenant", sum(one["attributes"]["tenant"] == tenant for one in spans), N // 3)
    logs = arrived["logs"]
    equal("log records", sorted(one["attributes"]["arg.id"] for one in logs), list(range(N)))
    equal("log records in the trace", sum(one["trace_id"] == TRACE for one in logs), N // 2)
    return (f"{sum(samples.values())} samples, {sum(sums.values()) / 1e9:.2f} s, {len(last)} series, {len(spans)} spans, "
            f"{len(logs)} log records")


@contextlib.contextmanager
def observed(vitrine, spans, burner, url, more="", meanwhile=lambda agent: None):
    """An agent that has ended after N operations and some profiles: its folder."""
    with tempfile.TemporaryDirectory() as folder:
        program = shutil.copy(spans, f"{folder}/subject")
        burning = shutil.copy(burner, f"{folder}/burner-{os.getpid()}")
        with subject(burning, "burn acme", "wait globex", "traced", OTEL_SERVICE_NAME="oven"), subject(program, str(N)) as shop:
            agent = Agent(vitrine, folder, settings(folder, url, program, pathlib.Path(burning).name) + more)
            shop.stdin.write("go\n")
            shop.stdin.flush()
            shop.stdout.readline()
            until("profiles", lambda: agent.page().get("vitrine_agent_profiles_total", 0) >= 4 or None)
            meanwhile(agent)
            agent.end()
        yield folder
