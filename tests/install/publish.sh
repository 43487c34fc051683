#!/usr/bin/env bash
# Builds and installs the publishing side alone, then uses it from a project outside: through
# find_package, pkg-config, and FetchContent. Each program runs, and is checked for what readers of
# its labels depend on.
#   publish.sh SOURCE-DIR
set -euo pipefail
source=$(realpath "$1")
project=$source/tests/install/project
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { echo "FAILED: $*"; cat "$work/log"; exit 1; }; }

check() {  # check PROGRAM VERSION [SLOT…]: it runs, and exports these symbols
  local program=$1 version=$2 said
  shift 2
  said=$("$program")
  [ "$said" = "tenant=acme" ] || { echo "$program said: $said"; exit 1; }
  [ $# = 0 ] || quiet cmake "-DFILE=$program" -DREADELF=readelf "-DVERSION=$version" \
    "-DSLOTS=$(IFS=,; echo "$*")" -P "$source/cmake/CheckPublishedSymbols.cmake"
  echo "ok: ${program#"$work/"}"
}

check_probe() {  # check_probe PROGRAM: it has its probe, with the nops of our header
  local notes at
  notes=$(readelf --wide -n "$1")
  at=$(sed -n 's/.*Location: 0x0*\([0-9a-f]*\),.*/\1/p' <<<"$notes")
  [[ $notes == *"Provider: outsider"*"Name: fire"*"Arguments: -4@"*" 8@"* ]] ||
    { echo "$1 has the notes: $notes"; exit 1; }
  [ "$(uname -m)" != x86_64 ] ||
    objdump -d --start-address="0x$at" "$1" | grep -A1 "^ *$at:" | grep 'cs nopw' >/dev/null ||
    { echo "$1 was not built with our header"; exit 1; }
  "$1"
  echo "ok: ${1#"$work/"}"
}

check_all() {  # check_all DIRECTORY OF PROGRAMS
  check "$1/with_publish" 1 custom_labels_current_set:8 otel_thread_ctx_v1:8
  [ "$1" = "$work/make" ] ||
    check "$1/with_publish_within" 1 custom_labels_current_set:8 otel_thread_ctx_v1:8
  check "$1/with_customlabels" 1
  check "$1/with_customlabels_v0" 0
  check_probe "$1/with_sdt"
  check_probe "$1/with_sdt_compat"
}

# Nothing but a compiler: no library may be looked for that the publishing side does not need.
quiet cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DVITRINE_OBSERVE=OFF \
  -DVITRINE_TESTS=OFF -DVITRINE_BENCH=OFF -DVITRINE_DEMO=OFF
if found=$(grep -E '^[A-Za-z0-9_-]+_DIR:PATH=.*cmake' "$work/build/CMakeCache.txt"); then
  echo "the publishing side looked for: $found"; exit 1
fi
quiet cmake --build "$work/build"
quiet cmake --install "$work/build" --prefix "$work/moved/from"
mv "$work/moved/from" "$work/prefix"  # an installed tree may be moved

quiet cmake -S "$project" -B "$work/find_package" -G Ninja "-DCMAKE_PREFIX_PATH=$work/prefix"
quiet cmake --build "$work/find_package"
check_all "$work/find_package"

pkgconfig=$(dirname "$(find "$work/prefix" -name vitrine-publish.pc)")
mkdir "$work/make"
quiet env "PKG_CONFIG_PATH=$pkgconfig" make -C "$project" "OUT=$work/make"
LD_LIBRARY_PATH=$(dirname "$pkgconfig") check_all "$work/make"

# The link options must do with every linker, and against what else strips unused symbols.
for flags in -fuse-ld=gold -fuse-ld=lld -fuse-ld=mold -no-pie -static-pie -flto \
  "-ffunction-sections -Wl,--gc-sections -s" -masm=intel; do
  quiet env "PKG_CONFIG_PATH=$pkgconfig" make -B -C "$project" "OUT=$work/make" \
    "CXXFLAGS=-O2 $flags" with_publish
  check "$work/make/with_publish" 1 custom_labels_current_set:8 otel_thread_ctx_v1:8
  echo "    $flags"
done

# Folders as absolute paths, some or all.
for folders in LIBDIR INCLUDEDIR "LIBDIR INCLUDEDIR"; do
  rm -rf "$work/split"
  options=()
  for folder in $folders; do options+=("-DCMAKE_INSTALL_$folder=$work/split/$folder"); done
  quiet cmake -S "$source" -B "$work/build" -UCMAKE_INSTALL_LIBDIR -UCMAKE_INSTALL_INCLUDEDIR \
    "-DCMAKE_INSTALL_PREFIX=$work/split/rest" "${options[@]}"
  quiet cmake --build "$work/build"
  quiet cmake --install "$work/build"
  quiet env "PKG_CONFIG_PATH=$(dirname "$(find "$work/split" -name vitrine-publish.pc)")" \
    make -B -C "$project" "OUT=$work/make" with_publish
  check "$work/make/with_publish" 1 custom_labels_current_set:8 otel_thread_ctx_v1:8
  echo "    absolute: $folders"
done

for way in FetchContent add_subdirectory; do
  quiet cmake -S "$project" -B "$work/$way" -G Ninja "-DVITRINE_SOURCE=$source" "-DVITRINE_WAY=$way"
  quiet cmake --build "$work/$way"
  check_all "$work/$way"
  [ -z "$(find "$work/$way" -path '*src/cli' -o -name 'libvitrine.so*' -o -name '*.deb')" ] ||
    { echo "it built more than asked"; exit 1; }
done

# All of it by link-time optimisation, the publishing side too.
lto() {  # lto C++-COMPILER FLAG LINKER
  local build=$work/lto-$1-$2-$3 cc=gcc ar=gcc-ar
  [[ $1 != clang* ]] || { cc=clang; ar=llvm-ar; }
  quiet cmake -S "$project" -B "$build" -G Ninja "-DVITRINE_SOURCE=$source" -DVITRINE_WAY=add_subdirectory \
    "-DCMAKE_CXX_COMPILER=$1" "-DCMAKE_C_COMPILER=$cc" "-DCMAKE_CXX_FLAGS=-O2 $2" \
    "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=$3" \
    "-DCMAKE_AR=$(command -v $ar)" "-DCMAKE_RANLIB=/bin/true"
  quiet cmake --build "$build" --target with_publish
  check "$build/with_publish" 1 custom_labels_current_set:8 otel_thread_ctx_v1:8
}
for linker in bfd gold mold; do
  lto g++ -flto=auto $linker
done
lto clang++ -flto lld
lto clang++ -flto=thin lld

# What is not there is said, by name.
refuse() {  # refuse COMPONENT TEXT
  local said
  if said=$(cmake -S "$project" -B "$work/refused" -G Ninja "-DCMAKE_PREFIX_PATH=$work/prefix" \
    "-DVITRINE_COMPONENTS=$1" 2>&1); then
    echo "find_package(vitrine COMPONENTS $1) succeeded"; exit 1
  fi
  [[ $(tr -s '[:space:]' ' ' <<<"$said") == *"$2"* ]] || { echo "$1: $said"; exit 1; }
  echo "ok: no component $1"
}
refuse observe "VITRINE_OBSERVE=OFF"
refuse nonesuch "nonesuch"
