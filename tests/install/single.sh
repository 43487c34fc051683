#!/usr/bin/env bash
# The single headers, each alone in a folder: by several compilers and linkers, and read from outside.
#   single.sh FOLDER-OF-HEADERS VITRINE
set -euo pipefail
headers=$1 vitrine=$(realpath "$2")
sources=$(dirname "$(realpath "$0")")/single
work=$(mktemp -d)
program=
trap '[ -z "$program" ] || kill "$program" 2>/dev/null || true; rm -rf "$work"' EXIT
cp "$headers"/vitrine_publish.hpp "$headers"/vitrine_sdt.h "$sources"/* "$work"
cd "$work"
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
exported=()
for symbol in custom_labels_abi_version custom_labels_current_set otel_thread_ctx_v1; do
  exported+=("-Wl,--export-dynamic-symbol=$symbol")
done

# Two source files: one has the implementation, the other only uses it.
try() {  # try COMPILER OPTION…
  # shellcheck disable=SC2086  # options
  "$1" $strict "${@:2}" main.cpp user.cpp -o program -pthread "${exported[@]}"
  rm -f ready
  mkfifo ready
  ./program >ready &
  program=$!
  read -r _ <ready
  local mode said
  for mode in snapshot ptrace ebpf; do
    said=$("$vitrine" labels "$program" --mode "$mode" 2>&1) || true
    [[ $said == *tenant=acme* ]] || { echo "$*: --mode $mode: $said"; exit 1; }
  done
  said=$("$vitrine" context "$program")
  [[ $said == *single-header* ]] || { echo "$*: context: $said"; exit 1; }
  "$vitrine" check "$program" >said || { echo "$*:"; cat said; exit 1; }
  kill "$program"
  wait "$program" 2>/dev/null || true
  program=
  echo "ok: $*"
}
try g++ -std=c++17 -O2
try g++ -std=c++17 -O2 -fno-exceptions -fno-rtti -static-pie
try g++ -std=c++17 -O2 -DStatus=int -DBelow=1  # as <X11/Xlib.h> has them
try g++ -std=c++20 -O2 -fuse-ld=gold -s -ffunction-sections -Wl,--gc-sections
[ "$(uname -m)" != x86_64 ] || try g++ -std=c++17 -O2 -masm=intel
[ "$(uname -m)" != x86_64 ] || try clang++ -std=c++17 -O2 -masm=intel
try clang++ -std=c++17 -O1 -fuse-ld=lld
try clang++ -std=c++20 -fPIC -fuse-ld=mold -s
try clang++ -std=c++17 -O2 -fuse-ld=lld -flto
try clang++ -std=c++17 -O2 -fuse-ld=lld -flto=thin
for linker in bfd gold mold; do
  try g++ -std=c++17 -O2 -flto=auto "-fuse-ld=$linker"
done

# A plug-in with a copy: it may be unloaded while threads that used it live.
g++ -std=c++17 -O2 plugin_host.cpp -o plugin_host -pthread -ldl
for compiler in g++ clang++; do
  $compiler -std=c++17 -O2 -shared -fPIC -fvisibility=hidden plugin.cpp -o plugin.so -pthread
  said=$(./plugin_host ./plugin.so) || { echo "a plug-in of $compiler: $said"; exit 1; }
  echo "ok: a plug-in of $compiler"
done

# Probes, of C and of C++.
for compiler in "gcc -std=c99" "g++ -std=c++11" "clang -std=c11" "clang++ -std=c++20"; do
  case $compiler in *++*) file=probes.cpp ;; *) file=probes.c ;; esac
  cp probes.c probes.cpp
  # shellcheck disable=SC2086
  $compiler -Wall -Wextra -Werror -O2 $file -o probes
  said=$("$vitrine" probes probes)
  [[ $said == *outsider:fire*"arguments: int32, program: string"* ]] || { echo "$compiler: $said"; exit 1; }
  ./probes
  echo "ok: $compiler"
done
