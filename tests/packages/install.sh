#!/usr/bin/env bash
# Makes the Debian packages of a finished build, and lets lintian look at them; then installs them on a
# clean Debian, uses them as its users would, upgrades, and takes them off again.
#   install.sh SOURCE-DIR BUILD-DIR
# The clean Debian and what apt downloads for it are kept in BUILD-DIR/debian, so only the first run
# needs the network for long.
set -euo pipefail
source=$(realpath "$1")
build=$(realpath "$2")
[ "$(id -u)" = 0 ] || { echo "needs root: it installs packages below a folder"; exit 1; }
# Mounts are those of this process only, and end with it.
[ -n "${VITRINE_MOUNTS:-}" ] || exec env VITRINE_MOUNTS=own unshare --mount --propagation private "$0" "$@"

work=$(mktemp -d)
publisher=
trap '[ -z "$publisher" ] || kill "$publisher" || true
  umount -R "$work/root/"{proc,sys,dev,var/cache/apt/archives,var/lib/apt/lists} 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
quiet() { "$@" >"$work/log" 2>&1 || { echo "FAILED: $*"; tail -40 "$work/log"; exit 1; }; }
fail() { printf '%s\n' "$*"; exit 1; }
inside() { chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

echo "== packages"
cd "$build"
quiet cpack -G DEB -B "$work/packages" -D "CPACK_OUTPUT_FILE_PREFIX=$work/packages"
packages=("$work"/packages/*.deb)
[ ${#packages[@]} = 4 ] || fail "there should be four packages: ${packages[*]}"
quiet lintian --allow-root --fail-on error,warning "${packages[@]}"

echo "== a clean Debian"
kept=$build/debian
mkdir -p "$kept/archives/partial" "$kept/lists/partial" "$work/root"
if [ ! -e "$kept/root.tar" ]; then
  quiet mmdebstrap --format=tar --variant=minbase --mode=root bookworm "$kept/root.tar.part"
  mv "$kept/root.tar.part" "$kept/root.tar"
fi
tar -C "$work/root" -xf "$kept/root.tar"
for file in proc sys dev; do mount --rbind "/$file" "$work/root/$file"; done
mount --bind "$kept/archives" "$work/root/var/cache/apt/archives"
mount --bind "$kept/lists" "$work/root/var/lib/apt/lists"
cp /etc/resolv.conf "$work/root/etc"
if [ -z "$(find "$kept/lists" -name '*Packages*' -mtime -7)" ]; then quiet inside apt-get update; fi
echo 'Binary::apt-get::APT::Keep-Downloaded-Packages "true"; APT::Keep-Downloaded-Packages "true";' \
  >"$work/root/etc/apt/apt.conf.d/99keep"
rm -f "$work/root/etc/apt/apt.conf.d/docker-clean"
mkdir "$work/root/packages"
cp "${packages[@]}" "$work/root/packages"
(cd "$work/root" && find . -xdev -path ./packages -prune -o -path ./var -prune -o -print | sort) >"$work/before"

echo "== installed, by apt"
# What a minimal Debian leaves out by its own configuration would be left out of ours.
rm -f "$work"/root/etc/dpkg/dpkg.cfg.d/*
echo force-unsafe-io >"$work/root/etc/dpkg/dpkg.cfg.d/no-sync"  # it is thrown away afterwards
quiet inside sh -c 'apt-get install -y /packages/*.deb'
version=$(inside vitrine --version)
[[ $version == *"$(dpkg-deb -f "$work"/packages/vitrine_*.deb Version | sed 's/-.*//')"* ]] || fail "version: $version"
inside vitrine doctor >"$work/doctor" || true
grep -q '^modes' "$work/doctor" || fail "doctor says: $(cat "$work/doctor")"
for file in usr/share/man/man1/vitrine-labels.1.gz usr/share/bash-completion/completions/vitrine \
  usr/share/zsh/vendor-completions/_vitrine usr/share/fish/vendor_completions.d/vitrine.fish \
  usr/lib/systemd/system/vitrine-profile.service etc/default/vitrine-profile \
  usr/share/doc/vitrine/README.Debian usr/share/doc/vitrine/docs/installing.md \
  usr/share/vitrine/single/vitrine_publish.hpp; do
  [ -e "$work/root/$file" ] || fail "not installed: /$file"
done
inside ldconfig -p | grep 'libvitrine.so.0.1 ' >/dev/null || fail "the loader does not know libvitrine"
[ -z "$(getcap "$work/root/usr/bin/vitrine")" ] || fail "it has capabilities that nobody asked for"
[ ! -e "$work/root/etc/systemd/system/multi-user.target.wants/vitrine-profile.service" ] ||
  fail "the service is enabled, though nobody asked for it"

echo "== programs built with libvitrine-dev"
PKG_CONFIG_PATH=$(dirname "$(find "$work/root/usr/lib" -name vitrine-observe.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # lists of flags
quiet g++ -std=c++17 "$source/tests/packages/publisher.cpp" -o "$work/root/publisher" \
  $(pkg-config --cflags --libs vitrine-customlabels)
# shellcheck disable=SC2046
quiet g++ -std=c++20 "$source/tests/install/observer/main.cpp" -o "$work/root/observer" \
  $(pkg-config --cflags --libs vitrine-observe vitrine-publish)
[ "$(inside /observer)" = $'tenant=acme\ntenant=acme\nprofiled acme' ] || fail "the observer failed"

publish() {  # until its labels are there
  mkfifo "$work/ready"
  chroot "$work/root" /publisher >"$work/ready" 2>/dev/null &  # itself, so that $! is its pid
  publisher=$!
  read -r _ <"$work/ready"
  rm "$work/ready"
}
publish
labels=$(inside vitrine labels "$publisher")
[[ $labels == *tenant=acme* ]] || fail "its labels: $labels"

echo "== rights, for a group, on demand"
is() {  # is MODE-AND-OWNERS CAPABILITIES
  local now
  now=$(inside stat -c '%a %U:%G' /usr/bin/vitrine)
  [ "$now" = "$1" ] || fail "/usr/bin/vitrine is $now, not $1"
  now=$(inside getcap /usr/bin/vitrine)
  [ "${now#* }" = "$2" ] || fail "it has: $now; not: $2"
}
answer() {
  echo "vitrine vitrine/grant-group boolean $1" | inside debconf-set-selections
  quiet inside dpkg-reconfigure vitrine
}
granted="cap_sys_ptrace,cap_perfmon,cap_bpf=ep"
is "755 root:root" ""
answer true
is "750 root:vitrine" "$granted"
quiet inside sh -c 'apt-get install -y --reinstall /packages/vitrine_*.deb'
is "750 root:vitrine" "$granted"
quiet inside useradd --groups vitrine alice
labels=$(inside setpriv --reuid alice --regid alice --init-groups vitrine labels "$publisher" 2>&1) || true
[[ $labels == *tenant=acme* ]] || fail "for alice, its labels: $labels"
answer false
is "755 root:root" ""
answer true

kill "$publisher"
wait "$publisher" || true
publisher=

echo "== taken off"
quiet inside apt-get purge -y vitrine libvitrine-dev libvitrine0.1 libcustomlabels-vitrine
[ -z "$(inside dpkg-statoverride --list '*vitrine*')" ] || fail "an override is left"
(cd "$work/root" && find . -xdev -path ./packages -prune -o -path ./var -prune -o -print | sort) >"$work/after"
left=$(comm -13 "$work/before" "$work/after" | grep -E 'vitrine|customlabels' || true)
[ -z "$left" ] || fail "left behind: $left"
