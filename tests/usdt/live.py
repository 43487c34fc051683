"""Traces commands to their end."""
import json
import signal
import subprocess

from step import VITRINE, Failure, run

PATIENCE = 60  # seconds


def trace(path, command, *probes):
    """The fires that `vitrine trace` shows of the file `path` while `command` runs, and the lines that the
    command prints. Attached before it starts: a library that it loads later fires from its first instruction."""
    with subprocess.Popen([VITRINE, "trace", path, *probes, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as tracer:
        try:
            notes = ""
            while "vitrine: tracing" not in notes:
                line = tracer.stderr.readline()
                if not line:
                    raise Failure(f"vitrine trace {path}: {notes}")
                notes += line
            said = run(*command)
            tracer.send_signal(signal.SIGINT)
            shown, told = tracer.communicate(timeout=PATIENCE)
        finally:
            tracer.kill()
    if tracer.returncode not in (0, 130):  # 130: interrupted, as it was
        raise Failure(f"vitrine trace {path} ends with {tracer.returncode}: {notes}{told}")
    return [json.loads(line) for line in shown.splitlines()], said.splitlines()
