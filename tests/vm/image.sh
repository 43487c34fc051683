#!/usr/bin/env bash
# Makes the initramfs of a virtual machine: busybox, what is given, and the libraries that it needs.
#   image.sh TRIPLET BUSYBOX OUT INIT LIBRARIES FILE…
# FILE… go into /vitrine of the guest, INIT is its first program; LIBRARIES are names of those that a program loads
# itself ("libdw.so.1 libelf.so.1").
set -euo pipefail
triplet=$1 busybox=$2 out=$3 init=$4 libraries=$5
shift 5
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,lib,lib64,vitrine,etc}
cp "$busybox" "$root/bin/busybox"
cp "$init" "$root/init"
cp "$@" "$root/vitrine"

# The loader is found by the path in the program, all else where the loader looks on Debian.
needed() { { readelf -dW "$1" 2>/dev/null || true; } | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
loader() { { readelf -lW "$1" 2>/dev/null || true; } | sed -n 's/.*program interpreter: \(.*\)\]/\1/p'; }
take() {  # take FILE NAME…: libraries of these names for it, and theirs
  local name path file=$1
  shift
  for name; do
    [ -e "$root/vitrine/$name" ] || [ -e "$root/lib/$triplet/$name" ] && continue
    for path in "/lib/$triplet/$name" "/usr/lib/$triplet/$name"; do
      [ -e "$path" ] && break
    done
    [ -e "$path" ] || { echo "$file needs $name, which is not in /usr/lib/$triplet" >&2; exit 1; }
    install -D "$path" "$root/lib/$triplet/$name"
    # shellcheck disable=SC2046  # names
    take "$path" $(needed "$path")
  done
}
# shellcheck disable=SC2086
take "$root/vitrine/vitrine" $libraries
for file in "$root"/vitrine/*; do
  # shellcheck disable=SC2046
  take "$file" $(needed "$file")
  interpreter=$(loader "$file")
  [ -z "$interpreter" ] || [ -e "$root$interpreter" ] ||
    install -D "/lib/$triplet/$(basename "$interpreter")" "$root$interpreter"
done
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) | gzip -1 >"$out"
