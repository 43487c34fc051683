#!/usr/bin/env python3
"""vitrine trace --export: what fired is what a collector gets, as metrics, spans and log records, over HTTP and over
gRPC. Decoding is protoc's.

    trace_export.py VITRINE SUBJECT RECEIVER.PY GRPC_RECEIVER SCHEMA_FOLDER DECODED_FOLDER
"""
import atexit
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

VITRINE, SUBJECT, RECEIVER, GRPC_RECEIVER, SCHEMA, DECODED = sys.argv[1:]
sys.path.insert(0, DECODED)
import decoded  # noqa: E402

decoded.HERE = pathlib.Path(SCHEMA)
TRACE = bytes(range(1, 17))
SPAN = bytes(range(0xA1, 0xA9))
N = 600
TENANTS = {b"acme", b"globex", b"initech"}
CUMULATIVE = "CUMULATIVE"


def value(text, known=decoded.value):
    """Enumerators and fractions, too."""
    try:
        return known(text)
    except ValueError:
        return text


decoded.value = value


CHILDREN = []


def start(words, **options):
    """A child that does not outlive this script, however it ends: who reads our output would wait for it, too."""
    CHILDREN.append(subprocess.Popen(words, text=True, **options))
    return CHILDREN[-1]


@atexit.register
def end_children():
    for child in CHILDREN:
        if child.poll() is None:
            child.kill()
        child.wait()


class Collector:
    def __init__(self, protocol, *answers):
        self.folder = tempfile.TemporaryDirectory()
        program = [sys.executable, RECEIVER] if protocol == "http" else [GRPC_RECEIVER]
        self.process = start([*program, self.folder.name, *(answers or ("200" if protocol == "http" else "ok",))],
                             stdout=subprocess.PIPE)
        self.url = f"otlp+{protocol}://127.0.0.1:{self.process.stdout.readline().strip()}"

    def end(self):
        """The requests: path and body."""
        self.process.kill()
        lines = self.process.stdout.read().splitlines()
        return [(line["path"], pathlib.Path(line["body"]).read_bytes(), line["answer"]) for line in map(json.loads, lines)]


def trace(options, operations=N, expected=130):
    child = start([SUBJECT, str(operations)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert "ready" in child.stdout.readline()
    command = start([VITRINE, "trace", str(child.pid), *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    said = ""
    while "tracing" not in (line := command.stderr.readline()):
        assert line, f"vitrine has ended: {said}"
        said += line
    child.stdin.write("go\n")
    child.stdin.flush()
    assert "done" in child.stdout.readline()
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=60)
    child.kill()
    child.wait()
    assert command.returncode == expected, (command.returncode, errors)
    return child.pid, output, errors


def attributes(message, field="attributes"):
    """Key -> value; every key once."""
    found = {}
    for pair in message.all(field):
        key = pair.one("key").decode()
        assert key not in found, f"twice: {key}"
        found[key] = next(iter(pair.one("value").values()))[-1]
    return found


def items(requests, path, kind, names):
    """What requests have: the attributes of a resource, and an item of it."""
    found = []
    for its, body, _ in requests:
        assert its == path, its
        for resource in decoded.decode("signals.proto", f"otlp.{kind}", body).all(names[0]):
            about = attributes(resource.one("resource"))
            for scope in resource.all(names[1]):
                assert scope.one("scope").one("name") == b"vitrine"
                found += [(about, item) for item in scope.all(names[2])]
    return found


def equal(what, found, expected):
    if found != expected:
        raise SystemExit(f"FAILED {what}: {found}, expected {expected}")


def log_records(protocol):
    path = {"http": "/v1/logs", "grpc": "/opentelemetry.proto.collector.logs.v1.LogsService/Export"}[protocol]
    collector = Collector(protocol)
    pid, output, errors = trace(["shop:*", "--export", collector.url])
    assert "sent " in errors and output == "", (output, errors)
    found = items(collector.end(), path, "LogsData", ("resource_logs", "scope_logs", "log_records"))
    equal("log records", len(found), 2 * N)
    ends = {}
    for about, record in found:
        equal("PID of the resource", about["process.pid"], pid)
        equal("event", record.one("event_name"), b"vitrine.probe")
        its = attributes(record)
        if record.one("body").one("string_value") == b"shop:end":
            ends[its["arg.id"]] = (its, record)
    equal("ends", sorted(ends), list(range(N)))
    for number, (its, record) in ends.items():
        equal("amount", its["arg.amount"], number % 300)
        equal("tenant", its["tenant"], [b"acme", b"globex", b"initech"][number % 3])
        equal("trace", (record.one("trace_id", b""), record.one("span_id", b"")),
              (TRACE, SPAN) if number % 2 else (b"", b""))
    print(f"{protocol}: {len(found)} log records, half of them with their trace")


def spans(protocol):
    path = {"http": "/v1/traces", "grpc": "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}[protocol]
    collector = Collector(protocol)
    trace(["--spans", "shop:begin,shop:end", "--export", collector.url])
    found = items(collector.end(), path, "TracesData", ("resource_spans", "scope_spans", "spans"))
    equal("spans", len(found), N)
    equal("their ids", len({span.one("span_id") for _, span in found}), N)
    roots = [span for _, span in found if "parent_span_id" not in span]
    equal("roots", len({span.one("trace_id") for span in roots}), N // 2)
    for _, span in found:
        its = attributes(span)
        equal("name", span.one("name"), b"shop:begin")
        equal("id of start and end", its["start.id"], its["arg.id"])
        assert its["tenant"] in TENANTS
        assert span.one("start_time_unix_nano") < span.one("end_time_unix_nano")
        if its["arg.id"] % 2:
            equal("parent", (span.one("trace_id"), span.one("parent_span_id")), (TRACE, SPAN))
            assert span.one("span_id") != SPAN
    print(f"{protocol}: {len(found)} spans, half of them children")


def points(requests, path):
    """Name -> kind and points; of the last request that has it, as they are cumulative."""
    found = {}
    for _, metric in items(requests, path, "MetricsData", ("resource_metrics", "scope_metrics", "metrics")):
        kind = next(name for name in ("sum", "gauge", "exponential_histogram") if name in metric)
        found[metric.one("name").decode()] = (kind, metric.one(kind))
    return found


def exemplars_of(point):
    return {(one.one("trace_id"), one.one("span_id")) for one in point.all("exemplars")}


def metrics(protocol):
    path = {"http": "/v1/metrics", "grpc": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"}[protocol]
    for more in ([], ["--exemplars"]):  # added up in the kernel, and here
        collector = Collector(protocol)
        trace(["shop:end", "--count", "--by", "tenant", "--interval", "100ms", "--export", collector.url, *more])
        found = points(collector.end(), path)
        kind, fires = found["vitrine.probe.fires"]
        equal("kind", (kind, fires.one("is_monotonic"), fires.one("aggregation_temporality")), ("sum", True, CUMULATIVE))
        equal("fires", {attributes(one)["tenant"]: one.one("as_int") for one in fires.all("data_points")},
              dict.fromkeys(TENANTS, N // 3))
        equal("exemplars", {one for point in fires.all("data_points") for one in exemplars_of(point)},
              {(TRACE, SPAN)} if more else set())
        equal("lost", found["vitrine.trace.lost"][1].one("data_points").one("as_int"), 0)

    collector = Collector(protocol)
    trace(["shop:end", "--hist", "amount", "--export", collector.url])
    kind, series = points(collector.end(), path)["vitrine.probe.value"]
    point = series.one("data_points")
    amounts = [number % 300 for number in range(N)]
    equal("histogram", (kind, point.one("count"), point.one("sum"), point.one("zero_count"), point.one("max")),
          ("exponential_histogram", N, sum(amounts), amounts.count(0), 299))
    buckets = point.one("positive")
    # Above 2^i and up to 2^(i + 1); from 16 on, a power of two is in the bucket that begins with it.
    expected = {}
    for amount in filter(None, amounts):
        index = (amount - 1).bit_length() - 1
        if amount >= 16 and amount & (amount - 1) == 0:
            index += 1
        expected[index] = expected.get(index, 0) + 1
    equal("buckets", {i + buckets.one("offset"): n for i, n in enumerate(buckets.all("bucket_counts")) if n}, expected)

    collector = Collector(protocol)
    trace(["shop:end", "--sum", "amount", "--by", "tenant", "--label-values", "1", "--export", collector.url])
    found = points(collector.end(), path)
    kind, series = found["vitrine.probe.value"]
    assert "is_monotonic" not in series
    sums = {attributes(one)["tenant"]: one.one("as_int") for one in series.all("data_points")}
    equal("sums", (len(sums), sum(sums.values()), b"__other__" in sums), (2, sum(amounts), True))
    counts = found["vitrine.probe.value.count"][1].all("data_points")
    equal("counts", sorted(one.one("as_int") for one in counts), [N // 3, 2 * N // 3])
    folded = found["vitrine.trace.folded.values"][1].one("data_points")
    equal("folded", (attributes(folded), folded.one("as_int")), ({"key": b"tenant"}, 2))

    collector = Collector(protocol)
    trace(["--latency", "shop:begin,shop:end", "--by", "tenant", "--exemplars", "--export", collector.url])
    kind, series = points(collector.end(), path)["vitrine.probe.latency"]
    equal("latencies", (kind, sum(one.one("count") for one in series.all("data_points"))), ("exponential_histogram", N))
    equal("spans of latencies", {one for point in series.all("data_points") for one in exemplars_of(point)},
          {(TRACE, SPAN)})
    print(f"{protocol}: counts, sums, histograms and latencies")


def trouble():
    """An engine that is away at first, and one that takes small requests alone: all arrives, once."""
    collector = Collector("http", "503", "503", "200")
    _, _, errors = trace(["shop:end", "--export", collector.url])
    requests = [one for one in collector.end() if one[2] == "200"]
    equal("after 503", len(items(requests, "/v1/logs", "LogsData", ("resource_logs", "scope_logs", "log_records"))), N)
    assert "retrying" in errors and "accepts logs again" in errors, errors
    collector = Collector("http", "above:50000:413")
    _, _, errors = trace(["shop:end", "--export", collector.url])
    requests = [one for one in collector.end() if len(one[1]) <= 50000]
    equal("split", len(items(requests, "/v1/logs", "LogsData", ("resource_logs", "scope_logs", "log_records"))), N)
    assert "are split" in errors, errors
    collector = Collector("http", "partial:3:too old")
    _, _, errors = trace(["shop:end", "--export", collector.url], operations=3, expected=1)
    collector.end()
    assert "rejected 3 log records" in errors, errors
    with tempfile.TemporaryDirectory() as spool:
        away = Collector("http")
        away.end()
        _, _, errors = trace(["shop:end", "--export", away.url, "--spool", spool], operations=3)
        assert "1 kept in" in errors, errors
        collector = Collector("http")
        _, _, errors = trace(["shop:end", "--export", collector.url, "--spool", spool], operations=3)
        found = items(collector.end(), "/v1/logs", "LogsData", ("resource_logs", "scope_logs", "log_records"))
        equal("of two runs", len(found), 6)
    print("refusals, splits and the spool")


for one in ("http", "grpc"):
    log_records(one)
    spans(one)
    metrics(one)
trouble()
