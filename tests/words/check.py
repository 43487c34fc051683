#!/usr/bin/env python3
"""Counts the words that docs/style.md replaces in every text that users see, and in the comments of src/. More than
none is a failure.

usage: check.py SOURCE_ROOT VITRINE

Texts are documents, comments of headers and sources, string literals, texts of the page, of the packages and of
`run`, and what VITRINE prints as help and writes as manual pages. Each finding has a file and a line.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

STYLE = "docs/style.md"
DOCUMENTS = ["*.md", "docs/**/*.md", "bindings/node/*.md", "bindings/node/*.d.ts", "bindings/node/package.json",
             "web/README.md", "packaging/debian/command/README.Debian", "packaging/debian/command/templates",
             "packaging/debian/command/vitrine-*", "packaging/debian/command/agent.toml", "packaging/*.pc.in",
             "packaging/single/*.in"]
HEADERS = ["include/**/*.h", "include/**/*.hpp"]
SOURCES = ["src/**/*.[ch]pp", "src/**/*.[ch]", "demo/**/*.cpp", "bindings/node/addon.cpp"]
COMMENTED = ["src/**/*.[ch]pp", "src/**/*.[ch]"]
# Comments of sources may use these: there they are about things ("the others", "where there is none").
ALLOWED_IN_SOURCES = {"others", "is none"}
SCRIPTS = ["bindings/node/*.js", "packaging/debian/*.cmake", "web/src/**/*.ts", "web/src/**/*.tsx", "cmake/*.cmake",
           "demo/demo", "run"]
PAGES = ["web/src/**/*.tsx", "web/src/page.html"]

# (file, text, reason): occurrences of `text`, a regular expression, in `file` are not counted.
EXCEPTIONS = [
    (r"docs/tracing\.md", r'"others":true', "a field of NDJSON"),
    (r"src/cli/trace/reduction\.cpp", r"^others$", "a field of NDJSON"),
]

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\s]*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:[^"\\\n]|\\.)*)"'
                     r"|'(?:[^'\\\n]|\\.)+'", re.S)
SCRIPT_LITERAL = re.compile(r"(?<![:\w])//[^\n]*|/\*.*?\*/|(?<!\S)#[^\n]*"
                            r"|\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)'"
                            r"|`(?P<back>(?:[^`\\]|\\.)*)`", re.S)
ELEMENT = re.compile(r">(?P<text>[^<>{}]*[a-z][^<>{}]*)<", re.S)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[^\n]*", re.M)


def replaced_words(root: pathlib.Path) -> list[str]:
    """The right columns of the tables of docs/style.md."""
    words, inside = [], False
    for line in (root / STYLE).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 2:
            inside = False
        elif cells[1] == "instead of":
            inside = True
        elif inside:
            words += re.findall(r"`([^`]+)`", cells[1])
    return words


def pattern(words: list[str]) -> re.Pattern:
    def one(word: str) -> str:
        text = r"\s+".join(re.escape(part) for part in word.split())
        return text if word.endswith("_") else text + r"(?![\w-])"
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(r"(?<![\w-])(?:" + "|".join(map(one, longest_first)) + ")", re.I)


def literals(text: str, token: re.Pattern):
    """Contents of string literals, adjacent ones joined, with the offsets where they begin."""
    start, joined, end = 0, None, 0
    for match in token.finditer(text):
        content = next((value for value in match.groupdict().values() if value is not None), None)
        if content is None:
            continue
        if joined is not None and not text[end:match.start()].strip():
            joined += content
        else:
            if joined is not None:
                yield start, joined
            start, joined = match.start(), content
        end = match.end()
    if joined is not None:
        yield start, joined


def comments(text: str):
    """Comments, with lines of one block joined as their sentences run on."""
    start, joined, end = 0, None, 0
    for match in COMMENT.finditer(text):
        if joined is not None and not text[end:match.start()].strip():
            joined += "\n" + match[0]
        else:
            if joined is not None:
                yield start, joined
            start, joined = match.start(), match[0]
        end = match.end()
    if joined is not None:
        yield start, joined


def without_markers(comment: str) -> str:
    """Blanks in place of the markers at the beginnings of lines, so that phrases cross lines."""
    return re.sub(r"^[ \t]*(///?<?|/\*|\*)", lambda mark: " " * len(mark[0]), comment, flags=re.M)


def allowed(name: str, text: str, at: int) -> bool:
    return any(re.fullmatch(file, name) and any(found.start() <= at < found.end()
                                                for found in re.finditer(exception, text, re.M))
               for file, exception, _ in EXCEPTIONS)


def findings_in(name: str, pieces, whole: str, words: re.Pattern):
    """For each piece (offset in `whole`, text): where it contains one of the words."""
    for offset, text in pieces:
        for match in words.finditer(text):
            if allowed(name, text, match.start()):
                continue
            line = whole.count("\n", 0, offset) + text.count("\n", 0, match.start()) + 1
            around = " ".join(text[max(0, match.start() - 30):match.end() + 30].split())
            yield f"{name}:{line}: `{' '.join(match[0].split())}` in “{around}”"


def without_paths(root: pathlib.Path, document: str) -> str:
    """Blanks in place of code spans that name a file of the repository: `src/…/name.hpp`."""
    return re.sub(r"`[\w./-]+`",
                  lambda span: " " * len(span[0]) if (root / span[0].strip("`")).is_file() else span[0], document)


def files(root: pathlib.Path, globs: list[str]):
    found = {path for glob in globs for path in root.glob(glob) if path.is_file()}
    found -= {path for path in found if "node_modules" in path.parts or path == root / STYLE}
    for path in sorted(found):
        yield str(path.relative_to(root)), path.read_text()


def unescaped_roff(text: str) -> str:
    return text.replace("\\-", "-").replace("\\(dq", '"').replace("\\&", "").replace("\\e", "\\")


def printed(vitrine: str):
    """Help and manual page of each command, named by the command line that prints them."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([vitrine, "--man-into", directory], check=True)
        pages = sorted(pathlib.Path(directory).iterdir())
        if not pages:
            raise SystemExit(f"{vitrine} --man-into wrote no page")
        for page in pages:
            yield page.name, unescaped_roff(page.read_text())
        for page in pages:
            command = page.stem.split("-") + ["--help"]
            yield " ".join(command), subprocess.run([vitrine, *command[1:]], check=True, capture_output=True,
                                                    text=True).stdout


def findings(root: pathlib.Path, vitrine: str):
    words = pattern(replaced_words(root))
    for name, text in files(root, DOCUMENTS):
        yield from findings_in(name, [(0, without_paths(root, text))], text, words)
    for name, text in files(root, HEADERS):
        pieces = [(at, without_markers(comment)) for at, comment in comments(text)]
        yield from findings_in(name, pieces, text, words)
    for name, text in files(root, SOURCES):
        text = INCLUDE.sub("", text)
        yield from findings_in(name, literals(text, LITERAL), text, words)
    strict = pattern([word for word in replaced_words(root) if word not in ALLOWED_IN_SOURCES])
    for name, text in files(root, COMMENTED):
        pieces = [(at, re.sub(r"`[^`]*`", lambda span: " " * len(span[0]), without_markers(comment)))
                  for at, comment in comments(text)]
        yield from findings_in(name, pieces, text, strict)
    for name, text in files(root, SCRIPTS):
        yield from findings_in(name, literals(text, SCRIPT_LITERAL), text, words)
    for name, text in files(root, PAGES):
        pieces = [(match.start("text"), match["text"]) for match in ELEMENT.finditer(text)]
        yield from findings_in(name, pieces, text, words)
    for name, text in printed(vitrine):
        yield from findings_in(name, [(0, text)], text, words)


def main():
    root = pathlib.Path(sys.argv[1])
    words = replaced_words(root)
    if len(words) < 40:
        print(f"{STYLE}: only {len(words)} replaced words found in its tables")
        return 1
    found = list(dict.fromkeys(findings(root, sys.argv[2])))
    print("\n".join(found) or f"none of {len(words)} replaced words in user-visible texts")
    if found:
        print(f"{len(found)} replaced words in user-visible texts; {STYLE} lists what to write")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
