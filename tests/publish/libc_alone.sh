#!/usr/bin/env bash
# The shared libraries need libc alone, glibc's or musl's, and keep working in programs that have more.
#   libc_alone.sh SOURCE-DIR LIBRARY-DIR [VITRINE]
set -euo pipefail
source=$(realpath "$1") libraries=$(realpath "$2") vitrine=${3:-}
work=$(mktemp -d)
program=
trap '[ -z "$program" ] || kill "$program" 2>/dev/null || true; rm -rf "$work"' EXIT
link=("-I$source/include" "-L$libraries" -lcustomlabels "-Wl,-rpath,$libraries")

for library in "$libraries"/libcustomlabels.so "$libraries"/libcustomlabels_v0.so; do
  needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  [ "$needed" = libc.so.6 ] || { echo "$library needs: $needed"; exit 1; }
  nm -D --undefined-only "$library" | sed -n 's/^ *U \([^@]*\).*/\1/p' | sort >"$work/wanted"
  nm -D --defined-only /lib/ld-musl-*.so.1 | awk '{print $3}' | sort >"$work/musl"
  missing=$(comm -23 "$work/wanted" "$work/musl")
  [ -z "$missing" ] || { echo "musl has none of what $library wants: $missing"; exit 1; }
  echo "ok: ${library##*/} needs libc alone"
done

for way in linked dlopened; do
  if [ $way = linked ]; then
    musl-gcc -O2 "$source/tests/publish/libc_alone.c" -o "$work/musl_program" "${link[@]}"
  else
    musl-gcc -O2 -DBY_DLOPEN "$source/tests/publish/libc_alone.c" -o "$work/musl_program" "-I$source/include"
  fi
  rm -f "$work/ready"
  mkfifo "$work/ready"
  "$work/musl_program" "$libraries/libcustomlabels.so" >"$work/ready" &
  program=$!
  read -r said <"$work/ready"
  [ "$said" = ready ] || { echo "musl, $way: $said"; exit 1; }
  if [ -n "$vitrine" ]; then
    said=$("$vitrine" labels "$program")
    [[ $said == *"tenant=acme inner=deep"* ]] || { echo "musl, $way: $said"; exit 1; }
  fi
  kill "$program"
  wait "$program" 2>/dev/null || true
  program=
  echo "ok: musl, $way"
done

# A program that exports variables of the published names reads what the library has in force, not them.
echo '__thread void *custom_labels_current_set;' >"$work/names.c"
cat >"$work/exporter.c" <<'EOF'
#include <customlabels.h>
int main(void) {
  custom_labels_labelset_t *set = custom_labels_new(1);
  custom_labels_replace(set);
  return set == 0 || custom_labels_current() != set;
}
EOF
for compiler in gcc musl-gcc; do
  $compiler -fPIE -pie -rdynamic "$work/exporter.c" "$work/names.c" -o "$work/exporter" "${link[@]}"
  "$work/exporter" || { echo "$compiler: an exported variable changes what the library has in force"; exit 1; }
  echo "ok: $compiler, a program that exports the variable"
done

# Exceptions go through the library, whichever unwinder throws them; memory goes through the program's operators.
for command in g++ "g++ -static-libstdc++ -static-libgcc" clang++; do
  # shellcheck disable=SC2086  # options
  $command -std=c++17 -O2 "$source/tests/publish/libc_alone.cpp" -o "$work/program" "${link[@]}"
  "$work/program" || { echo "$command: ends with $?"; exit 1; }
  echo "ok: $command"
done

# A static program of glibc loads it by dlopen: the library says that nobody will see its labels.
gcc -static -O2 -DBY_DLOPEN "$source/tests/publish/libc_alone.c" -o "$work/static" "-I$source/include" 2>/dev/null
rm -f "$work/ready"
mkfifo "$work/ready"
"$work/static" "$libraries/libcustomlabels.so" >"$work/ready" 2>"$work/errors" &
program=$!
read -r said <"$work/ready"
[ "$said" = ready ] || { echo "static: $said"; exit 1; }
grep -q "cannot be read from outside: it is static" "$work/errors" || { echo "a static program is not warned"; exit 1; }
echo "ok: static program of glibc"

# No other program is: not one that is started by the loader's name.
"$work/program" 2>"$work/errors"
"$(readelf -l "$work/program" | sed -n 's/.*interpreter: \(.*\)]/\1/p')" "$work/program" 2>>"$work/errors"
[ ! -s "$work/errors" ] || { cat "$work/errors"; exit 1; }
echo "ok: no warning for dynamic programs"
