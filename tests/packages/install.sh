#!/usr/bin/env bash
# Makes the Debian packages of a finished build, and lets lintian look at them; then installs them on a
# clean Debian, uses them as its users would, upgrades, and takes them off again.
#   install.sh SOURCE-DIR BUILD-DIR ROOTS-DIR
set -euo pipefail
VITRINE_ROOTS=${3:?}
# shellcheck source=../bare/roots.sh
. "$(dirname "$0")/../bare/roots.sh"
source=$(realpath "$1")
build=$(realpath "$2")
publisher=
at_end() { [ -z "$publisher" ] || kill "$publisher" || true; }
release=$(. /etc/os-release && echo "$VERSION_CODENAME")  # as the packages are of this one

echo "== packages"
cd "$build"
quiet cpack -G DEB -B "$work/packages" -D "CPACK_OUTPUT_FILE_PREFIX=$work/packages"
packages=("$work"/packages/*.deb)
[ ${#packages[@]} = 4 ] || fail "there should be four packages: ${packages[*]}"
quiet lintian --allow-root --fail-on error,warning "${packages[@]}"

echo "== a clean Debian"
make_root root "$release"
quiet inside root apt-get update
mkdir "$work/root/packages"
cp "${packages[@]}" "$work/root/packages"
(cd "$work/root" && find . -xdev -path ./packages -prune -o -path ./var -prune -o -print | sort) >"$work/before"

echo "== installed, by apt"
# What a minimal Debian leaves out by its own configuration would be left out of ours.
find "$work/root/etc/dpkg/dpkg.cfg.d" -type f ! -name no-sync -delete
quiet inside root sh -c 'apt-get install -y /packages/*.deb'
version=$(inside root vitrine --version)
[[ $version == *"$(dpkg-deb -f "$work"/packages/vitrine_*.deb Version | sed 's/-.*//')"* ]] || fail "version: $version"
inside root vitrine doctor >"$work/doctor" || true
grep -q '^modes' "$work/doctor" || fail "doctor says: $(cat "$work/doctor")"
for file in usr/share/man/man1/vitrine-labels.1.gz usr/share/bash-completion/completions/vitrine \
  usr/share/zsh/vendor-completions/_vitrine usr/share/fish/vendor_completions.d/vitrine.fish \
  usr/lib/systemd/system/vitrine-profile.service etc/default/vitrine-profile \
  usr/lib/systemd/system/vitrine-agent.service etc/vitrine/agent.toml \
  usr/share/doc/vitrine/README.Debian usr/share/doc/vitrine/docs/installing.md \
  usr/share/vitrine/single/vitrine_publish.hpp; do
  [ -e "$work/root/$file" ] || fail "not installed: /$file"
done
inside root ldconfig -p | grep 'libvitrine.so.0.1 ' >/dev/null || fail "the loader does not know libvitrine"
[ -z "$(getcap "$work/root/usr/bin/vitrine")" ] || fail "it has capabilities that nobody asked for"
[ -z "$(find "$work/root/etc/systemd/system/multi-user.target.wants" -name 'vitrine-*' 2>/dev/null)" ] ||
  fail "the service is enabled, though nobody asked for it"

echo "== programs built with libvitrine-dev"
PKG_CONFIG_PATH=$(dirname "$(find "$work/root/usr/lib" -name vitrine-observe.pc)")
export PKG_CONFIG_PATH
# shellcheck disable=SC2046  # lists of flags
quiet g++ -std=c++17 "$source/tests/packages/publisher.cpp" -o "$work/root/publisher" \
  $(pkg-config --cflags --libs vitrine-customlabels)
# shellcheck disable=SC2046
quiet g++ -std=c++17 "$source/tests/install/observer/main.cpp" -o "$work/root/observer" \
  $(pkg-config --cflags --libs vitrine-observe vitrine-publish)
[ "$(inside root /observer)" = $'tenant=acme\ntenant=acme\nprofiled acme' ] || fail "the observer failed"

publish() {  # until its labels are there
  mkfifo "$work/ready"
  chroot "$work/root" /publisher >"$work/ready" 2>/dev/null &  # itself, so that $! is its pid
  publisher=$!
  read -r _ <"$work/ready"
  rm "$work/ready"
}
publish
labels=$(inside root vitrine labels "$publisher")
[[ $labels == *tenant=acme* ]] || fail "its labels: $labels"

echo "== rights, for a group, on demand"
is() {  # is MODE-AND-OWNERS CAPABILITIES
  local now
  now=$(inside root stat -c '%a %U:%G' /usr/bin/vitrine)
  [ "$now" = "$1" ] || fail "/usr/bin/vitrine is $now, not $1"
  now=$(inside root getcap /usr/bin/vitrine)
  [ "${now#* }" = "$2" ] || fail "it has: $now; not: $2"
}
answer() {
  echo "vitrine vitrine/grant-group boolean $1" | inside root debconf-set-selections
  quiet inside root dpkg-reconfigure vitrine
}
granted="cap_sys_ptrace,cap_perfmon,cap_bpf=ep"
is "755 root:root" ""
answer true
is "750 root:vitrine" "$granted"
quiet inside root sh -c 'apt-get install -y --reinstall /packages/vitrine_*.deb'
is "750 root:vitrine" "$granted"
quiet inside root useradd --groups vitrine alice
labels=$(inside root setpriv --reuid alice --regid alice --init-groups vitrine labels "$publisher" 2>&1) || true
[[ $labels == *tenant=acme* ]] || fail "for alice, its labels: $labels"
answer false
is "755 root:root" ""
answer true

kill "$publisher"
wait "$publisher" || true
publisher=

echo "== taken off"
quiet inside root apt-get purge -y vitrine libvitrine-dev libvitrine0.1 libcustomlabels-vitrine
[ -z "$(inside root dpkg-statoverride --list '*vitrine*')" ] || fail "an override is left"
(cd "$work/root" && find . -xdev -path ./packages -prune -o -path ./var -prune -o -print | sort) >"$work/after"
left=$(comm -13 "$work/before" "$work/after" | grep -E 'vitrine|customlabels' || true)
[ -z "$left" ] || fail "left behind: $left"
