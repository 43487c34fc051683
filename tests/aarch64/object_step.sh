#!/usr/bin/env bash
# The object step for aarch64: by vitrine built for it, under qemu-user, and by the one of this machine, on the
# same objects. Both make the same; the program then runs, its probes nops, and both list its probes.
#   object_step.sh SOURCE-DIR AARCH64-BUILD-DIR VITRINE      VITRINE: this machine's
# What is linked stays in AARCH64-BUILD-DIR/object_step.
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2") native=$(realpath "$3")
definition=$source/tests/observe/dof_subject.d
work=$build/object_step
rm -rf "$work"

emulated() { qemu-aarch64 "$build/bin/vitrine" "$@"; }
native() { "$native" "$@"; }
step() {  # step WHICH: in a folder of its own, on the same object by the same name
  mkdir -p "$work/$1"
  cd "$work/$1"
  "$1" usdt header -s "$definition" -o shop.h
  [ -e ../compiled.o ] ||
    aarch64-linux-gnu-gcc -O2 -DWITH_LABELS -I. -I"$source/include" -c "$source/tests/observe/dof_subject.c" -o ../compiled.o
  cp ../compiled.o subject.o
  "$1" usdt link -s "$definition" -o probes.o subject.o
}
same() { cmp "$work/emulated/$1" "$work/native/$1"; }

step native
step emulated
same shop.h
same subject.o
same probes.o
subject=$work/subject
aarch64-linux-gnu-gcc subject.o probes.o -L"$build/lib" -lcustomlabels -o "$subject"

answers=$(printf 'state\nfire 3\nrate 2\n' | LD_LIBRARY_PATH=$build/lib qemu-aarch64 "$subject")
[ "$answers" = $'ready\nstate 0\nfire\nrate' ] || { echo "the program said: $answers"; exit 1; }
emulated probes --json "$subject" >"$work/emulated/probes"
native probes --json "$subject" >"$work/native/probes"
same probes
for probe in plain checked mapped sold; do
  grep -q "\"name\":\"$probe\"" "$work/native/probes" || { echo "no probe $probe is listed"; exit 1; }
done
emulated usdt dump "$subject" >"$work/emulated/dump"
native usdt dump "$subject" >"$work/native/dump"
same dump
echo "the object step for aarch64: the same by both, $(wc -l <"$work/native/probes") probes"
