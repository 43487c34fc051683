"""Compiles the subjects of the probe tests, and says what went wrong."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1]).resolve()
SDT = ROOT / "tests/sdt"
INCLUDE = f"-I{ROOT}/include"
COMPAT = f"-I{ROOT}/include/vitrine/compat"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]


class Failure(Exception):
    pass


def run(*command, **options):
    """The output of a command, which must succeed."""
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if done.returncode:
        raise Failure(f"{' '.join(command)}: ends with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def cases(*functions):
    """Runs each; prints what failed; the exit status of the test."""
    failed = 0
    for function in functions:
        for case in function():
            try:
                case[1](*case[2:])
                print(f"ok: {case[0]}")
            except (Failure, AssertionError, subprocess.TimeoutExpired) as problem:
                failed += 1
                print(f"FAILED: {case[0]}: {problem}")
    return 1 if failed else 0
