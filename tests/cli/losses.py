#!/usr/bin/env python3
"""What is lost because a buffer is full is counted, and the message names the buffer and the option that
enlarges it. The command is stopped while its buffers fill, so that losses do not depend on the machine.

    losses.py VITRINE CC INCLUDE-DIR
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

BUSY = r"""
#include <vitrine/sdt.h>
static volatile unsigned long sum;
int main(void) {
  for (unsigned long n = 0;; ++n) {
    for (int i = 0; i < 1000; ++i) sum += n ^ i;
    VITRINE_PROBE(losses, turn, n);
  }
}
"""

# More threads wait than a small buffer has room for, each with some pages of stack.
WAITING = """
import threading, time
threading.stack_size(256 * 1024)
def wait(depth):
    if depth: return wait(depth - 1)
    time.sleep(1000)
for _ in range(1500): threading.Thread(target=wait, args=(25,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


def stopped_for_a_while(arguments):
    """Runs a command that is stopped a second after it has begun, for three. Returns what it wrote."""
    run = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
    began = run.stderr.readline()  # on a busy machine that takes seconds
    time.sleep(1)
    run.send_signal(signal.SIGSTOP)
    time.sleep(3)
    run.send_signal(signal.SIGCONT)
    return began + run.communicate(timeout=120)[1]


def main():
    vitrine, cc, include = sys.argv[1:]
    failures = []

    def expect(what, text, pattern):
        print(f"{what}: {text}")
        if not re.search(pattern, text):
            failures.append(f"{what}: no {pattern}")

    with tempfile.TemporaryDirectory(prefix="losses-") as place:
        busy = os.path.join(place, "busy")
        with open(busy + ".c", "w", encoding="utf-8") as file:
            file.write(BUSY)
        subprocess.run([cc, "-O1", "-g", "-I", include, "-o", busy, busy + ".c"], check=True)
        target = subprocess.Popen([busy])
        waiting = subprocess.Popen([sys.executable, "-c", WAITING], stdout=subprocess.PIPE, text=True)
        try:
            pid = str(target.pid)
            text = stopped_for_a_while([vitrine, "profile", pid, "--freq", "9999", "--unwind", "copy",
                                        "--buffer", "1", "--duration", "6s"])
            expect("samples", text,
                   r"samples were lost: the kernel.s buffer of samples of 1 MB was full \(--buffer enlarges it\)")
            text = stopped_for_a_while([vitrine, "trace", "losses:turn", "-p", pid, "--buffer", "1",
                                        "--duration", "6s"])
            expect("fires", text,
                   r"\d+ fires were lost: the kernel.s buffer of 1 MB was full \(--buffer enlarges it\)")
            assert waiting.stdout.readline() == "ready\n"
            text = subprocess.run(
                [vitrine, "profile", str(waiting.pid), "--off-cpu", "--unwind", "copy", "--buffer", "1",
                 "--duration", "3s"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, timeout=120, check=False).stderr
            expect("waiting threads", text,
                   r"samples were lost: the kernel.s buffer of waiting threads of 2 MB was full "
                   r"\(--buffer enlarges it\)")
        finally:
            target.kill()
            waiting.kill()
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
