#!/usr/bin/env python3
"""An agent that cannot end by itself, as nobody reads what it prints, ends after SIGTERM all the same: cut off, and with exit
code 1. One whose engine accepts requests and never responds, while processes come and go, ends by itself.

    agent_end.py VITRINE PROFILE_SUBJECT
"""
import fcntl
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from agents import Agent, equal

VITRINE, BURNER = sys.argv[1:]
PATIENCE = 120


def stuck():
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen([VITRINE, "agent", "--metrics-by", "tenant", "--listen", "off", "--no-push", "--textfile",
                                f"/tmp/vitrine-stuck-{os.getpid()}.prom"], stderr=writer)
    try:
        # It samples, and has printed what it does: now its output has no room.
        os.read(reader, 4096)
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 512)
        except BlockingIOError:
            pass
        os.set_blocking(writer, True)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        equal("exit code of one that is stuck", process.wait(PATIENCE), 1)
        print(f"stuck: cut off after {time.monotonic() - began:.1f} s")
    finally:
        process.kill()
        pathlib.Path(f"/tmp/vitrine-stuck-{os.getpid()}.prom").unlink(missing_ok=True)


def silent_engine():
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def churn():
        while not over.is_set():
            child = subprocess.Popen([BURNER, "burn acme", "end 200"], stdout=subprocess.DEVNULL)
            child.wait()

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    with tempfile.TemporaryDirectory() as folder:
        text = f"""
[profile]
interval = "1s"
off_cpu = true
on_cpu = true
[export]
url = "otlp+http://127.0.0.1:{server.getsockname()[1]}"
spool = "{folder}/spool"
[metrics]
by = ["tenant"]
[agent]
listen = "127.0.0.1:0"
"""
        agent = Agent(VITRINE, folder, text)
        time.sleep(4)
        began = time.monotonic()
        agent.process.send_signal(signal.SIGTERM)
        status = agent.process.wait(PATIENCE)
        took = time.monotonic() - began
        over.set()
        for thread in threads:
            thread.join()
        equal("exit code with what is left in the spool", (status, agent.said), (0, agent.said))
        print(f"a silent engine, and processes that come and go: ended after {took:.1f} s")


stuck()
silent_engine()
