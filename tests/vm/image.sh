#!/usr/bin/env bash
# Makes the initramfs of a virtual machine: busybox, what is given, and the libraries that it needs.
#   image.sh TRIPLET BUSYBOX OUT INIT FILE…      FILE… go into /vitrine of the guest, INIT is its first program
set -euo pipefail
triplet=$1 busybox=$2 out=$3 init=$4
shift 4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,proc,sys,tmp,lib,lib64,vitrine,etc}
cp "$busybox" "$root/bin/busybox"
cp "$init" "$root/init"
cp "$@" "$root/vitrine"

# The loader is found by the path in the program, all else where the loader looks on Debian.
needed() { { readelf -dW "$1" 2>/dev/null || true; } | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
loader() { { readelf -lW "$1" 2>/dev/null || true; } | sed -n 's/.*program interpreter: \(.*\)\]/\1/p'; }
take() {  # take FILE: its libraries, and theirs
  local name path
  for name in $(needed "$1"); do
    [ -e "$root/vitrine/$name" ] || [ -e "$root/lib/$triplet/$name" ] && continue
    for path in "/lib/$triplet/$name" "/usr/lib/$triplet/$name"; do
      [ -e "$path" ] && break
    done
    [ -e "$path" ] || { echo "$1 needs $name, which is not in /usr/lib/$triplet" >&2; exit 1; }
    install -D "$path" "$root/lib/$triplet/$name"
    take "$path"
  done
}
for file in "$root"/vitrine/*; do
  take "$file"
  interpreter=$(loader "$file")
  [ -z "$interpreter" ] || [ -e "$root$interpreter" ] ||
    install -D "/lib/$triplet/$(basename "$interpreter")" "$root$interpreter"
done
(cd "$root" && find . | cpio --quiet -o -H newc -R 0:0) | gzip -1 >"$out"
