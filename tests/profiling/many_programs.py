"""Many programs, each with a file and a function of its own, and the processes of a command that profiles them."""
import contextlib
import glob
import os
import re
import subprocess

SOURCE = """
#include <unistd.h>
static volatile unsigned long sum;
void __attribute__((noinline)) work_%(number)d(unsigned long n) {
  for (unsigned long i = 0; i < 300000; ++i) sum += i ^ n;
}
int main(void) {
  for (unsigned long n = 0;; ++n) {
    work_%(number)d(n);
    if (%(pause)d) usleep(%(pause)d);
  }
}
"""


def build(cc, folder, count, pause=0):
    """Programs that work, and then wait for `pause` microseconds: program N calls work_N."""
    paths = []
    for number in range(count):
        path = os.path.join(folder, f"work{number}")
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(SOURCE % {"number": number, "pause": pause})
        subprocess.run([cc, "-O1", "-g", "-o", path, path + ".c"], check=True)
        paths.append(path)
    return paths


@contextlib.contextmanager
def running(*commands):
    """Programs that are killed at the end, however that comes."""
    processes = []
    try:
        for command in commands:
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # the process has ended
        return ""


def descendants(pid):
    """Of a process, zombies left out, with their names."""
    found = {}
    for children in glob.glob(f"/proc/{pid}/task/*/children"):
        for child in map(int, text_of(children).split()):
            facts = re.match(r"\d+ \((.*)\) (.)", text_of(f"/proc/{child}/stat"))
            if facts is None:
                continue
            if facts[2] not in "ZX":
                found[child] = facts[1]
            found.update(descendants(child))
    return found


def profiled(folder):
    """The text of all profiles in a folder."""
    return "".join(text_of(path) for path in sorted(glob.glob(f"{folder}/*")))


def named(folder):
    """Numbers of the programs that profiles in a folder name."""
    return set(re.findall(r"\bwork_(\d+)\b", profiled(folder)))
