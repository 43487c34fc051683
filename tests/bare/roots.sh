# Minimal Debian roots, for tests of what a machine needs where nothing is installed. Sourced; needs bash, root.
#
# A root is made once for each release and set of packages, and kept as a tar file below $VITRINE_ROOTS, with
# what apt has downloaded for it: only the first run needs the network for long.

[ "$(id -u)" = 0 ] || { echo "needs root: it installs packages below a folder"; exit 1; }
# Mounts are those of this process only, and end with it.
[ -n "${VITRINE_MOUNTS:-}" ] || exec env VITRINE_MOUNTS=own unshare --mount --propagation private "$0" "$@"

work=$(mktemp -d)
at_end() { :; }  # for tests that start programs
remove_roots() {
  local mounted
  at_end
  wait || true
  for mounted in "$work"/*/{proc,sys,dev,var/cache/apt/archives,var/lib/apt/lists}; do
    umount -Rl "$mounted" 2>/dev/null || true
  done
  rm -rf --one-file-system "$work"
}
trap remove_roots EXIT

quiet() { "$@" >"$work/log" 2>&1 || { echo "FAILED: $*"; tail -n 60 "$work/log"; exit 1; }; }
fail() { printf '%s\n' "$*"; exit 1; }
certificates=  # of the machine's own, to reach registries by: as found in the roots
# inside NAME COMMAND…: as root logs in there, with nothing of our environment.
inside() {
  local root=$work/$1
  shift
  local variables=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
    DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 ${certificates:+NODE_EXTRA_CA_CERTS="$certificates"})
  if [ ! -x "$root/usr/bin/umount" ]; then  # busybox alone
    env -i "${variables[@]}" chroot "$root" "$@"
    return
  fi
  # Its root is a mount of its own, as a machine's is: in a mere chroot, paths of other namespaces begin elsewhere.
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount --propagation private sh -c 'mount --rbind "$1" "$1" && cd "$1" && shift && mkdir -p mnt/.old &&
    pivot_root . mnt/.old && umount -l /mnt/.old && rmdir /mnt/.old && exec env -i "$@"' sh "$root" \
    "${variables[@]}" "$@"
}

# make_root NAME RELEASE [PACKAGE…]: unpacks a minimal Debian as $work/NAME, with /proc, /sys and /dev.
make_root() {
  local name=$1 release=$2 kept key file
  shift 2
  kept=${VITRINE_ROOTS:?}/$release
  key=$(echo minbase "$@" | tr ' ' '+')
  mkdir -p "$kept/archives/partial" "$kept/lists/partial" "$work/$name"
  (  # tests that run beside each other want the same
    flock 9
    if [ ! -e "$kept/$key.tar" ]; then
      quiet mmdebstrap --format=tar --variant=minbase --mode=root ${1:+--include="$(IFS=,; echo "$*")"} \
        "$release" "$kept/$key.tar.part"
      mv "$kept/$key.tar.part" "$kept/$key.tar"
    fi
  ) 9>"$kept/lock"
  tar -C "$work/$name" -xf "$kept/$key.tar"
  for file in proc sys dev; do mount --rbind "/$file" "$work/$name/$file"; done
  mount --bind "$kept/archives" "$work/$name/var/cache/apt/archives"
  cp /etc/resolv.conf "$work/$name/etc"
  for file in /etc/apt/apt.conf.d/*proxy*; do  # how this machine reaches Debian
    [ ! -e "$file" ] || cp "$file" "$work/$name/etc/apt/apt.conf.d"
  done
  if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
    certificates=/root/certificates.pem
    cp "$NODE_EXTRA_CA_CERTS" "$work/$name$certificates"
  fi
  echo 'Binary::apt-get::APT::Keep-Downloaded-Packages "true"; APT::Keep-Downloaded-Packages "true";' \
    >"$work/$name/etc/apt/apt.conf.d/99keep"
  rm -f "$work/$name/etc/apt/apt.conf.d/docker-clean"
  echo force-unsafe-io >"$work/$name/etc/dpkg/dpkg.cfg.d/no-sync"  # it is thrown away afterwards
}
