#!/usr/bin/env bash
# Cross-builds for aarch64 and runs tests there, by qemu-user.
#   run.sh SOURCE-DIR publish             the publishing side: its libraries and all of its tests
#   run.sh SOURCE-DIR observe VITRINE     all else: the decoders' tests and others that observe no other process,
#                                         and the object step, beside that of this machine's VITRINE
# What observes other processes there is for a whole machine: ./run test-aarch64.
set -euo pipefail
cd "$1"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quiet() { "$@" >"$log" 2>&1 || { echo "FAILED: $*"; cat "$log"; exit 1; }; }
build() { quiet cmake --build build/aarch64 --target "$@"; }
tests_in() { ctest --test-dir "build/aarch64/tests/$1" --output-on-failure --no-tests=error "${@:2}"; }

# One at a time: they build in the same tree.
mkdir -p build
exec 9>build/.aarch64.lock
flock 9
quiet cmake --preset aarch64 -DVITRINE_TESTS=ON
case $2 in
  publish)
    build customlabels customlabels_v0 tests/publish/all
    # qemu-user has no RLIMIT_AS, and its own memory counts as the program's. It aborts where a child starts threads
    # that was forked from several (7.2: "qemu_plugin_vcpu_init_hook: assertion failed").
    tests_in publish -E 'OutOfMemory|ThreadsThatComeAndGoReuseMemory|ThreadsOfTheChildAreNotTaken'
    ;;
  observe)
    build src/all demo/all
    for decoder in format elf dof probe target unwind; do
      build "tests/$decoder/all"
      tests_in "$decoder"
    done
    tests/aarch64/object_step.sh . build/aarch64 "$3"
    ;;
esac
