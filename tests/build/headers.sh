#!/usr/bin/env bash
# Each public header compiles alone, without a warning of those that careful projects turn on. On a copy
# without `#pragma GCC system_header`, behind which warnings hide.
#   headers.sh SOURCE-DIR
set -euo pipefail
source=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source/include" "$work/include"
grep -rl 'GCC system_header' "$work/include" | xargs sed -i '/GCC system_header/d'
common="-Wall -Wextra -Wshadow -Wconversion -Werror -fsyntax-only -I$work/include"
align() { [[ $1 == clang* ]] && echo -Wcast-align || echo -Wcast-align=strict; }

# try COMPILER FLAGS FILE. The file is not the header itself: that would be told of its `#pragma once`.
# shellcheck disable=SC2086  # options
try() {
  $1 $common "$(align "$1")" $2 "$3" || { echo "$1 $2: $header"; failed=1; }
}
failed=0
cd "$work/include"
for header in $(find . -name '*.h' -o -name '*.hpp' | sed 's#^./##' | sort); do
  echo "#include <$header>" | tee "$work/user.c" >"$work/user.cpp"
  for standard in 17 20; do
    # Coroutines are of C++20.
    case $standard/$header in 17/*coroutine.hpp|17/*asio.hpp) continue ;; esac
    for compiler in g++ clang++; do
      [[ $compiler/$header != clang++/*asio.hpp ]] || continue  # Boost 1.74 has no coroutines with clang and libstdc++
      try $compiler "-std=c++$standard -Weffc++ -Wold-style-cast" "$work/user.cpp"
    done
  done
  [[ $header == *.h ]] || continue
  for compiler in gcc clang; do
    try $compiler -std=c99 "$work/user.c"
  done
done

# What macros expand to is in files of their users. (Their own casts are those of C.)
for compiler in g++ clang++; do
  header="uses of the probe macros"
  try $compiler "-std=c++17 -Weffc++" "$source/tests/sdt/types/types.cpp"
done
[ $failed = 0 ] && echo "all headers are clean"
