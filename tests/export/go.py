"""Go for tests with engines that are Go modules: a toolchain that is new enough, and what a module needs."""
import os
import pathlib
import re
import subprocess

NEEDED = (1, 25)
TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.26.8.linux-amd64"  # as a module, for those that have an older one


SKIPPED = 77  # the exit code of a test that skips


class Missing(Exception):
    """Why there is no Go, or no module: the proxy cannot be reached."""


def run(command, folder, **environment):
    return subprocess.run(command, cwd=folder, env={**os.environ, "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", **environment},
                          capture_output=True, text=True, check=False)


def command(folder):
    """The command `go` to call."""
    try:
        version = run(["go", "version"], folder).stdout
    except FileNotFoundError:
        raise Missing("there is no Go") from None
    found = re.search(r"go(\d+)\.(\d+)", version)
    if found and (int(found[1]), int(found[2])) >= NEEDED:
        return "go"
    # A module's checksum is asked for; that of a toolchain is refused by old releases.
    done = run(["go", "mod", "download", "-json", TOOLCHAIN], "/", GOFLAGS="-modcacherw", GO111MODULE="on")
    place = re.search(r'"Dir": "(.*)"', done.stdout)
    if done.returncode or not place:
        raise Missing(f"{version.strip()} is too old, and {TOOLCHAIN} is not to be had: {done.stdout}{done.stderr}")
    for tool in (*pathlib.Path(place[1], "bin").iterdir(), *pathlib.Path(place[1], "pkg/tool/linux_amd64").iterdir()):
        tool.chmod(0o755)  # modules hold no programs
    return str(pathlib.Path(place[1], "bin", "go"))


def folder_of(module, folder):
    """Where a module's files are."""
    done = run([command(folder), "mod", "download", "-json", module], "/")
    place = re.search(r'"Dir": "(.*)"', done.stdout)
    if done.returncode or not place:
        raise Missing(f"{module} is not to be had: {done.stdout}{done.stderr}")
    return place[1]


def build(module, program, cache, package=".", flags="-buildvcs=false"):
    """Builds the program of a module's folder. Returns its path."""
    pathlib.Path(program).parent.mkdir(parents=True, exist_ok=True)
    go = command(module)
    fetched = run([go, "mod", "download"], module, GOCACHE=cache, GOFLAGS=flags)
    if fetched.returncode:
        raise Missing(f"its modules are not to be had: {fetched.stderr.strip().splitlines()[-1]}")
    built = run([go, "build", "-trimpath", "-o", program, package], module, GOCACHE=cache, GOFLAGS=flags)
    if built.returncode:
        raise SystemExit(f"FAILED to build {package} in {module}: {built.stderr}")
    return program
