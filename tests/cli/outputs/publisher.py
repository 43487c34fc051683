"""The publisher of publisher.c with names and values of the test's choice, and what vitrine says of it."""
import contextlib
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
WRITERS = HERE.parent.parent / "writers"
SIZE = 240
NAME = ("HOSTILE_NAME_" + "N" * SIZE)[:SIZE]
VALUE = ("HOSTILE_VALUE_" + "V" * SIZE)[:SIZE]
TRACE_ID = bytes([0x5E, 0xC3, 0xE7, *range(1, 14)])
SPAN_ID = bytes([0x5B, 0xA2, 1, 2, 3, 4, 5, 6])


def build(folder, include):
    """The program with placeholders."""
    program = pathlib.Path(folder, "placeholder")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-rdynamic", "-fno-omit-frame-pointer", "-DSLOT_V1",
                    "-DSLOT_OTEL", f"-DHOSTILE_NAME={NAME}", f"-DHOSTILE_VALUE={VALUE}", f"-I{include}", HERE / "publisher.c",
                    WRITERS / "slot.c", WRITERS / "process_context.c", "-o", program], check=True)
    return program.read_bytes()


def padded(payload):
    assert len(payload) <= SIZE and b"\0" not in payload, len(payload)
    return payload + b"x" * (SIZE - len(payload))


@contextlib.contextmanager
def running(program, path, name, value):
    """The process, and its executable at `path` (bytes)."""
    patched = program.replace(NAME.encode(), padded(name)).replace(VALUE.encode(), padded(value))
    with open(path, "wb") as out:
        out.write(patched)
    os.chmod(path, 0o755)
    child = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert child.stdout.readline() == b"ready\n"
        yield child
    finally:
        child.stdin.close()
        child.wait()
        pathlib.Path(f"/tmp/perf-{child.pid}.map").unlink(missing_ok=True)
