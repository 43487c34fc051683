#!/usr/bin/env bash
# Installs everything from a finished build, then uses the observing library from a project outside:
# through find_package and pkg-config; and builds and runs the example.
#   observe.sh SOURCE-DIR BUILD-DIR
set -euo pipefail
project=$(realpath "$1")/tests/install/observer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { echo "FAILED: $*"; cat "$work/log"; exit 1; }; }
check() {
  local said
  said=$("$1")
  # The one thread shows it in two formats.
  [ "$said" = $'tenant=acme\ntenant=acme\nprofiled acme' ] || { echo "$1 said: $said"; exit 1; }
  echo "ok: ${1#"$work/"}"
}

quiet cmake --install "$2" --prefix "$work/prefix"
quiet cmake -S "$project" -B "$work/find_package" -G Ninja "-DCMAKE_PREFIX_PATH=$work/prefix"
quiet cmake --build "$work/find_package"
check "$work/find_package/observer"

PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name vitrine-observe.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # a list of flags
quiet g++ -std=c++17 "$project/main.cpp" -o "$work/with_pkg_config" \
  $(pkg-config --cflags --libs vitrine-observe vitrine-publish)
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") check "$work/with_pkg_config"

# The public headers need nothing but what is installed, and nothing private is.
[ ! -e "$work/prefix/include/vitrine-observe" ] || { echo "private headers are installed"; exit 1; }
if grep -rn '#include "' "$work/prefix/include/vitrine/observe"; then echo "a private header is included"; exit 1; fi
(cd "$work/prefix/include" && find vitrine/observe -name '*.hpp') | sed 's/.*/#include <&>/' >"$work/all.cpp"
[ "$(wc -l <"$work/all.cpp")" -ge 7 ] || { echo "headers are missing"; exit 1; }
for compiler in g++ clang++; do
  # shellcheck disable=SC2046
  quiet $compiler -std=c++17 -fsyntax-only -Wall -Wextra -Wpedantic -Werror "$work/all.cpp" \
    $(pkg-config --cflags vitrine-observe)
done
echo "ok: headers"

# The example, which prints the labels of a process and the fires of its probes.
quiet cmake -S "$(realpath "$1")/examples" -B "$work/examples" -G Ninja "-DCMAKE_PREFIX_PATH=$work/prefix"
quiet cmake --build "$work/examples"
mkfifo "$work/input" "$work/output"
"$work/find_package/target" <"$work/input" >"$work/output" &
target=$!
exec 7>"$work/input"
read -r _ <"$work/output"
timeout 30 "$work/examples/observer" "$target" 'shop:*' 2 >"$work/said" 2>&1 || { cat "$work/said"; exit 1; }
exec 7>&-
wait "$target"
grep -qx "$target tenant=acme" "$work/said" || { echo "the example shows no labels:"; cat "$work/said"; exit 1; }
fires=$(grep -cxE "$target shop:order id:[0-9]+ item:kettle tenant=acme" "$work/said" || true)
[ "$fires" -ge 10 ] || { echo "the example saw $fires fires:"; head "$work/said"; exit 1; }
status=0
"$work/examples/observer" 67108863 2>"$work/said" || status=$?
[ $status = 1 ] && grep -q "^observer: " "$work/said" || { echo "no such process: $status"; cat "$work/said"; exit 1; }
echo "ok: examples/observer, $fires fires"
