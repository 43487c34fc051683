#!/usr/bin/env python3
"""Checks that no layer includes one above it (the table of docs/architecture.md).

usage: check.py SOURCE_ROOT
Exits 1 and names each offending include.
"""
import pathlib
import re
import sys

ALLOWED = {
    "abi": set(),
    "base": set(),
    "publish": {"abi"},
    "child": {"base"},
    "confine": {"base"},
    "file": {"base"},
    "worker": {"base", "child", "confine"},
    "format": {"abi", "base"},
    "elf": {"abi", "base"},
    "dof": {"abi", "base"},
    "usdt": {"abi", "base", "dof", "elf", "worker"},
    "probe": {"abi", "base", "dof", "elf"},
    "profile": {"base"},
    "send": {"base"},
    "symbol": {"abi", "base", "elf", "file", "worker"},
    "query": {"base", "probe"},
    "unwind": {"abi", "base", "elf"},
    "target": {"abi", "base", "child", "confine", "file", "format", "elf"},
    "bpf": {"abi", "base", "format", "probe", "query", "target"},
    "observe": {"abi", "base", "dof", "file", "format", "elf", "probe", "profile", "query", "target", "bpf",
                "symbol", "unwind", "worker"},
    "check": {"abi", "base", "dof", "elf", "file", "format", "probe", "target", "bpf", "observe", "worker"},
    "cli": {"base", "check", "confine", "dof", "format", "observe", "probe", "profile", "query", "send",
            "symbol", "usdt"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')


def offences(root: pathlib.Path):
    for layer, below in ALLOWED.items():
        for file in sorted((root / "src" / layer).rglob("*")):
            if file.suffix not in {".hpp", ".cpp", ".h", ".c"}:
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match and match[1] != layer and match[1] in ALLOWED and match[1] not in below:
                    yield f"{file.relative_to(root)}:{number}: {layer}/ must not include {match[1]}/"


def main():
    root = pathlib.Path(sys.argv[1])
    seen = {folder.name for folder in (root / "src").iterdir() if folder.is_dir()}
    found = [f"src/{name}: a layer that the table does not know" for name in sorted(seen - set(ALLOWED))]
    found += offences(root)
    print("\n".join(found) or f"{len(seen)} layers, no include points upward")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
