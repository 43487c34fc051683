#!/usr/bin/env python3
"""What --redact hides is in no byte of any output of any command, and its hash is there.

usage: redact.py VITRINE INCLUDE_DIR RECEIVER
"""
import base64
import concurrent.futures
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib

import publisher

VITRINE, INCLUDE, RECEIVER = sys.argv[1:]
SECRET = b"s3cret-of-the-operator"  # in the environment: hashes can be compared between runs
USER = b"mallory@hidden.example/" + bytes(range(0x21, 0x7F)) * 2
HASH = re.compile(rb"redacted:[0-9a-f]{4,16}")  # a narrow column cuts it
KEYS = ["--redact", "us?r", "--redact", "session", "--redact", "trace_id", "--redact", "span_id",
        "--redact", "service.name"]
FAILED = []


def spellings(secret):
    """Every way in which an output may hold it."""
    parts = {secret, secret[:64], secret[20:60]}
    return (parts | {part.hex().encode() for part in parts} | {base64.b64encode(secret)[:40]}
            | {base64.b64encode(b"x" * shift + secret)[4:44] for shift in (1, 2)}
            | {part.replace(b"\\", b"\\\\").replace(b'"', b'\\"') for part in parts})


VALUE = publisher.padded(USER)
SECRETS = {
    "the label's value": spellings(USER) | {b"mallory@hidden"},
    "the trace id": {publisher.TRACE_ID, publisher.TRACE_ID.hex().encode(),
                     base64.b64encode(publisher.TRACE_ID)[:20]},
    "the span id": {publisher.SPAN_ID, publisher.SPAN_ID.hex().encode()},
    "the operator's secret": {SECRET},
}


def unpacked(data):
    """`data`, with whatever is compressed in it."""
    yield data
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)
    for packed in re.findall(rb"[A-Za-z0-9+/=]{200,}", data):  # the page's data
        raw = base64.b64decode(packed + b"==", validate=False)
        yield raw
        for window in (31, -15, 15):
            try:
                yield zlib.decompress(raw, window)
                break
            except zlib.error:
                pass


def look(what, data, hidden=True):
    """Each secret is in none of it; with `hidden` a hash is there. Returns the hashes."""
    hashes = set()
    for layer in unpacked(data):
        for name, spelled in SECRETS.items():
            found = [one for one in spelled if one in layer]
            if found:
                FAILED.append(f"{what}: {name} is in it, as {found[0][:40]}")
        hashes |= set(HASH.findall(layer))
    if hidden and not hashes:
        FAILED.append(f"{what}: no hash is in it ({len(data)} bytes): {data[:300]}")
    return hashes


def vitrine(*arguments, secret=True, keys=KEYS, status=0, **others):
    environment = {"PATH": "/usr/bin:/bin", "NO_COLOR": "1"}
    if secret:
        environment["VITRINE_REDACT_SECRET"] = SECRET.decode()
    done = subprocess.run([VITRINE, *map(str, arguments), *keys], capture_output=True, env=environment,
                          timeout=120, **others)
    if done.returncode != status and arguments[0] != "check":  # which finds faults, as it should
        FAILED.append(f"{arguments}: exit {done.returncode}, {done.stderr.decode(errors='replace')}")
    return done


def shows(*arguments, **others):
    """A command whose standard output must hold hashes."""
    done = vitrine(*arguments, **others)
    look(f"{arguments}: standard error", done.stderr, hidden=False)
    return look(f"{arguments}: standard output", done.stdout)


def all_of(calls):
    """Each shows hashes. Most of the time they wait for what they look at."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda call: shows(*call), calls))


def commands(pid):
    short = ["--duration", "200ms"]
    calls = [["context", pid, "--watch=50ms", *short], ["check", pid, *short, "--verbose"],
             *[["labels", pid, "--mode", mode, *short] for mode in ("snapshot", "ptrace")],
             ["labels", pid, "--mode", "ebpf", "--freq", "999", "--duration", "1s"],
             ["labels", pid, "--watch=100ms", *short]]
    all_of([*calls, *[[*call, "--json"] for call in calls], ["check", pid, *short, "--verbose", "--sarif"]])
    shows("ps")
    shows("ps", "--json")


def traces(pid):
    mallory = 'user ~ "mallory*"'  # the true value decides, in the kernel and here
    short = ["--duration", "200ms"]
    calls = [["trace", pid, "app:typed", *short],
             ["trace", pid, "app:plain", "--where", f"label.{mallory}", "--redact", "arg0", "--show",
              "str(arg0) as x, label.user, trace_id, label.session", *short],
             ["trace", pid, "app:typed", "--where", mallory, "--show", "label.user, bytes(user, 16), user", *short],
             ["trace", pid, "app:typed", "--hist", "number", "--by", "label.user", *short],
             ["trace", pid, "--latency", "app:typed,app:plain", "--by", "label.user,trace_id", *short],
             ["trace", pid, "--latency", "app:typed,app:plain", "--match", "label.user", "--by", "label.user", *short],
             ["trace", pid, "app:typed", "--sum", "number", "--by", "label.user, user, span_id", *short],
             # What the kernel adds up, and what is added up here.
             ["trace", pid, "app:typed", "--count", "--by", "label.user, user, trace_id, label.session", *short],
             ["trace", pid, "app:typed", "--count", "--by", "pid, label.user, user, span_id", *short]]
    all_of([*calls, *[[*call, "--json"] for call in calls]])
    # What is hidden is not added up: its sum would show it.
    refused = vitrine("trace", pid, "app:typed", "--sum", "number", *short, status=2, keys=["--redact", "number"])
    if b"number" not in refused.stderr or refused.stdout:
        FAILED.append(f"a sum of what is hidden: {refused}")


def profiles(pid, folder):
    grouped = ["--group-by", "user,trace_id"]
    formats = {"pb.gz": [], "otlp": [], "folded": grouped, "speedscope.json": grouped, "ndjson": [],
               "html": grouped}
    outputs = [word for name in formats for word in ("-o", folder / f"p.{name}")]
    seen = set()
    for what in ("--on-cpu", "--off-cpu"):
        done = vitrine("profile", pid, "--duration", "700ms", what, *outputs, *grouped,
                       "--filter", "user~^mallory,tenant=acme")
        look(f"profile {what}: what it says", done.stdout + done.stderr, hidden=False)
        for name in formats:
            file = folder / f"p.{name}"
            hashes = look(f"profile {what}: {file.name}", file.read_bytes())
            seen |= hashes
            file.unlink()
    shows("profile", pid, "--duration", "500ms", "--top", "user,session,trace_id")
    shows("profile", pid, "--duration", "700ms", "--top", "user", "--watch=300ms")
    vitrine("profile", pid, "--duration", "300ms")  # the summary, which tells of telling labels
    folded = vitrine("profile", pid, "--duration", "1s", "--format", "folded", "-o", "-", *grouped)
    look("profile: folded stacks", folded.stdout)
    return seen


def exported(pid, folder):
    """To a collector, and what waits on disk for one."""
    receiver = subprocess.Popen([sys.executable, RECEIVER, folder, "200"], stdout=subprocess.PIPE, text=True)
    try:
        port = receiver.stdout.readline().strip()
        vitrine("profile", pid, "--duration", "500ms", "--export", f"otlp+http://127.0.0.1:{port}")
    finally:
        receiver.kill()
        receiver.wait()
    spool = folder / "spool"
    vitrine("profile", pid, "--continuous", "300ms", "--duration", "600ms", "--spool", spool, "--export",
            "otlp+http://127.0.0.1:9")
    bodies = [file for file in folder.iterdir() if file.is_file()]
    waiting = [file for file in spool.rglob("*") if file.is_file() and file.name != "lock"]
    if not bodies or not waiting:
        FAILED.append(f"nothing was sent ({bodies}), or nothing waits ({waiting})")
    for file in bodies + waiting:
        look(f"exported: {file.name}", file.read_bytes())


def secrets(pid, folder):
    """One value has one hash in a run; in another one, too, when the secret is the same."""
    by_environment = shows("context", pid)
    file = folder / "secret"
    file.write_bytes(SECRET + b"\n")
    by_file = look("context", vitrine("context", pid, "--redact-secret", file, secret=False).stdout)
    first = look("context", vitrine("context", pid, secret=False).stdout)
    second = look("context", vitrine("context", pid, secret=False).stdout)
    if by_environment != by_file or first == second or first == by_file:
        FAILED.append(f"hashes: {by_environment} {by_file} {first} {second}")
    if len(by_environment) != 1:  # service.name and user have one value
        FAILED.append(f"one value has the hashes {by_environment}")
    file.write_bytes(b"short\n")
    for arguments, said in (([file], b"16"), ([folder / "none"], b"No such file")):
        refused = vitrine("context", pid, "--redact-secret", *arguments, status=2, secret=False)
        if said not in refused.stderr:
            FAILED.append(f"{arguments}: {refused.stderr}")
    inherits = vitrine("trace", "*", "--optional", "--exec", "--duration", "200ms",
                       keys=["--redact", "user", "--", "/usr/bin/env"])
    look("what a started program inherits", inherits.stdout, hidden=False)


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        program = publisher.build(folder, INCLUDE)
        with publisher.running(program, bytes(folder / "publisher"), b"plain_name", USER) as child:
            whole = subprocess.run([VITRINE, "labels", str(child.pid), "--json"], capture_output=True, check=True)
            if b"mallory@hidden" not in whole.stdout or publisher.TRACE_ID.hex().encode() not in whole.stdout:
                FAILED.append(f"without --redact nothing is hidden: {whole.stdout}")
            commands(child.pid)
            traces(child.pid)
            hashes = profiles(child.pid, folder)
            if not hashes >= shows("context", child.pid):
                FAILED.append("profiles and the context have other hashes of one value")
            sent = folder / "sent"
            sent.mkdir()
            exported(child.pid, sent)
            secrets(child.pid, folder)
    print("\n".join(FAILED) or "what is hidden is nowhere, and its hash is everywhere")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
