"""vitrine agent as a process, for tests that are scripts."""
import atexit
import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

PATIENCE = 60  # seconds


def equal(what, found, expected):
    if found != expected:
        raise SystemExit(f"FAILED {what}: {found}, expected {expected}")


def until(what, question, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if (answer := question()) is not None:
            return answer
        time.sleep(0.1)
    raise SystemExit(f"FAILED waited {patience:.0f} s for {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def subject(*command, preexec_fn=None, **environment):
    """A program that is observed, from its first line of output on."""
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=preexec_fn,
                             env={**os.environ, **environment})
    child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.wait()


# Parts of configuration files.


def profile_of(process, interval):
    return f"""
[profile]
interval = "{interval}"
off_cpu = true
on_cpu = true
[select]
process = ["{process}"]
"""


def pairs_and_spans(program):
    trace = f'[[trace]]\nfile = "{program}"\n'
    return f"""
{trace}name = "pairs"
latency = ["shop:begin", "shop:end"]
match = "id"
{trace}name = "spans"
spans = ["shop:begin", "shop:end"]
match = "id"
"""


class Agent:
    def __init__(self, vitrine, folder, text, *more, before=()):
        self.file = pathlib.Path(folder, "agent.toml")
        self.file.write_text(text)
        self.process = subprocess.Popen([*before, vitrine, "agent", self.file, *more], stderr=subprocess.PIPE, text=True)
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
