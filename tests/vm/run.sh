#!/usr/bin/env bash
# Boots Debian's own kernel in a virtual machine, all of it emulated, and has checks.sh use vitrine there.
#   run.sh SOURCE-DIR BUILD-DIR MACHINE      MACHINE: aarch64 or x86_64, which BUILD-DIR is built for
# Programs and libraries are those of BUILD-DIR and of Debian; the kernel and busybox are packages that are
# unpacked, not installed. What the machine's console said is in BUILD-DIR/vm/console.
set -euo pipefail
source=$(realpath "$1") build=$(realpath "$2") machine=$3
here=$source/tests/vm
vm=$build/vm
limit=1500  # seconds; it takes a tenth of that where nothing else runs
mkdir -p "$vm"
die() { echo "tests/vm: $*" >&2; exit 1; }

case $machine in
  aarch64)
    architecture=arm64 triplet=aarch64-linux-gnu
    compile=aarch64-linux-gnu-gcc strip=aarch64-linux-gnu-strip vitrine=(qemu-aarch64 "$build/bin/vitrine")
    emulator=(qemu-system-aarch64 -M virt -cpu cortex-a72) console=ttyAMA0
    ;;
  x86_64)
    architecture=amd64 triplet=x86_64-linux-gnu
    compile=gcc strip=strip vitrine=("$build/bin/vitrine")
    emulator=(qemu-system-x86_64 -M q35 -cpu Skylake-Client-v4) console=ttyS0
    ;;
  *) die "no machine $machine" ;;
esac

# package NAME: unpacks Debian's package, once. Prints the folder. As Debian has a new kernel now and then, the
# one that was unpacked first is kept.
package() {
  local folder=$vm/$1
  if [ ! -d "$folder" ]; then
    mkdir "$folder.new"
    (cd "$folder.new" && apt-get download -qq "$1:$architecture" >/dev/null 2>"$vm/apt") ||
      { cat "$vm/apt" >&2; rmdir "$folder.new"; die "cannot download $1:$architecture (apt-get update?)"; }
    dpkg-deb -x "$folder.new"/*.deb "$folder.new"
    rm "$folder.new"/*.deb
    mv "$folder.new" "$folder"
  fi
  echo "$folder"
}

# The metapackage names the kernel of today.
if [ -e "$vm/kernel-package" ]; then
  kernel_package=$(<"$vm/kernel-package")
else
  kernel_package=$(apt-cache depends "linux-image-$architecture:$architecture" |
    sed -n 's/.*Depends: \(linux-image-[^:]*\).*/\1/p' | head -n 1)
  [ -n "$kernel_package" ] || die "apt knows no linux-image-$architecture:$architecture"
fi
kernel_folder=$(package "$kernel_package")
kernel=$(echo "$kernel_folder"/boot/vmlinuz-*)
echo "$kernel_package" >"$vm/kernel-package"
busybox=$(package busybox-static)

# A C program with a provider of DTrace's kind, by our object step, and with labels from the library.
step=$vm/dof_subject
mkdir -p "$step"
"${vitrine[@]}" usdt header -s "$source/tests/observe/dof_subject.d" -o "$step/shop.h"
"$compile" -O2 -DWITH_LABELS -I"$step" -I"$source/include/vitrine/compat" -I"$source/include" \
  -c "$source/tests/observe/dof_subject.c" -o "$step/dof_subject.o"
"${vitrine[@]}" usdt link -s "$source/tests/observe/dof_subject.d" -o "$step/probes.o" "$step/dof_subject.o"
"$compile" "$step/dof_subject.o" "$step/probes.o" -L"$build/lib" -lcustomlabels -o "$step/program"

stage=$vm/stage
rm -rf "$stage"
mkdir -p "$stage"
cp "$here/checks.sh" "$here/network_files.sh" "$stage"
for program in vitrine vitrine-demo-service; do  # an initramfs is memory
  "$strip" -g -o "$stage/$program" "$build/bin/$program"
done
cp "$step/program" "$stage/dof_subject"
cp -L "$build"/lib/libcustomlabels.so* "$stage"
# The modules of NFS, each behind those that it needs.
module_after_needed() {
  local file name
  file=$(find "$kernel_folder" -name "$1.ko*" | head -n 1)
  [ -n "$file" ] || die "$kernel_package has no module $1"
  [ ! -e "$stage/$1.ko" ] || return 0
  case $file in
    *.xz) xz -dc "$file" >"$vm/module.ko" ;;
    *) cp "$file" "$vm/module.ko" ;;
  esac
  "$strip" -g -o "$stage/$1.ko" "$vm/module.ko"
  for name in $(readelf -p .modinfo "$stage/$1.ko" | sed -n 's/.* depends=//p' | tr , ' '); do
    module_after_needed "$name"
  done
  echo "$1.ko" >>"$stage/modules"
}
module_after_needed nfsd
module_after_needed nfsv4
# Those that the command loads by name (src/cli/shell/libraries.cpp), by the names that they are loaded by.
libraries=
IFS=';' read -ra lazy < <(sed -n 's/^VITRINE_LAZY_LIBRARIES:INTERNAL=//p' "$build/CMakeCache.txt")
for file in "${lazy[@]}"; do
  libraries+=" $(readelf -dW "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
done
"$here/image.sh" "$triplet" "$busybox/bin/busybox" "$vm/initramfs.gz" "$here/init" "$libraries" "$stage"/*

echo "booting $(basename "$kernel"), emulated (console: $vm/console)"
timeout "$limit" "${emulator[@]}" -accel tcg,thread=multi -smp 2 -m 2G -nographic -no-reboot -nic none \
  -kernel "$kernel" -initrd "$vm/initramfs.gz" -append "console=$console quiet panic=-1" \
  </dev/null >"$vm/console" 2>&1 || echo "the machine was ended: exit code $? of the emulator" >>"$vm/console"
tr -d '\r' <"$vm/console" | sed -n '/^vitrine-vm: begin/,/^vitrine-vm: end/p'
grep -q '^vitrine-vm: end 0' <(tr -d '\r' <"$vm/console") ||
  { tail -n 30 "$vm/console"; die "checks failed, or the machine did not get so far"; }
