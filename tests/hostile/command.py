"""Every command that looks at a process, and how one run of it went."""
import json
import os
import re
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field

CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
READ_OF_OUTPUT = 32 << 20  # bytes that are looked at; the rest is taken and thrown away
LONGEST_LINE = 8 << 20
EXIT_CODES = (0, 1, 2, 3, 4, 130)  # src/cli/shell/report.hpp

# name: (arguments, PID is the target's; seconds that it was asked to run)
OF_ONE = {
    "labels snapshot": ("labels PID --json", 0),
    "labels stopped": ("labels PID --mode ptrace --json", 0),
    "labels ebpf": ("labels PID --mode ebpf --duration 150ms --json", 0.15),
    "labels watched": ("labels PID --watch=50ms --duration 150ms --may-stop", 0.15),
    "context": ("context PID --json", 0),
    "context watched": ("context PID --watch=50ms --duration 150ms", 0.15),
    "probes": ("probes PID --json", 0),
    "trace": ("trace PID * --stack --duration 150ms --limit 5000 --json", 0.15),
    "profile on CPU": ("profile PID --freq 999 --duration 200ms --format json -o -", 0.2),
    "profile off CPU": ("profile PID --off-cpu --min-block 0ms --duration 200ms --format folded -o -", 0.2),
    "check": ("check PID --duration 150ms --json", 0.15),
}
OF_ALL = {
    "ps": ("ps --probes --json", 0),
    "profile of all": ("profile --all --on-cpu --off-cpu --duration 300ms --format json -o -", 0.3),
}


@dataclass
class Run:
    """How one command went."""
    command: str
    status: int = 0  # as waitpid tells it
    seconds: float = 0  # beyond what it was asked to run
    memory: int = 0  # bytes: the most that it or one of its workers had
    hung: bool = False
    errors: str = ""
    kept: list = None  # its lines of JSON, for who wants them
    malformed: list = field(default_factory=list)

    def exit_code(self):
        """None: a signal ended it."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None

    def crashed(self):
        if self.hung:
            return False
        return (self.exit_code() not in EXIT_CODES or
                any(sign in self.errors for sign in ("Sanitizer", "runtime error:", "terminate called")))


def _take(stream, run, is_json):
    """Looks at lines as they come, so that a flood of them needs no room."""
    taken, rest, cut = 0, b"", False
    while some := os.read(stream.fileno(), 1 << 16):
        taken += len(some)
        if cut or taken > READ_OF_OUTPUT or len(rest) > LONGEST_LINE:
            cut = True
            continue
        *lines, rest = (rest + some).split(b"\n")
        for line in lines:
            _look_at(line, run, is_json)
    if rest and not cut:
        run.malformed.append(b"unfinished: " + rest[:200])


def _look_at(line, run, is_json):
    if CONTROL.search(line):
        run.malformed.append(b"control characters: " + line[:200])
    if not is_json:
        return
    try:
        read = json.loads(line.decode())
        if run.kept is not None:
            run.kept.append(read)
    except ValueError:
        run.malformed.append(line[:200])


def _where(pid):
    """What each thread of a process waits for, as far as the kernel tells."""
    stacks = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/stack", encoding="ascii") as file:
                stacks.append(f"{tid}: " + " ".join(line.split()[1] for line in file))
        except (OSError, IndexError):
            stacks.append(f"{tid}: runs, or has ended")
    return "\n".join(stacks) + "\n"


def run(vitrine, name, arguments, asked, mark, budget, keep=False, output=None):
    """Runs `vitrine` with these arguments. It hangs when it takes `budget` seconds longer than
    it was asked to run; then it is killed. `mark` is in the environment of all that it starts."""
    result = Run(name, kept=[] if keep else None)
    words = arguments.split(" ")
    is_json = "json" in words or "--json" in words
    begin = time.monotonic()
    process = subprocess.Popen([vitrine, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=dict(os.environ, HOSTILE_COMMAND=mark),
                               preexec_fn=output.apply if output else None)
    errors = []
    takers = [threading.Thread(target=_take, args=(process.stdout, result, is_json)),
              threading.Thread(target=lambda: errors.append(process.stderr.read(1 << 20)))]
    for taker in takers:
        taker.start()
    deadline = begin + asked + budget
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        now = time.monotonic()
        if not result.hung and now > deadline:
            result.hung = True
            result.errors = _where(process.pid)
            process.send_signal(signal.SIGKILL)
        if now > deadline + 3 * budget:
            raise RuntimeError(f"{name} ({arguments}) cannot even be killed")
        time.sleep(0.002 if now < begin + 0.5 else 0.01)
    process.returncode = status
    result.seconds = time.monotonic() - begin - asked
    result.status, result.memory = status, usage.ru_maxrss * 1024
    for taker in takers:
        taker.join()
    result.errors += b"".join(errors).decode(errors="replace")
    process.stdout.close()
    process.stderr.close()
    return result
