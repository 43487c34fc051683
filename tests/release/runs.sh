#!/usr/bin/env bash
# The release that needs nothing installed, where nothing is: in a root that has busybox alone, or in a minimal
# Debian. Its command observes a service of this machine, from within.
#   runs.sh SOURCE-DIR BUILD-DIR ROOTS-DIR busybox|RELEASE
set -euo pipefail
VITRINE_ROOTS=${3:?}
# shellcheck source=../bare/roots.sh
. "$(dirname "$0")/../bare/roots.sh"
source=$(realpath "$1") build=$(realpath "$2") where=$4
running=()
at_end() { [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true; }

echo "== a root: $where"
if [ "$where" = busybox ]; then
  mkdir -p "$work/bare"/{bin,proc,sys,dev,tmp,root}
  cp "$(command -v busybox)" "$work/bare/bin/busybox"
  ln -s busybox "$work/bare/bin/sh"
  for file in proc sys dev; do mount --rbind "/$file" "$work/bare/$file"; done
  if ldd "$work/bare/bin/busybox" >/dev/null 2>&1; then fail "busybox is not static (package busybox-static)"; fi
else
  make_root bare "$where"
fi

echo "== the release"
"$source/packaging/release/make" "$build" "$work/made"
archives=("$work"/made/vitrine-*-linux-"$(uname -m)".tar.gz)
[ ${#archives[@]} = 1 ] || fail "there should be one: ${archives[*]}"
mkdir -p "$work/bare/opt"
tar -C "$work/bare/opt" -xf "${archives[0]}"
folder=/opt/$(ls "$work/bare/opt")
for file in share/man/man1/vitrine-labels.1 share/bash-completion/completions/vitrine include/customlabels.h \
  lib/*/libcustomlabels.so lib/*/libvitrine_publish.a lib/*/pkgconfig/vitrine-publish.pc \
  share/doc/vitrine/licences/libc6 share/doc/vitrine/licences/libre2*; do
  compgen -G "$work/bare$folder/$file" >/dev/null || fail "the release has no $file"
done
if readelf -SW "$work/bare$folder/lib/vitrine/program" | grep '\.debug_info' >/dev/null; then fail "it is not stripped"; fi
# The debug files are of this program: our own build id leads to them.
id=$(readelf -n "$work/bare$folder/lib/vitrine/program" | sed -n 's/.*Build ID: //p')
tar -tf "${archives[0]%.tar.gz}-debug.tar.gz" | grep "/.build-id/${id:0:2}/${id:2}.debug" >/dev/null || fail "no debug file"
ls -l "$work/made"

echo "== its command, there"
vitrine() { inside bare "$folder/bin/vitrine" "$@"; }
vitrine --version | grep -x 'vitrine [0-9.]*' >/dev/null || fail "no version"
vitrine doctor >"$work/doctor" || true
grep -q '^modes' "$work/doctor" || { cat "$work/doctor"; fail "vitrine doctor failed"; }
if grep "setcap.*$folder" "$work/doctor" >/dev/null; then fail "it would have the loader be given capabilities"; fi
"$build/bin/vitrine-demo-service" --seconds 300 >"$work/service" &
service=$!
running+=("$service")
until [ -s "$work/service" ]; do sleep 0.1; done
vitrine ps | grep "^$service .*shop" >/dev/null || fail "ps does not show the service"
labels=$(for _ in 1 2 3 4 5; do vitrine labels "$service"; done)
[[ $labels == *tenant=* ]] || fail "no labels: $labels"
vitrine trace "$service" shop:order --limit 2 --duration 20s >"$work/trace" 2>&1 || { cat "$work/trace"; fail "no trace"; }
grep -q 'shop:order(id=' "$work/trace" || { cat "$work/trace"; fail "no event"; }
vitrine profile "$service" --duration 2s --off-cpu --on-cpu -o /tmp/shop.html >"$work/profile" 2>&1 ||
  { cat "$work/profile"; fail "no profile"; }
[ "$(stat -c %s "$work/bare/tmp/shop.html")" -gt 100000 ] || fail "the page is small"
# libcurl is loaded by name: it must be the one that came with it.
python3 "$source/tests/support/collector.py" "$work" &
running+=($!)
until [ -e "$work/port" ]; do sleep 0.1; done
vitrine profile "$service" --duration 1s --export "otlp+http://127.0.0.1:$(cat "$work/port")" >"$work/export" 2>&1 ||
  { cat "$work/export"; fail "no export"; }
grep -q profiles "$work/got" || fail "nothing came to the collector"
# As users see it in a list of processes.
chroot "$work/bare" "$folder/bin/vitrine" labels "$service" --watch=1s --duration 30s >/dev/null 2>&1 &
running+=($!)
for _ in $(seq 100); do
  for process in /proc/[0-9]*; do
    [[ $(readlink "$process/exe") == *"$folder/lib/vitrine/vitrine" ]] || continue
    name=$(cat "$process/comm")
    break 2
  done
  sleep 0.1
done
[ "${name:-}" = vitrine ] || fail "the process is called '${name:-}', not vitrine"
echo "ok"
