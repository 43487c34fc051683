#!/bin/sh
# The publishing sources are in this repository once. The package takes along a copy of them, for as long
# as it is packed.
set -e
cd "$(dirname "$0")"
rm -rf publisher
[ "$1" = copy ] || exit 0
mkdir -p publisher/src publisher/include
cp -r ../../src/publish ../../src/abi publisher/src/
cp -r ../../include/vitrine ../../include/customlabels.h publisher/include/
cp ../../LICENSE publisher/
rm -f publisher/src/*/CMakeLists.txt
