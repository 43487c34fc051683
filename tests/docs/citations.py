#!/usr/bin/env python3
"""Checks that comments and documents cite only what is in the repository.

usage: citations.py SOURCE_ROOT

In comments and in Markdown, these must exist:
- a path that begins with a folder of the repository, and a path of a source or document: from the root, from
  src/ or include/, or from the citing file
- in comments of src/ and include/, a source that is named without its folder (arena.hpp)
- a section: docs/page.md, "Heading" (and "Heading"), page.md#anchor, and Markdown links with an anchor
A section has a name, never a number. Exits 1 and prints each offence as FILE:LINE: what.
"""
import functools
import pathlib
import re
import subprocess
import sys

C_LIKE = {".c", ".cpp", ".h", ".hpp", ".S", ".s", ".proto", ".ts", ".tsx", ".js", ".mjs"}
HASH_LIKE = {".py", ".sh", ".cmake"}
# Documents and files of other projects, and an example.
FOREIGN = {"custom-labels-v0.md", "custom-labels-v1.md", "include/uapi/linux/fs.h", "src/format.cc", "src/a.c",
           "native_custom_labels.h"}
PLACEHOLDERS = {"NAME", "FILE", "PATH"}
# A folder that may lie beside the repository.
BESIDE = re.compile(r"(?<![\w/-])(?:\.\./)*shared/(?:spec|seeds|data|design|style)")

C_TOKEN = re.compile(r'''R"(?P<d>[^(\s]{0,16})\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'
                         |(?P<c>//[^\n]*|/\*.*?\*/)''', re.DOTALL | re.VERBOSE)
LEADER = re.compile(r"^\s*(?:///<|//[/!]?|/\*+|\*+/|\*(?!\*)|#+)?\s?")
PATH = r"(?:\.\./)*(?:[A-Za-z0-9_.-]+/)+[A-Za-z0-9_.*-]*[A-Za-z0-9_*]/?"
SOURCE = r"\.(?:c|cpp|h|hpp|S|py|sh|md|cmake|txt|ts|tsx|proto)$"
CITATION = re.compile(rf"(?<![\w./<$@~-])({PATH}|[A-Za-z0-9_-]+\.md)(#[\w-]+)?(?![\w/(])")
BARE = re.compile(r"(?<![\w./<$@~\"-])([a-z][a-z0-9_]*(?:\.bpf)?\.(?:c|cpp|h|hpp))(?![\w/(])")
SECTIONS = re.compile(r',? (?:and )?"([^"]+)"')
NUMBERED = re.compile(r",? (?:section )?\d")
LINK = re.compile(r"\]\(([^)\s:]+)\)")


def blocks_of_c(text):
    """(line, text) of each comment; comments on lines that follow each other are one."""
    found = []
    for match in C_TOKEN.finditer(text):
        if not match["c"]:
            continue
        first = text.count("\n", 0, match.start()) + 1
        last = first + match["c"].count("\n")
        if found and found[-1][1] + 1 == first and match["c"].startswith("//"):
            found[-1] = (found[-1][0], last, found[-1][2] + "\n" + match["c"])
        else:
            found.append((first, last, match["c"]))
    return [(first, flat(comment)) for first, _, comment in found]


def blocks_of_hash(text):
    """The same for # and, in Python, for docstrings."""
    found, last = [], -1
    for number, line in enumerate(text.splitlines(), 1):
        match = re.search(r"(?:^|\s)(#.*)", line)
        if not match:
            continue
        if last == number - 1:
            found[-1][1].append(match[1])
        else:
            found.append((number, [match[1]]))
        last = number
    for match in re.finditer(r'"""(.*?)"""', text, re.DOTALL):
        found.append((text.count("\n", 0, match.start()) + 1, match[1].splitlines()))
    return [(first, flat("\n".join(lines))) for first, lines in found]


def flat(text):
    return " ".join(LEADER.sub("", line).strip() for line in text.splitlines())


def blocks_of_markdown(text):
    first, lines = 1, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            if not lines:
                first = number
            lines.append(line.strip())
        elif lines:
            yield first, " ".join(lines)
            lines = []


@functools.cache
def headings(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|`", r"\1", one) for one in re.findall(r"^#+ +(.*?)\s*$", text, re.MULTILINE)]
    return set(plain), {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in plain}


def is_placeholder(path):
    return any(part.split(".")[0] in PLACEHOLDERS for part in path.split("/"))


class Checker:
    def __init__(self, root):
        self.root = root
        self.folders = {path.name for path in root.iterdir() if path.is_dir() and path.name != "build"}
        self.names = {pathlib.PurePath(name).name for name in files_of(root)}
        self.layers = {path.name for path in (root / "src").iterdir() if path.is_dir()}

    def resolve(self, file, path):
        for base in (self.root, file.parent, self.root / "src", self.root / "include"):
            if "*" in path:
                hit = next(iter(base.glob(path.rstrip("/"))), None)
            else:
                hit = base / path
            if hit is not None and hit.exists():
                return hit
        # A program is named without the ending of its source.
        return next((hit for end in (".cpp", ".c") if (hit := self.root / (path + end)).exists()), None)

    def check_block(self, file, block, markdown):
        for match in BESIDE.finditer(block):
            yield f"{match[0]} is not in the repository"
        if markdown:
            yield from self.check_links(file, block)
            block = re.sub(r"\[[^]]*\]\([^)]*\)", "[]", block)
        for match in CITATION.finditer(block):
            path, anchor = match[1], match[2]
            top = path.split("/")[0]
            page = path.endswith(".md")
            ours = page or top in self.folders or (top in self.layers and re.search(SOURCE, path))
            url = "://" in block[:match.start()].rpartition(" ")[2]
            if path in FOREIGN or url or not ours or is_placeholder(path):
                continue
            target = self.resolve(file, path)
            if target is None:
                yield f"{path} does not exist"
            elif page:
                yield from self.check_sections(path, target, anchor, block, match.end())

        if not markdown and file.relative_to(self.root).parts[0] in ("src", "include"):
            for match in BARE.finditer(block):
                if match[1] not in self.names | FOREIGN:
                    yield f"{match[1]} does not exist"

    @staticmethod
    def check_sections(path, target, anchor, block, at):
        names, anchors = headings(target)
        if anchor and anchor[1:] not in anchors:
            yield f"{path} has no section {anchor}"
        if NUMBERED.match(block, at):
            yield f"{path}: cite a section by its name"
        while section := SECTIONS.match(block, at):
            if section[1] not in names:
                yield f'{path} has no section "{section[1]}"'
            at = section.end()

    @staticmethod
    def check_links(file, block):
        for link in LINK.finditer(block):
            path, _, anchor = link[1].partition("#")
            target = file.parent / path if path else file
            if not target.exists():
                yield f"the link {link[1]} leads nowhere"
            elif anchor and anchor not in headings(target)[1]:
                yield f"{path or 'this page'} has no section #{anchor}"

    def check(self, name):
        file = self.root / name
        if file.suffix == ".md":
            text = re.sub(r"^```.*?^```", lambda found: "\n" * found[0].count("\n"), file.read_text(),
                          flags=re.DOTALL | re.MULTILINE)
            blocks = blocks_of_markdown(text)
        elif file.suffix in C_LIKE:
            blocks = blocks_of_c(file.read_text())
        elif file.suffix in HASH_LIKE or file.name == "CMakeLists.txt":
            blocks = blocks_of_hash(file.read_text())
        else:
            return
        for line, block in blocks:
            for offence in dict.fromkeys(self.check_block(file, block, file.suffix == ".md")):
                yield f"{name}:{line}: {offence}"


def files_of(root):
    """What is under version control; in a tree without one, everything outside of build/."""
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    return [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "build" not in path.parts]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    checker = Checker(root)
    # Its test consists of bad citations.
    files = [name for name in sorted(files_of(root)) if not re.search(r"(^|/)citations(_test)?\.py$", name)]
    found = [offence for name in files for offence in checker.check(name)]
    print("\n".join(found) or f"{len(files)} files, every citation is there")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
