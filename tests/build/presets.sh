#!/usr/bin/env bash
# Each preset configures, with the tests that it would build: what is wrong in a CMakeLists.txt for sanitizers,
# another compiler or the cross build shows here, hours before those are built.
# usage: presets.sh SOURCE_DIR
set -euo pipefail
source=$1
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$source"
failed=0
for preset in $(jq -r '.configurePresets[] | select(.hidden | not) | .name' CMakePresets.json); do
  if cmake --preset "$preset" -B "$build/$preset" -DVITRINE_TESTS=ON >"$build/log" 2>&1; then
    echo "preset $preset configures"
  else
    cat "$build/log"
    echo "presets: preset $preset does not configure" >&2
    failed=1
  fi
  rm -rf "${build:?}/$preset"
done
exit $failed
