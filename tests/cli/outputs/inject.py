#!/usr/bin/env python3
"""A hostile publisher in every output of every command: nothing of it is obeyed by a terminal, a JSON
reader, a line reader, a browser.

usage: inject.py VITRINE INCLUDE_DIR
"""
import base64
import concurrent.futures
import html.parser
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import threading
import time

import publisher

VITRINE, INCLUDE = sys.argv[1:]
FAILED = []

# What steers a terminal or a line, and what breaks out of JSON, HTML and folded stacks.
PAYLOAD = (b"\x1b[2J\x1b]0;t\x07\x1b]8;;http://e\x1b\\L\x1b]52;c;QQ==\x07\x1bPq\x1b\\\xc2\x9b31m\xc2\x90q\x9b31m"
           b"\r\n\b\x7f\t\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8b\xef\xbb\xbf\xff\xc0\xaf\xed\xa0\x80\xe2\x80\xa8\xe2\x80\xa9"
           b"a b;\"'\\\\%s{}</script><script>document.title='pwned'</script><img src=x onerror=document.title='pwned'>"
           b"]]>javascript:alert(1)-->&lt;")
STYLE = re.compile(r"\x1b\[\d+m")
LIVE = re.compile(r"\x1b\[\d+A\r\x1b\[J|\r\x1b\[K")  # what refreshes a table or a line of progress
STEERING = re.compile("[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f"
                      "\\ufeff\\ufff9-\\ufffb\\U000e0000-\\U000e0fff]")


def text(what, data, terminal=False):
    """Bytes that are safe to show."""
    try:
        shown = data.decode()
    except UnicodeDecodeError as error:
        FAILED.append(f"{what}: {error}: {data[max(0, error.start - 40):error.end + 40]}")
        return ""
    if terminal:
        shown = STYLE.sub("", LIVE.sub("", shown.replace("\r\n", "\n")))
    found = STEERING.search(shown)
    if found:
        FAILED.append(f"{what}: {found[0]!r} is in it: {shown[max(0, found.start() - 60):found.end() + 30]!r}")
    return shown


def unique(pairs):
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"a name twice: {keys}")
    return dict(pairs)


def refuse(constant):
    raise ValueError(constant)


def json_lines(what, data):
    """Lines of JSON, for whoever splits lines however."""
    lines = text(what, data).splitlines()
    values = []
    for line in lines:
        try:
            values.append(json.loads(line, object_pairs_hook=unique, parse_constant=refuse))
        except ValueError as error:
            FAILED.append(f"{what}: {error}: {line[:200]!r}")
    asked = "for (const line of require('fs').readFileSync(0, 'utf8').split('\\n')) if (line) JSON.parse(line)"
    read = subprocess.run(["node", "-e", asked], input=data, capture_output=True)
    if read.returncode != 0:
        FAILED.append(f"{what}: node: {read.stderr.decode()[:300]}")
    return values


def vitrine(*arguments, environment=None):
    done = subprocess.run([VITRINE, *arguments], capture_output=True, timeout=120,
                          env={"PATH": "/usr/bin:/bin", **(environment or {})})
    what = b" ".join(part if isinstance(part, bytes) else str(part).encode() for part in arguments)
    what = f"vitrine {what.decode(errors='backslashreplace')[:200]!r}"
    if done.returncode < 0 or done.returncode > 130:
        FAILED.append(f"{what}: ended by {done.returncode}")
    text(f"{what}: standard error", done.stderr)
    return what, done


def on_terminal(*arguments):
    """Both streams on one terminal."""
    leader, follower = pty.openpty()
    child = subprocess.Popen([VITRINE, *arguments], stdin=follower, stdout=follower, stderr=follower,
                             env={"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "LANG": "C.UTF-8"})
    os.close(follower)
    data = bytearray()

    def read():
        try:
            while chunk := os.read(leader, 65536):
                data.extend(chunk)
        except OSError:
            pass  # the other side is closed

    reader = threading.Thread(target=read)
    reader.start()
    child.wait(timeout=120)
    reader.join()
    os.close(leader)
    text(f"vitrine {arguments} on a terminal", bytes(data), terminal=True)
    if child.returncode < 0:
        FAILED.append(f"{arguments}: ended by {child.returncode}")
    return bytes(data)


def both(*arguments):
    """As text to a terminal, and as JSON to a pipe. Returns what the JSON says."""
    if not on_terminal(*arguments):
        FAILED.append(f"{arguments}: says nothing on a terminal")
    what, done = vitrine(*arguments, "--json")
    return json_lines(what, done.stdout)


def bytes_of(value):
    """What json_bytes() made of bytes."""
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


def all_of(work, calls):
    """Most of the time they wait for what they look at."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return list(pool.map(lambda call: work(*call), calls))


def commands(pid, path):
    short = ["--duration", "200ms"]
    whole = publisher.padded(PAYLOAD)
    for said in all_of(both, [("labels", pid, "--mode", "snapshot"), ("labels", pid, "--mode", "ptrace"),
                              ("labels", pid, "--mode", "ebpf", "--freq", "999", "--duration", "1s")]):
        labels = [label for thread in said for label in thread.get("labels", [])]
        for part in ("key", "value"):
            if not any(bytes_of(label[part]) == whole for label in labels):
                FAILED.append(f"labels: the hostile {part} is not told as it is: {said}")
    traced = [["*:*", *more] for more in ([], ["--stack"], ["--show", "str(arg0), label.user, comm, probe"])]
    traced += [["app:*", "--count", "--by", "label.user, comm, probe, trace_id"],
               ["app:typed", "--hist", "number", "--by", "user"],
               ["--latency", "app:typed,app:plain", "--by", "label.user,comm"]]
    both("ps", "--probes")
    all_of(both, [("context", pid), ("labels", pid, "--watch=100ms", *short), ("probes", pid),
                  ("probes", path), ("check", pid, *short, "--verbose"), ("check", path, "--verbose"),
                  *[("trace", pid, *what, *short) for what in traced]])
    what, done = vitrine("check", pid, path, *short, "--verbose", "--sarif")
    try:
        json.loads(text(what, done.stdout), object_pairs_hook=unique)
    except ValueError as error:
        FAILED.append(f"{what}: {error}")


def errors(pid, folder, path):
    """What the user types, often as a name that a shell completed."""
    nowhere = bytes(folder) + b"/" + PAYLOAD.replace(b"/", b"|")[:200]
    wrong = ([b"check", nowhere], [b"probes", nowhere], [b"trace", nowhere, b"*"], [b"usdt", b"dump", nowhere],
                      [b"usdt", b"dump", path], [PAYLOAD], [b"labels", PAYLOAD], [b"labels", b"--" + PAYLOAD],
                      [b"labels", pid, b"--mode", PAYLOAD], [b"labels", pid, b"--duration", PAYLOAD],
                      [b"trace", pid, PAYLOAD], [b"trace", pid, b"*", b"--where", PAYLOAD],
                      [b"trace", pid, b"*", b"--where", b"a == \"" + PAYLOAD], [b"trace", pid, b"*", b"--show", PAYLOAD],
                      [b"trace", pid, b"*", b"--count", b"--by", PAYLOAD], [b"trace", b"*", b"--exec", b"--", nowhere],
                      [b"profile", pid, b"--filter", PAYLOAD], [b"profile", pid, b"--filter", b"a~(" + PAYLOAD],
                      [b"profile", pid, b"-o", nowhere + b"/x.html"], [b"profile", pid, b"-o", nowhere],
                      [b"profile", pid, b"--duration", b"100ms", b"--top", PAYLOAD],
                      [b"profile", pid, b"--duration", b"100ms", b"--format", PAYLOAD, b"-o", b"-"],
                      [b"profile", pid, b"--duration", b"100ms", b"--export", PAYLOAD],
                      [b"profile", pid, b"--duration", b"100ms", b"--export", b"otlp+http://127.0.0.1:9/", b"--spool", nowhere],
                      [b"context", pid, b"--redact", b"a", b"--redact-secret", nowhere],
                      [b"check", b"--profile", PAYLOAD, path], [b"usdt", b"header", b"-s", nowhere],
                      [b"usdt", b"link", nowhere, nowhere], [b"--completion", PAYLOAD], [b"--man-into", PAYLOAD])
    for arguments, (what, done) in zip(wrong, all_of(vitrine, wrong)):
        text(what, done.stdout)
        if not done.stdout and not done.stderr:
            FAILED.append(f"{what}: not a word")
    vitrine("profile", pid, "--duration", "100ms", "--export", "otlp",
            environment={"OTEL_EXPORTER_OTLP_ENDPOINT": os.fsdecode(PAYLOAD)})


class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.count = {}
        self.title = ""
        self.inside = None

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        self.inside = tag
        for key, value in attributes:
            if key.startswith("on") or (value or "").lower().lstrip().startswith("javascript:"):
                FAILED.append(f"the page: <{tag} {key}={value!r}>")

    def handle_data(self, data):
        if self.inside == "title":
            self.title += data
            self.inside = None


class Browser:
    """Chromium, by its debugging protocol: JSON messages on two pipes, each ended by NUL."""

    def __init__(self, home):
        (theirs, self.orders), (self.answers, ours) = os.pipe(), os.pipe()
        inherited = f"exec 3<&{theirs} 4>&{ours} && exec chromium \"$@\""  # the descriptors that it reads and writes
        self.process = subprocess.Popen(
            ["bash", "-c", inherited, "-", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
             f"--user-data-dir={home}", "--disable-background-networking", "--remote-debugging-pipe"],
            pass_fds=(theirs, ours), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(ours)
        self.last, self.unread = 0, b""

    def call(self, method, session=None, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        os.write(self.orders, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while True:
            while b"\0" not in self.unread:
                if not select.select([self.answers], [], [], 120)[0] or not (more := os.read(self.answers, 1 << 16)):
                    raise ConnectionError(f"chromium: no response to {method}")
                self.unread += more
            line, self.unread = self.unread.split(b"\0", 1)
            said = json.loads(line)
            if said.get("id") == self.last:
                return said["result"]

    def elements(self, url, wait_for):
        """What a browser makes of a page, once it has an element; a page that gets none in a minute as it is then."""
        target = self.call("Target.createTarget", url=url)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

        def value(expression):
            return self.call("Runtime.evaluate", session, expression=expression)["result"].get("value")

        end = time.monotonic() + 60
        while not value(f"document.querySelector('{wait_for}') !== null") and time.monotonic() < end:
            time.sleep(0.1)
        return value("document.documentElement.outerHTML")

    def close(self):
        for pipe in (self.orders, self.answers):
            os.close(pipe)
        self.process.terminate()
        self.process.wait()


def page(file):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = Browser(home)
        try:
            shown = browser.elements(f"file://{file}#group=user,%1b", "h1")
        finally:
            browser.close()
    found = Elements()
    found.feed(shown)
    if found.count.get("script", 0) != 1 or "img" in found.count or "pwned" == found.title.strip():
        FAILED.append(f"the page: {found.count}, titled {found.title!r}")
    if found.count.get("h1", 0) != 1 or "flame" not in shown.lower():
        FAILED.append(f"the page shows nothing: {found.count}")


def profiles(pid, folder):
    all_of(on_terminal, [("profile", pid, "--duration", "300ms", *more) for more in (
        [], ["--top", "user,thread,process"], ["--top", "user", "--watch=100ms"], ["--format", "folded", "-o", "-"])])
    names = ["pb.gz", "otlp", "folded", "speedscope.json", "ndjson", "html"]
    what, done = vitrine("profile", pid, "--duration", "1s", "--on-cpu", "--off-cpu", "--group-by", "user,thread",
                         *[word for name in names for word in ("-o", str(folder / f"p.{name}"))])
    if done.returncode != 0:
        FAILED.append(f"{what}: {done.stderr}")
        return
    read = {name: (folder / f"p.{name}").read_bytes() for name in names}
    samples = json_lines("profile as NDJSON", read["ndjson"])
    whole = publisher.padded(PAYLOAD)
    keys = {bytes_of(label["key"]) for sample in samples for label in sample.get("labels", [])}
    if whole not in keys:
        FAILED.append("profile as NDJSON: the hostile key is not told as it is")
    stacks = text("folded stacks", read["folded"])
    for line in stacks.splitlines():
        if not re.fullmatch(r"(on|off)-CPU;user=[^;]*;thread=[^;]*;.* \d+", line):
            FAILED.append(f"a folded line: {line[:200]!r}")
    if "pwned" not in stacks or len(stacks.splitlines()) != len(read["folded"].split(b"\n")) - 1:
        FAILED.append(f"folded stacks: {stacks[:300]!r}")
    try:
        json.loads(text("speedscope", read["speedscope.json"]), object_pairs_hook=unique, parse_constant=refuse)
    except ValueError as error:
        FAILED.append(f"speedscope: {error}")
    raw = subprocess.run(["go", "tool", "pprof", "-raw", str(folder / "p.pb.gz")], capture_output=True,
                         env={**os.environ, "HOME": str(folder)})
    if raw.returncode != 0 or b"Samples:" not in raw.stdout:
        FAILED.append(f"pprof -raw: {raw.stderr.decode()[:300]}")
    page(folder / "p.html")


def main():
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        program = publisher.build(folder, INCLUDE)
        path = bytes(folder) + b"/" + PAYLOAD.replace(b"/", b"|")
        with publisher.running(program, path, PAYLOAD, PAYLOAD) as child:
            pid = str(child.pid)
            commands(pid, path)
            profiles(pid, folder)
            errors(pid, folder, path)
    print("\n".join(FAILED) or "nothing of a hostile publisher is obeyed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
