#!/usr/bin/env python3
"""Checks the rooms of src/ by the table of docs/architecture.md.

usage: check.py SOURCE_ROOT

A room includes itself and what its row names; rooms and headers have no cycles; every folder of src/
with sources belongs to a row. Exits 1 and names each offence.
"""
import collections
import pathlib
import re
import sys

SOURCE = {".hpp", ".cpp", ".h", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
ROW = re.compile(r"^\| ([a-z_/]+) \| ([a-z_/, ]*)\| ")


def table(root):
    """Room -> what it may include, as the document says."""
    rows = {}
    for line in (root / "docs/architecture.md").read_text().splitlines():
        if match := ROW.match(line):
            rows[match[1]] = [name.strip() for name in match[2].split(",") if name.strip()]
    return rows


def room_of(folder, rows):
    """The row that a folder belongs to: its own, or that of the folder around it."""
    name = folder.as_posix()
    while name not in rows and "/" in name:
        name = name.rsplit("/", 1)[0]
    return name if name in rows else None


def covers(allowed, room):
    return any(room == name or room.startswith(name + "/") for name in allowed)


def cycle(graph):
    """One cycle of a graph, or None."""
    state, path = {}, []

    def visit(node):
        state[node] = 1
        path.append(node)
        for other in sorted(graph[node]):
            if state.get(other) == 1:
                return path[path.index(other):] + [other]
            if other not in state and (found := visit(other)):
                return found
        path.pop()
        state[node] = 2
        return None

    for node in sorted(graph):
        if node not in state and (found := visit(node)):
            return found
    return None


def offences(root):
    source = root / "src"
    rows = table(root)
    if len(rows) < 10:
        yield "docs/architecture.md: the table of rooms is not there"
        return
    rooms, headers = collections.defaultdict(set), collections.defaultdict(set)
    for file in sorted(source.rglob("*")):
        if file.suffix not in SOURCE:
            continue
        folder = file.relative_to(source).parent
        room = room_of(folder, rows)
        if room is None:
            yield f"src/{folder}: a room that the table does not have"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or not (source / match[1]).is_file():
                continue
            to = pathlib.PurePath(match[1]).parent
            other = room_of(to, rows)
            if file.suffix in {".hpp", ".h"}:
                headers[file.relative_to(source).as_posix()].add(match[1])
            if folder != to:
                rooms[folder.as_posix()].add(to.as_posix())
            # The command's folders are one row; they share what is in shell/ and output/ alone.
            if other != room and (other is None or not covers(rows[room], other)):
                yield f"{file.relative_to(root)}:{number}: {room} must not include {other}"
    for what, graph in (("rooms", rooms), ("headers", headers)):
        if found := cycle(collections.defaultdict(set, graph)):
            yield f"a cycle of {what}: " + " -> ".join(found)


def main():
    root = pathlib.Path(sys.argv[1])
    found = sorted(set(offences(root)))
    print("\n".join(found) or f"{len(table(root))} rooms, no include points upward, no cycle")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
