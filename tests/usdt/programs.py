#!/usr/bin/env python3
"""Two servers with probes, built with an installed vitrine: kvd by plain make, jobd by CMake, with Make and
with Ninja. Each is traced at work, with the labels of its threads; each build is repeated: what did not change is
not made again.

usage: programs.py SOURCE_ROOT VITRINE BUILD_ROOT
"""
import collections
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from dof import LinkedElf
from step import HERE, VITRINE, cases, run

BUILD = pathlib.Path(sys.argv[3])
PATIENCE = 30  # seconds


def fires_of(trace):
    """What `vitrine trace --json` showed: [(probe, arguments, tenant)]."""
    found = []
    for line in trace.splitlines():
        event = json.loads(line)
        labels = {entry["key"]: entry["value"] for entry in event["labels"]}
        found.append((event["probe"], tuple(event["args"]), labels.get("tenant", "")))
    return found


def said_of(text):
    """What the program said it fires."""
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [(said["probe"], tuple(said["args"]), said["tenant"]) for said in lines]


def compare(shown, said, probes):
    missing, extra = collections.Counter(said) - collections.Counter(shown), \
        collections.Counter(shown) - collections.Counter(said)
    assert not missing and not extra, f"fired, not shown {missing}\nshown, not fired {extra}"
    assert {p for p, _, _ in said} == probes, f"fired only {sorted({p for p, _, _ in said})}"


def talk(path, lines):
    """Sends lines to kvd; its answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        client = socket.socket(socket.AF_UNIX)
        try:
            client.connect(str(path))
            break
        except OSError:
            client.close()
            assert time.monotonic() < deadline, "kvd does not listen"
            time.sleep(0.02)
    with client, client.makefile("rw") as stream:
        answers = []
        for number, line in enumerate(lines):
            stream.write(line + "\n")
            stream.flush()
            if number > 0:
                answers.append(stream.readline().strip())
    return answers


KVD = {f"kvd:{p}" for p in ("client-open", "client-close", "command-start", "command-done")} | \
    {f"kvstore:{p}" for p in ("set", "hit", "miss")} | {"kvproto:line-in", "kvproto:line-out"}


def kvd(folder):
    """Under a tracer from its first instruction; probes of the program, its archive and its library."""
    path = folder / "socket"
    path.unlink(missing_ok=True)
    with open(folder / "trace", "w+") as trace, open(folder / "said", "w+") as said:
        server = subprocess.Popen(
            [VITRINE, "trace", "kv*:*", "--json", "--exec", "--", "sh", "-c", 'exec "$0" "$1" 2>"$2"',
             folder / "kvd", path, folder / "said"], stdout=trace, stderr=subprocess.PIPE, text=True)
        try:
            assert talk(path, ["acme", "set tea 100 g", "get tea", "get coffee", "eat tea"]) == \
                ["stored", "100 g", "(none)", "what?"]
            assert talk(path, ["globex", "get tea", "set tea green", "set cup 6.25"]) == ["100 g", "stored", "stored"]
            talk(path, ["stop"])
            told = server.communicate(timeout=PATIENCE)[1]
        finally:
            server.kill()
        assert server.returncode == 0, told
        trace.seek(0), said.seek(0)
        compare(fires_of(trace.read()), said_of(said.read()), KVD)


JOBD = {f"jobd:{p}" for p in ("job-queued", "job-taken", "job-start", "job-done", "worker-idle")} | {"joblog:line"}


def jobd(folder):
    jobs = "".join(f"{tenant} {work} {amount}\n" for tenant in ("acme", "globex", "initech")
                   for work in ("sum", "product") for amount in range(1, 30))
    done = subprocess.run(
        [VITRINE, "trace", "job*:*", "--json", "--exec", "--", "sh", "-c", 'exec "$0" 2>"$1"', folder / "jobd",
         folder / "said"], input=jobs, capture_output=True, text=True, timeout=PATIENCE * 2)
    assert done.returncode == 0, done.stderr
    said = said_of((folder / "said").read_text())
    assert len(said) == 5 * 174 + 3, len(said)
    compare(fires_of(done.stdout), said, JOBD)


def make_kvd(folder, prefix):
    shutil.copytree(HERE / "kvd", folder)
    pkgconfig = next(prefix.rglob("vitrine-publish.pc")).parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(pkgconfig)}

    def make():
        return run("make", "-C", folder, f"VITRINE={prefix}/bin/vitrine", env=environment)

    make()
    kvd(folder)
    assert "up to date" in make(), "made again, although nothing changed"
    changed_later(folder / "store.c")
    said = make()
    assert "store.c" in said and "commands.cpp" not in said and "usdt link" in said, said
    assert "up to date" in make()
    kvd(folder)


def changed_later(path):
    """As an editor would: its time is that of no object made before."""
    later = time.time_ns() + 1_000_000
    os.utime(path, ns=(later, later))
    while time.time_ns() <= later:
        time.sleep(0.001)


def cmake_jobd(folder, prefix, generator, how):
    source, build = folder / "source", folder / "build"
    shutil.copytree(HERE / "jobd", source)
    run("cmake", "-S", source, "-B", build, "-G", generator, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release", *how)

    def make():
        return run("cmake", "--build", build, "--verbose", "-j2")

    def compiled(said):
        return sorted({name for name in ("main", "worker", "run", "log") if f"-c {source}/{name}.cpp" in said})

    first = make()
    assert compiled(first) == ["log", "main", "run", "worker"] and first.count("usdt link") >= 4, first
    jobd(build)
    assert len({s.function for s in LinkedElf(build / "jobd").sites()}) > 5
    nothing = make()
    assert not compiled(nothing) and "usdt link" not in nothing, nothing
    changed_later(source / "run.cpp")
    one = make()
    assert compiled(one) == ["run"] and "usdt link" in one, one
    changed_later(source / "worker.cpp")
    assert compiled(make()) == ["worker"]
    jobd(build)
    text = (source / "jobd.d").read_text()
    (source / "jobd.d").write_text(text.replace("worker__idle", "worker__tired"))
    changed_later(source / "jobd.d")
    failed = subprocess.run(["cmake", "--build", build], capture_output=True, text=True)
    assert failed.returncode and "JOBD_WORKER_IDLE" in failed.stdout + failed.stderr, "the header is as it was"
    (source / "jobd.d").write_text(text)
    changed_later(source / "jobd.d")
    make()
    nothing = make()
    assert not compiled(nothing) and "usdt link" not in nothing, nothing
    jobd(build)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prefix = folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        return cases(lambda: [
            ("kvd, make", make_kvd, folder / "kvd", prefix),
            ("jobd, CMake and Ninja", cmake_jobd, folder / "ninja", prefix, "Ninja", []),
            ("jobd, CMake and Make", cmake_jobd, folder / "makefiles", prefix, "Unix Makefiles", []),
            ("jobd, CMake, clang and lld", cmake_jobd, folder / "clang", prefix, "Ninja",
             ["-DCMAKE_C_COMPILER=clang", "-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld",
              "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld"]),
        ])


if __name__ == "__main__":
    sys.exit(main())
