#!/usr/bin/env bash
# A program and a library whose inlined layouts differ do not go together, and say so before main: at the
# link, or when the program is loaded. Neither does a program of one format with the library of the other.
#   abi_mismatch.sh SOURCE_ROOT LIBCUSTOMLABELS LIBCUSTOMLABELS_V0 LIBVITRINE_PUBLISH
set -euo pipefail
root=$(realpath "$1") v1=$(realpath "$2") v0=$(realpath "$3") static=$(realpath "$4")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
number=$(sed -n 's/^#define VITRINE_DETAIL_ABI \([0-9]*\)$/\1/p' "$root/include/vitrine/export.h")
other=$((number + 1))
newer=-DVITRINE_DETAIL_ABI=$other
fail() { echo "$*"; exit 1; }

cat >program.cpp <<'EOF'
#include <vitrine/labels.hpp>
int main() {
  vitrine::labels::Scope scope{vitrine::labels::Key{"key"}, "value"};
  return scope.ok() ? 0 : 1;
}
EOF
# Inlined code alone, without a call of the library.
cat >inlined.cpp <<'EOF'
#include <vitrine/labels.hpp>
int main() {
  return vitrine::labels::detail::has_arena(vitrine::labels::detail::vitrine_labels_thread);
}
EOF
# The library as it will be one day.
for source in "$root"/src/publish/*.cpp "$root"/src/publish/*/*.cpp; do
  case $source in
    */link/*) ;;
    *) echo "#include \"${source#"$root/src/"}\"" ;;
  esac
done >library.cpp
compile=(g++ -std=c++17 -O1 -pthread "-I$root/include")
mkdir later
sed "s/@node@/VITRINE_LABELS_$other/" "$root/src/publish/link/library.map.in" >later.map
"${compile[@]}" "$newer" -shared -fPIC -fvisibility=hidden -fvisibility-inlines-hidden "-I$root/src" \
  -DVITRINE_VERSION='"later"' -DVITRINE_PUBLISH_ABI=1 -DVITRINE_PUBLISH_OTEL=1 -DVITRINE_PUBLISH_STATIC=0 \
  -Wl,-soname,libcustomlabels.so -Wl,--version-script=later.map -Wl,-z,nodelete library.cpp \
  "$root/src/publish/link/symbols.cpp" -o later/libcustomlabels.so

# What fits, links and runs.
mkdir now
cp "$v1" now/libcustomlabels.so
for source in program inlined; do
  "${compile[@]}" $source.cpp -o $source -Lnow -lcustomlabels
  "${compile[@]}" "$newer" $source.cpp -o $source.later -Llater -lcustomlabels
  LD_LIBRARY_PATH=now ./$source || fail "$source does not run with the library that it was made for"
  LD_LIBRARY_PATH=later ./$source.later || fail "$source.later does not run with the later library"
done

# What does not fit does not link: by names of functions, and by the name of the thread's state alone.
refuses_to_link() {  # WHAT OPTION…
  local what=$1
  shift
  if "${compile[@]}" "$@" -o refused 2>said; then fail "$what links"; fi
  grep -q "vitrine_labels_thread_[0-9]" said || { cat said; fail "$what: the link fails for another reason"; }
  echo "ok: $what does not link"
}
for source in program inlined; do
  refuses_to_link "$source with later headers, shared library" "$newer" $source.cpp -Lnow -lcustomlabels
  refuses_to_link "$source with later headers, archive" "$newer" $source.cpp "$static"
  refuses_to_link "$source with earlier headers, later library" $source.cpp -Llater -lcustomlabels
done

# Attributes hold strings of the C++ library, which has two layouts of them.
cat >context.cpp <<'EOF'
#include <vitrine/context.hpp>
int main() { return vitrine::context::publish({{"service.name", "shop"}}) ? 0 : 1; }
EOF
"${compile[@]}" context.cpp -o context -Lnow -lcustomlabels
LD_LIBRARY_PATH=now ./context || fail "context does not run with the library that it was made for"
for library in "-Lnow -lcustomlabels" "$static"; do
  # shellcheck disable=SC2086  # options
  if "${compile[@]}" -D_GLIBCXX_USE_CXX11_ABI=0 context.cpp $library -o refused 2>said; then
    fail "a program with the older strings links"
  fi
  grep -q "context::abi_[0-9]*_without_cxx11_strings::publish" said || { cat said; fail "older strings: refused for another reason"; }
  echo "ok: a program with the older strings does not link with $library"
done

# Linked with one, loaded with another.
mkdir mixed
cp "$v0" mixed/libcustomlabels.so
refuses_to_load() {  # PROGRAM FOLDER
  local status=0
  LD_LIBRARY_PATH=$2 "./$1" 2>said || status=$?
  [ $status != 0 ] || fail "$1 runs with the library in $2/"
  grep -q "VITRINE_LABELS_[0-9]*' not found" said || { cat said; fail "$1 with $2/: refused for another reason"; }
  echo "ok: $1 with the library in $2/ is refused"
}
for source in program inlined; do
  refuses_to_load $source later
  refuses_to_load $source.later now
  refuses_to_load $source mixed
done

# The names of readers and of C are without versions, in every library.
for library in now/libcustomlabels.so later/libcustomlabels.so "$v0"; do
  if readelf --wide --dyn-syms "$library" | grep -E '(custom_labels|otel)_[a-z0-9_]*@'; then
    fail "$library: names of readers have a version"
  fi
done
