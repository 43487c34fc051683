"""A hostile target: started, looked at from outside, and ended with all that it started."""
import hashlib
import mmap
import os
import re
import select
import signal
import struct
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds: only a target that is broken takes as long


class CannotPlay(Exception):
    """This machine cannot play the trick."""


def text_of(path):
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


class Target:
    """`argv` tells "ready", or "ready PID" when another process is to be looked at."""

    def __init__(self, argv, environment, semaphore=None, withheld=False):
        self._counters_file = tempfile.NamedTemporaryFile(prefix="hostile-")
        self._counters_file.truncate(4096)
        self._counters = mmap.mmap(self._counters_file.fileno(), 4096)
        self._semaphore = semaphore  # its address in the program's file
        self.notes = []
        environment = dict(os.environ, **environment, HOSTILE_PROGRESS=self._counters_file.name)
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         env=environment, start_new_session=True)
        try:
            self.pid = self._wait_until_ready()
            self.withheld = withheld
            self.code_at_start = self.code()
        except BaseException:
            self.end()
            raise

    def _wait_until_ready(self):
        deadline = time.monotonic() + PATIENCE
        output = b""
        while time.monotonic() < deadline:
            if select.select([self._process.stdout], [], [], 0.5)[0]:
                some = os.read(self._process.stdout.fileno(), 4096)
                if not some:
                    break
                output += some
            lines = output.decode(errors="replace").split("\n")
            self.notes = [line[5:] for line in lines if line.startswith("note ")]
            for line in lines[:-1]:
                if line.startswith("cannot "):
                    raise CannotPlay(line[7:])
                if line == "ready" or line.startswith("ready "):
                    return int(line[6:] or self._process.pid)
        raise RuntimeError(f"a target did not become ready: {output!r}")

    def _counter(self, index):
        return struct.unpack_from("<Q", self._counters, 8 * index)[0]

    def counts_on(self):
        """Whether it goes on running: waits for it."""
        start = self._counter(0)
        deadline = time.monotonic() + PATIENCE
        while self._counter(0) == start:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def rests(self):
        """Whether it counts no more."""
        start = self._counter(0)
        time.sleep(0.05)
        return self._counter(0) == start

    def signals(self):
        """Stops the sender. How many were sent, how many handled: waits until those are equal."""
        struct.pack_into("<Q", self._counters, 24, 1)
        time.sleep(0.02)
        deadline = time.monotonic() + PATIENCE
        while self._counter(1) != self._counter(2) and time.monotonic() < deadline:
            time.sleep(0.002)
        return self._counter(2), self._counter(1)

    def threads(self):
        """(state, tracer) of each thread."""
        threads = []
        try:
            tids = os.listdir(f"/proc/{self.pid}/task")
        except OSError:
            return []
        for tid in tids:
            status = text_of(f"/proc/{self.pid}/task/{tid}/status")
            state = re.search(r"^State:\s+(\S)", status, re.M)
            tracer = re.search(r"^TracerPid:\s+(\d+)", status, re.M)
            if state and tracer:
                threads.append((state[1], int(tracer[1])))
        return threads

    def _mappings(self):
        """(start, end, rights, offset, inode, path) of its files that are tests' own."""
        for line in text_of(f"/proc/{self.pid}/maps").split("\n"):
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ (\d+)\s+(.*)", line)
            if found and found[5] != "0":
                yield (int(found[1], 16), int(found[2], 16), found[3], int(found[4], 16),
                       int(found[5]), found[6])

    def _read(self, start, size):
        try:
            with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
                return os.pread(memory.fileno(), size, start)
        except (OSError, OverflowError):
            return None

    def _program(self):
        """The inode of its program, of which nothing is asked: it may be on a file system of its own."""
        try:
            handle = os.open(f"/proc/{self.pid}/exe", os.O_PATH)
        except OSError:
            return None
        inode = re.search(r"^ino:\s+(\d+)", text_of(f"/proc/self/fdinfo/{handle}"), re.M)
        os.close(handle)
        return int(inode[1]) if inode else None

    def code(self):
        """What its program's code is, by offset in the file: a breakpoint would change it."""
        if self.withheld:
            return {}
        program = self._program()
        code = {}
        for start, end, rights, offset, inode, _ in self._mappings():
            if "x" in rights and inode == program:
                content = self._read(start, end - start)
                if content:
                    code[offset] = hashlib.sha256(content).hexdigest()
        return code

    def semaphore(self):
        """That of its probes: 0 when nobody traces. None when there is none to be read."""
        if self._semaphore is None or self.withheld:
            return None
        program = self._program()
        for start, _, _, offset, inode, _ in self._mappings():
            if inode == program and offset == 0:
                content = self._read(start + self._semaphore, 2)
                return struct.unpack("<H", content)[0] if content else None
        return None

    @staticmethod
    def _remove_group(path):
        """A control group is busy until its last process has been reaped."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                os.rmdir(path)
                return
            except OSError:
                time.sleep(0.01)

    def is_alive(self):
        return self._process.poll() is None

    def end(self):
        """Ends all that it started, too: the session is its own."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                break
            self._process.poll()
            time.sleep(0.005)
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._counters.close()
        self._counters_file.close()
        for pid in {self._process.pid, getattr(self, "pid", self._process.pid)}:
            for root in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
                if os.path.isdir(f"{root}/hostile-{pid}"):
                    self._remove_group(f"{root}/hostile-{pid}")
            path = f"/tmp/perf-{pid}.map"
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            elif os.path.lexists(path):
                os.unlink(path)
