#!/usr/bin/env python3
"""C++ of the documents compiles against the public headers.

usage: snippets.py SOURCE-DIR
"""
import pathlib
import re
import shutil
import subprocess
import sys

# Of each: the document, a line of the block, and what its reader has before and after it.
SNIPPETS = [
    ("README.md", "int main() {",
     "#include <cstdio>\n#include <string_view>\nvoid charge();\n"
     "struct { template <class Task> void post(Task task) { task(); } } pool;\n", ""),
    ("docs/profiling.md", "options.pids = {4242};",
     "#include <chrono>\nusing namespace std::chrono_literals;\n"
     "#define BODY void use() {\n", "}\n"),
    ("docs/for-profilers.md", "options.pids = {pid};",
     "#include <chrono>\n#include <string>\nusing namespace std::chrono_literals;\n"
     "template <class... Values> void use(const Values&...);\nvoid complain(const std::string&);\n"
     "#define BODY void use(int pid) {\n", "}\n"),
]


def block_with(text, line):
    blocks = re.findall(r"^```cpp\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    found = [block for block in blocks if line in block]
    assert len(found) == 1, f"{len(found)} blocks have the line {line}"
    return found[0]


def main():
    root = pathlib.Path(sys.argv[1])
    failed = 0
    for document, line, before, after in SNIPPETS:
        block = block_with((root / document).read_text(), line)
        if "BODY" in before:  # statements follow what stands at file scope
            head, _, rest = block.partition("\n\n")
            block = f"{head}\nBODY\n{rest}"
        for compiler in filter(shutil.which, ("g++", "clang++")):
            done = subprocess.run([compiler, "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", f"-I{root}/include",
                                   "-x", "c++", "-"], input=before + block + after, text=True)
            if done.returncode:
                print(f"{document}: the block with {line} does not compile with {compiler}")
                failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
