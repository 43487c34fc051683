#!/usr/bin/env bash
# Installs everything from a finished build, then uses the observing library from a project outside:
# through find_package and pkg-config.
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
quiet g++ -std=c++20 "$project/main.cpp" -o "$work/with_pkg_config" \
  $(pkg-config --cflags --libs vitrine-observe vitrine-publish)
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH") check "$work/with_pkg_config"

# The headers that are for others need nothing but what is installed.
grep -v '^#' "$(realpath "$1")/packaging/library/headers.txt" | sed 's/.*/#include "&"/' >"$work/all.cpp"
# shellcheck disable=SC2046
quiet g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror "$work/all.cpp" $(pkg-config --cflags vitrine-observe)
echo "ok: headers"
