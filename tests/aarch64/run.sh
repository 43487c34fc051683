#!/usr/bin/env bash
# Cross-builds for aarch64 and runs tests there, by qemu-user.
#   run.sh SOURCE-DIR publish     the publishing side: its libraries and all of its tests
#   run.sh SOURCE-DIR observe     the observing side: all of it, and its tests that observe no other process
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
quiet cmake --preset aarch64
case $2 in
  publish)
    build customlabels customlabels_v0 tests/publish/all
    # qemu-user has no RLIMIT_AS, and its own memory counts as the program's.
    tests_in publish -E 'OutOfMemory|ThreadsThatComeAndGoReuseMemory'
    ;;
  observe)
    build src/all tests/format/all tests/target/all tests/unwind/all
    tests_in format
    tests_in target
    tests_in unwind
    ;;
esac
