#!/usr/bin/env python3
"""The agent beside whole engines, built from their Go modules, and beside engines in trouble: what arrives is what the
agent's own files and its subjects say.

    engines.py PART VITRINE SPANS_SUBJECT PROFILE_SUBJECT TESTS BUILD_FOLDER [SECONDS]

collector  a whole Collector, which hands all four signals on
pyroscope  Pyroscope, with its usual limits and with 1 MiB/s and bursts of 2 MiB
parca      Parca
outage     an engine that is down for SECONDS (600) under load
limits     an engine that refuses requests above 2 MiB, and more than 1 MiB a second
manifest   the DaemonSet, as Kubernetes reads it
hosts      three hosts in network namespaces, for SECONDS (600), into one engine
"""
import collections
import contextlib
import datetime
import gzip
import http.client
import http.server
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
import urllib.error
import urllib.parse
import urllib.request

PART, VITRINE, SPANS, BURNER, TESTS, BUILD = sys.argv[1:7]
SECONDS = float(sys.argv[7]) if len(sys.argv) > 7 else 600
sys.path[:0] = [f"{TESTS}/cli", f"{TESTS}/export"]
import go  # noqa: E402
from agents import Agent, equal, free_port, profile_of, subject, until  # noqa: E402
from arrivals import N, TENANTS, TRACE, Receiver, compare, observed, of_receiver, of_source, settings  # noqa: E402

CACHE = f"{BUILD}/cache"


def engine(name, package, prepare=lambda folder: None):
    """The program of a Go module of others, whose checksums are those of Go's database."""
    program = f"{BUILD}/{name}"
    if not os.path.exists(program):
        folder = pathlib.Path(BUILD, f"module-{name}")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(f"{TESTS}/engines/{name}/go.mod", folder)
        prepare(folder)
        go.build(folder, program, CACHE, package, flags="-mod=mod -buildvcs=false")
    return program


def patched_pyroscope(folder):
    """Pyroscope 1.21.1 in `folder`, for the dskit that is to be had: one function's parameters have another order there."""
    if (folder / "src").exists():
        return
    its = go.folder_of("github.com/grafana/pyroscope@v1.21.1", folder)
    shutil.copytree(its, folder / "src.part", copy_function=shutil.copyfile)
    subprocess.run(["chmod", "-R", "u+w", folder / "src.part"], check=True)
    for name in ("metastore/discovery/parse.go", "metastore/raftnode/node_bootstrap.go", "pyroscope/modules.go"):
        path = folder / "src.part/pkg" / name
        text, number = re.subn(r"dns\.NewProvider\((.*?),\s*(dns\.\w+ResolverType)\)", r"dns.NewProvider(\2, 2, \1)",
                               path.read_text(), flags=re.S)
        equal(f"calls in {name}", number, 1)
        path.write_text(text)
    (folder / "src.part").rename(folder / "src")


def collector():
    program = f"{BUILD}/otelcol"
    if not os.path.exists(program):
        folder = pathlib.Path(BUILD, "module-builder")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.mod").write_text("module engine\n\ngo 1.25.0\n\nrequire go.opentelemetry.io/collector/cmd/builder v0.161.0\n")
        builder = go.build(folder, f"{BUILD}/builder", CACHE, "go.opentelemetry.io/collector/cmd/builder",
                           flags="-mod=mod -buildvcs=false")
        made = folder / "otelcol"
        config = folder / "collector.yaml"
        config.write_text(pathlib.Path(TESTS, "engines/collector.yaml").read_text().replace(
            "dist:\n", f"dist:\n  output_path: {made}\n  go: {go.command(folder)}\n"))
        subprocess.run([builder, "--config", config, "--skip-compilation"], check=True, stderr=subprocess.DEVNULL)
        go.build(made, program, CACHE)
    return program


def receiver(**more):
    return Receiver(go.build(pathlib.Path(TESTS, "export/otlpreceiver"), f"{BUILD}/otlpreceiver", CACHE), **more)


@contextlib.contextmanager
def running(command, url, log):
    """A program, from when on it responds at `url`."""
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=os.path.dirname(log))

    def responds():
        if process.poll() is not None:
            raise SystemExit(f"FAILED {command[0]} has ended:\n{pathlib.Path(log).read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.status == 200 or None
        except urllib.error.HTTPError as error:
            return True if error.code in (404, 405) else None
        except (urllib.error.URLError, ConnectionError):
            return None

    try:
        until(command[0], responds)
        yield process
    finally:
        process.terminate()
        process.wait()


def whole_collector():
    behind = receiver()
    with tempfile.TemporaryDirectory() as place:
        grpc, web = free_port(), free_port()
        config = pathlib.Path(place, "collector.yaml")
        pipelines = "".join(f"    {signal}: {{receivers: [otlp], exporters: [otlp_http]}}\n"
                            for signal in ("profiles", "metrics", "traces", "logs"))
        config.write_text(f"""
receivers:
  otlp: {{protocols: {{grpc: {{endpoint: 127.0.0.1:{grpc}}}, http: {{endpoint: 127.0.0.1:{web}}}}}}}
exporters:
  otlp_http: {{endpoint: "http://{behind.ports['http']}"}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
{pipelines}""")
        command = [collector(), "--config", str(config), "--feature-gates=service.profilesSupport"]
        with running(command, f"http://127.0.0.1:{web}/v1/logs", f"{place}/log"):
            with observed(VITRINE, SPANS, BURNER, f"otlp+grpc://127.0.0.1:{grpc}", meanwhile=lambda agent: None) as folder:
                # What waits in the Collector goes out when it ends.
                sums, _ = of_source(folder)
                until("what the Collector hands on", lambda: True if of_receiver(
                    [one for one in lines(behind) if one["signal"] == "profiles"])[0] == sums else None)
                time.sleep(2)
                print(f"Collector 0.161: {compare(behind.end(), folder)}")


def lines(engine_):
    """What a receiver has so far."""
    text = engine_.path.read_text()
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()[1:]]


def profiles_only(folder, url, burning, more=""):
    return profile_of(burning, "1s") + f"""\
[export]
url = "{url}"
spool = "{folder}/spool"
{more}
[files]
output = ["{folder}/files/%t.ndjson"]
[agent]
listen = "127.0.0.1:0"
"""


@contextlib.contextmanager
def profiled(url, more="", seconds=6.0):
    """The folder of an agent's files, when the engine has taken all."""
    with tempfile.TemporaryDirectory() as folder:
        burning = shutil.copy(BURNER, f"{folder}/burner-{os.getpid()}")
        os.mkdir(f"{folder}/files")
        with subject(burning, "burn acme", "wait globex", "traced", OTEL_SERVICE_NAME="oven"):
            agent = Agent(VITRINE, folder, profiles_only(folder, url, pathlib.Path(burning).name, more))
            time.sleep(seconds)
            # However long a busy machine takes to get there.
            until("profiles", lambda: agent.page()["vitrine_agent_profiles_total"] >= 2 or None, 120)
        agent.end()
        yield f"{folder}/files"


def ask(url, body=None):
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"FAILED {url}: {error.read().decode()[:2000]}") from None


def by_tenant(folder):
    """Measure and tenant -> nanoseconds; and of traces."""
    sums, _ = of_source(folder)
    tenants, traces = collections.Counter(), collections.Counter()
    for (measure, tenant, trace), ns in sums.items():
        tenants[measure, tenant] += ns
        if trace:
            traces[measure, trace] += ns
    return tenants, traces


def parca():
    program = engine("parca", "github.com/parca-dev/parca/cmd/parca")
    with tempfile.TemporaryDirectory() as place:
        port = free_port()
        pathlib.Path(place, "parca.yaml").write_text(
            pathlib.Path(TESTS, "../packaging/examples/parca.yaml").read_text().replace("/var/lib/parca", f"{place}/data"))
        base = f"http://127.0.0.1:{port}"
        with running([program, f"--config-path={place}/parca.yaml", f"--http-address=127.0.0.1:{port}"],
                     f"{base}/api/profiles/has_profile_data", f"{place}/log"):
            attributes = 'attributes = ["!thread.*", "!cpu.*", "!process.pid", "trace_id"]'
            with profiled(f"parca+grpc://127.0.0.1:{port}", attributes) as folder:
                tenants, traces = by_tenant(folder)
            now = datetime.datetime.now(datetime.timezone.utc)

            def total(kind, selector):
                window = {"start": now - datetime.timedelta(hours=1), "end": now + datetime.timedelta(minutes=1)}
                query = {"query": f"vitrine:{kind}{{{selector}}}", "limit": 0,
                         **{name: when.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for name, when in window.items()}}
                found = ask(f"{base}/api/profiles/query_range?{urllib.parse.urlencode(query)}")
                return sum(int(sample["value"]) for series in found["series"] for sample in series["samples"])

            def types():
                return {":".join([one["name"], one["sampleType"], one["sampleUnit"], one["periodType"], one["periodUnit"]]
                                 + ["delta"] * one["delta"]) for one in ask(f"{base}/api/profiles/types")["types"]}

            kinds = {"on_cpu": "samples:count:cpu:nanoseconds:delta", "off_cpu": "off_cpu:nanoseconds:off_cpu:nanoseconds:delta"}
            # What it has taken is to be seen some time later.
            wanted = {f"vitrine:{kind}" for kind in kinds.values()}
            until("types of profiles", lambda: types() == wanted or None)
            all_ns = sum(tenants.values())
            until("all samples", lambda: sum(total(kinds[measure], f'tenant="{tenant}"')
                                             for measure, tenant in tenants) == all_ns or None)
            for (measure, tenant), ns in tenants.items():
                equal(f"{measure} of {tenant}", total(kinds[measure], f'tenant="{tenant}"'), ns)
            for (measure, trace), ns in traces.items():
                equal(f"{measure} of the trace", total(kinds[measure], f'trace_id="{trace}"'), ns)
    print(f"Parca 0.28: {len(tenants)} sums by tenant, {len(traces)} by trace; {sum(tenants.values()) / 1e9:.2f} s")


def pyroscope():
    program = engine("pyroscope", "github.com/grafana/pyroscope/cmd/pyroscope", patched_pyroscope)
    for limits in ([], ["-distributor.ingestion-rate-limit-mb=1", "-distributor.ingestion-burst-size-mb=2"]):
        with tempfile.TemporaryDirectory() as place:
            port = free_port()
            pathlib.Path(place, "pyroscope.yaml").write_text(
                pathlib.Path(TESTS, "../packaging/examples/pyroscope.yaml").read_text().replace(
                    "/var/lib/pyroscope", f"{place}/data").replace("4040", str(port)))
            command = [program, f"-config.file={place}/pyroscope.yaml", f"-server.grpc-listen-port={free_port()}",
                       f"-memberlist.bind-port={free_port()}", "-server.http-listen-address=127.0.0.1",
                       "-memberlist.bind-addr=127.0.0.1", "-memberlist.advertise-addr=127.0.0.1", "-usage-stats.enabled=false",
                       # Its parts find each other by an address that each would look for at an eth0.
                       *(f"-{part}addr=127.0.0.1" for part in (
                           "query-frontend.instance-", "query-scheduler.ring.instance-", "ingester.lifecycler.",
                           "distributor.ring.instance-", "store-gateway.sharding-ring.instance-", "compactor.ring.instance-")), *limits]
            base = f"http://127.0.0.1:{port}"
            with running(command, f"{base}/ready", f"{place}/log"):
                with profiled(f"pyroscope+http://127.0.0.1:{port}") as folder:
                    tenants, _ = by_tenant(folder)
                window = {"start": int(time.time() - 3600) * 1000, "end": int(time.time() + 60) * 1000}

                def types_there():
                    """When there are both: what it has taken is to be seen some time later."""
                    found = ask(f"{base}/querier.v1.QuerierService/ProfileTypes", window).get("profileTypes", [])
                    types = {one["ID"] for one in found}
                    return types if any("off_cpu" in one for one in types) and len(types) > 1 else None

                types = until("types of profiles", types_there)
                kinds = {"on_cpu": "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
                         "off_cpu": next(one for one in types if "off_cpu" in one)}
                assert kinds["on_cpu"] in types, types

                def total(kind, tenant):
                    found = ask(f"{base}/querier.v1.QuerierService/SelectMergeStacktraces",
                                {"profileTypeID": kind, "labelSelector": f'{{process_executable_name!="",tenant="{tenant}"}}', **window})
                    return int(found["flamegraph"].get("total", 0))

                all_ns = sum(tenants.values())
                until("all samples", lambda: sum(total(kinds[measure], tenant) for measure, tenant in tenants) == all_ns or None)
                for (measure, tenant), ns in tenants.items():
                    equal(f"{measure} of {tenant}", total(kinds[measure], tenant), ns)
        print(f"Pyroscope 1.21{' with limits' if limits else ''}: {len(tenants)} sums by tenant, {kinds}")


class Front(http.server.ThreadingHTTPServer):
    """Before an engine: it may be down, or have limits."""
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port, behind, most=None, rate=None):
        super().__init__(("127.0.0.1", port), FrontHandler)
        self.behind, self.most, self.rate = behind, most, rate
        self.lock = threading.Lock()
        self.room, self.at = most or 0, time.monotonic()
        self.answers = collections.Counter()
        self.is_down = False
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def is_too_much(self, size):
        """For the rate; as much at once as one request may have."""
        with self.lock:
            now = time.monotonic()
            self.room = min(self.most, self.room + (now - self.at) * self.rate)
            self.at = now
            if size > self.room:
                return True
            self.room -= size
            return False

    def end(self):
        """Refuses connections from now on; those that there are end with their next request."""
        self.is_down = True
        self.shutdown()
        self.server_close()


class FrontHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        front = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if front.is_down:
            self.close_connection = True
            return None
        size = len(gzip.decompress(body)) if self.headers.get("Content-Encoding") == "gzip" else len(body)
        if front.most and size > front.most:
            return self.answer(429, b"the profile is too large")
        if front.rate and front.is_too_much(size):
            return self.answer(429, b"rate limit", ("Retry-After", "1"))
        connection = http.client.HTTPConnection(front.behind, timeout=30)
        connection.request("POST", self.path, body, {name: self.headers[name] for name in ("Content-Type", "Content-Encoding")
                                                     if name in self.headers})
        response = connection.getresponse()
        return self.answer(response.status, response.read(), ("Content-Type", response.headers["Content-Type"]))

    def answer(self, status, body, *headers):
        with self.server.lock:
            self.server.answers[status] += 1
        self.send_response(status)
        for name, value in (("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def all_sent(agent, patience=60):
    until("all to be sent", lambda: agent.page()["vitrine_agent_spool_requests"] == 0 or None, patience)
    page = agent.page()
    for name in ("refused", "dropped"):
        equal(f"{name} requests", page[f"vitrine_agent_{name}_requests_total"], 0)
    equal("rejected items", page["vitrine_agent_rejected_profiles_total"], 0)
    return page


def outage():
    behind = receiver()
    port = free_port()
    fronts = [Front(port, behind.ports["http"])]

    def meanwhile(agent):
        fronts[-1].end()
        time.sleep(SECONDS)
        waited = agent.page()["vitrine_agent_spool_requests"]
        assert waited > 0, "nothing has waited"
        fronts.append(Front(port, behind.ports["http"]))
        page = all_sent(agent, 60 + SECONDS)
        print(f"down for {SECONDS:.0f} s: {waited:.0f} requests waited, {page['vitrine_agent_retried_requests_total']:.0f} tries failed")

    with observed(VITRINE, SPANS, BURNER, f"otlp+http://127.0.0.1:{port}", meanwhile=meanwhile) as folder:
        print(compare(behind.end(), folder))


def limits():
    behind = receiver()
    front = Front(free_port(), behind.ports["http"], most=2 << 20, rate=1 << 20)
    url = f"otlp+http://127.0.0.1:{front.server_address[1]}"
    number = 6_000
    with tempfile.TemporaryDirectory() as folder:
        burning = shutil.copy(BURNER, f"{folder}/burner-{os.getpid()}")
        program = shutil.copy(SPANS, f"{folder}/subject")
        os.mkdir(f"{folder}/files")
        # Log records have all of their attributes: larger requests than it takes, and faster.
        text = profiles_only(folder, url, pathlib.Path(burning).name, 'bytes = "4MiB"') + \
            f'[[trace]]\nname = "logs"\nfile = "{program}"\nprobes = ["shop:*"]\n'
        threads = [f"wait tenant-{tenant}" for tenant in range(60)]
        with subject(burning, *threads, OTEL_SERVICE_NAME="oven"), subject(program, str(number), "20") as shop:
            agent = Agent(VITRINE, folder, text)
            # What comes at once becomes requests that are as large as may be, however slow this machine is.
            agent.process.send_signal(signal.SIGSTOP)
            shop.stdin.write("go\n")
            shop.stdin.flush()
            shop.stdout.readline()
            agent.process.send_signal(signal.SIGCONT)
            until("profiles", lambda: agent.page()["vitrine_agent_profiles_total"] >= 2 or None)
            page = all_sent(agent)
            agent.end()
        arrived = behind.end()
        wanted = of_source(f"{folder}/files")
    equal("sums and samples", of_receiver(arrived["profiles"]), wanted)
    ids = collections.Counter((one["body"], one["attributes"]["arg.id"]) for one in arrived["logs"])
    lost = page['vitrine_trace_lost_total{trace="logs"}']
    equal("log records twice", [key for key, count in ids.items() if count > 1][:5], [])
    equal("log records, and fires that were lost before", len(ids) + lost, 2 * number)
    assert front.answers[429] > 0 and page["vitrine_agent_split_requests_total"] > 0, front.answers
    print(f"{sum(wanted[1].values())} samples, {len(ids)} log records ({lost:.0f} fires lost); responses {dict(front.answers)}; "
          f"{page['vitrine_agent_split_requests_total']:.0f} requests split")


@contextlib.contextmanager
def namespaces(names):
    """Hosts, each with a link to the first: addresses of the others and of the first there."""
    made = []

    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        first, *others = names
        for number, name in enumerate(others, 1):
            ip("-n", first, "link", "add", f"to{number}", "type", "veth", "peer", "name", "up0", "netns", name)
            for where, link, last in ((first, f"to{number}", 1), (name, "up0", 2)):
                ip("-n", where, "address", "add", f"10.231.{number}.{last}/24", "dev", link)
                ip("-n", where, "link", "set", link, "up")
        yield {name: f"10.231.{number}.1" for number, name in enumerate(others, 1)}
    finally:
        for name in made:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def hosts():
    names = [f"vitrine-{os.getpid()}-{number}" for number in range(4)]
    with namespaces(names) as addresses, tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as subjects:
        behind = receiver(host="0.0.0.0", before=("ip", "netns", "exec", names[0]))
        port = behind.ports["grpc"].rpartition(":")[2]
        agents = {}
        for name, address in addresses.items():
            its = f"{folder}/{name}"
            os.makedirs(f"{its}/files")
            burning = shutil.copy(BURNER, f"{its}/burner-{name}")
            subjects.enter_context(subject(burning, f"burn {name}", f"wait {name}", OTEL_SERVICE_NAME="oven"))
            text = profiles_only(its, f"otlp+grpc://{address}:{port}", pathlib.Path(burning).name)
            agents[name] = Agent(VITRINE, its, text, before=("ip", "netns", "exec", name, "env", f"VITRINE_HOST_NAME={name}"))
        time.sleep(SECONDS)
        for agent in agents.values():
            agent.end()
        arrived = behind.end()["profiles"]
        for name in agents:
            found = of_receiver([one for one in arrived if one["resource"]["host.name"] == name])
            wanted = of_source(f"{folder}/{name}/files")
            equal(f"sums and samples of {name}", found, wanted)
            equal(f"tenants of {name}", {key[1] for key in wanted[0]} - {""}, {name})
            print(f"{name}: {sum(wanted[1].values())} samples, {sum(wanted[0].values()) / 1e9:.2f} s in {SECONDS:.0f} s")
        equal("hosts", {one["resource"]["host.name"] for one in arrived}, set(agents))


def manifest():
    program = go.build(pathlib.Path(TESTS, "engines/manifest"), f"{BUILD}/manifest", CACHE)
    done = subprocess.run([program, f"{TESTS}/../packaging/container/daemonset.yaml"], check=True, capture_output=True, text=True)
    equal("containers and capabilities", done.stdout, "agent [BPF PERFMON SYS_PTRACE SYSLOG SYS_ADMIN]\n")


try:
    {"collector": whole_collector, "manifest": manifest, "pyroscope": pyroscope, "parca": parca, "outage": outage, "limits": limits, "hosts": hosts}[PART]()
except go.Missing as reason:
    print(f"skipped: {reason}")
    sys.exit(go.SKIPPED)
