#!/usr/bin/env bash
# Packs bindings/node, and installs it from the package alone, as npm would: it builds the addon. Then
# checks in that what readers depend on.
#   package.sh SOURCE-DIR WHERE
set -euo pipefail
source=$(realpath "$1")
mkdir -p "$2"
where=$(realpath "$2")
package=$where/node_modules/vitrine-labels
quiet() { "$@" >"$where/log" 2>&1 || { echo "FAILED: $*"; cat "$where/log"; exit 1; }; }

rm -rf "$where/node_modules"
mkdir -p "$package"
# What it depends on, as `npm ci` in bindings/node got it.
cp -r "$source"/bindings/node/node_modules/node-a* "$where/node_modules/"
cd "$source/bindings/node"
quiet npm pack --pack-destination "$where"
tar -xzf "$where"/vitrine-labels-*.tgz -C "$package" --strip-components=1
[ ! -e publisher ] || { echo "packing left its copy of the sources behind"; exit 1; }

# The headers are those of the Node in tests/node: nothing is downloaded.
export npm_config_nodedir=$source/tests/node/node_modules/node20
if command -v ccache >/dev/null; then export CXX="ccache ${CXX:-g++}" CCACHE_BASEDIR=$where; fi
cd "$package"
quiet npm run install
quiet cmake -DFILE=build/Release/customlabels.node "-DREADELF=readelf" -DVERSION=1 \
  "-DSLOTS=custom_labels_current_set:8,otel_thread_ctx_v1:8" -DSONAME=customlabels.node \
  -P "$source/cmake/CheckPublishedSymbols.cmake"
# Tests are not in the package.
cp -r "$source/bindings/node/test" .
