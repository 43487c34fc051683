#!/usr/bin/env bash
# A build without BPF programs still gives everything else, and says what it lacks.
# usage: without_bpf.sh SOURCE_DIR DEMO_SERVICE
set -euo pipefail
source=$1 service=$2
build=$(mktemp -d)
trap 'kill "${pid:-}" 2>/dev/null || true; rm -rf "$build"' EXIT
fail() { printf 'without_bpf: %s\n' "$*" >&2; exit 1; }

cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-g0 \
  -DVITRINE_BPF=OFF -DVITRINE_TESTS=OFF -DVITRINE_BENCH=OFF -DVITRINE_DEMO=OFF >"$build/configure"
grep -q 'without BPF programs' "$build/configure" || fail "configuring does not say what is left out"
cmake --build "$build" --target vitrine >"$build/log" || { cat "$build/log"; fail "does not build"; }

exec 3< <("$service" --seconds 60)
read -r pid <&3
"$build/bin/vitrine" labels "$pid" --watch=100ms --duration 1s >"$build/labels" 2>"$build/notes"
grep -q 'tenant=' "$build/labels" || fail "no labels: $(cat "$build/labels" "$build/notes")"
grep -q ' proven ' "$build/labels" || fail "nothing proven: $(cat "$build/labels")"
grep -q 'built without its BPF programs' "$build/notes" || fail "no note: $(cat "$build/notes")"
"$build/bin/vitrine" labels "$pid" --mode ptrace --watch=100ms --duration 1s | grep stopped >/dev/null || fail "ptrace mode"
"$build/bin/vitrine" context "$pid" | grep shop >/dev/null || fail "no context"
status=0
"$build/bin/vitrine" labels "$pid" --mode ebpf 2>"$build/error" || status=$?
[ "$status" = 1 ] || fail "ebpf mode ends with $status"
grep -q 'bpftool' "$build/error" || fail "no remedy: $(cat "$build/error")"
echo "everything but the BPF parts works"
