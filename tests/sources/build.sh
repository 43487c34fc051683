#!/usr/bin/env bash
# Another project, from its Debian source package, built with our object step in place of systemtap's `dtrace`, and our
# <sys/sdt.h>: its probes are there, and fire.
#   build.sh SOURCE-DIR BUILD-DIR ROOTS-DIR PACKAGE
set -euo pipefail
VITRINE_ROOTS=${3:?}
# shellcheck source=../bare/roots.sh
. "$(dirname "$0")/../bare/roots.sh"
source=$(realpath "$1") build=$(realpath "$2") package=$4
release=$(. /etc/os-release && echo "$VERSION_CODENAME")

make_root bare "$release"
# Of the release alone: its updates come and go.
sed -n "s/^deb \(.* $release .*\)/deb-src \1/p" "$work/bare/etc/apt/sources.list" >"$work/bare/etc/apt/sources.list.d/sources.list"
quiet inside bare apt-get update
quiet inside bare apt-get install -y --no-install-recommends gcc libc6-dev make dpkg-dev
quiet inside bare sh -c "mkdir /build && cd /build && apt-get source $package"
folder=$(cd "$work/bare" && echo build/"${package%%[0-9-]*}"*/)
echo "== $folder"

# The release that needs nothing installed, under the name dtrace.
quiet "$source/packaging/release/make" "$build" "$work/made"
tar -C "$work/bare/opt" -xf "$work"/made/vitrine-*-linux-"$(uname -m)".tar.gz
ours=$(cd "$work/bare" && echo opt/vitrine-*)
ln -s "/$ours/bin/vitrine" "$work/bare/usr/local/bin/vitrine"
ln -s "/$ours/bin/vitrine" "$work/bare/usr/local/bin/dtrace"
there() { inside bare env "CPATH=/$ours/include/vitrine/compat:/$ours/include" sh -c "cd /$folder && $*"; }

# built FILE PROVIDER LEAST: the file has at least so many probes of that provider.
built() {
  local count
  count=$(there "vitrine probes $1 '$2:*' --json" | wc -l)
  [ "$count" -ge "$3" ] || fail "$1 has $count probes of $2, not $3"
  echo "$1: $count probes of $2"
}
# fires PATTERN COMMAND: a trace of it, from its start, shows the pattern.
fires() {
  there "vitrine trace --exec --limit 5 $2" >"$work/trace" 2>&1 || { cat "$work/trace"; fail "the trace failed"; }
  grep -E "$1" "$work/trace" || { cat "$work/trace"; fail "nothing fires like $1"; }
}

case $package in
  tcl8.6)
    quiet there "cd unix && ./configure --enable-dtrace && make -j$(nproc) tclsh"
    built unix/libtcl8.6.so tcl 15
    printf 'proc greet {who} {return $who}\ngreet world\n' >"$work/bare/root/greet.tcl"
    fires 'tcl:proc-entry\("(::)?greet"' "'tcl:proc-entry' --where 'arg0 ~ \"greet\"' -- env LD_LIBRARY_PATH=unix TCL_LIBRARY=library unix/tclsh /root/greet.tcl"
    ;;
  perl)
    # Its makefile makes a dummy object where `dtrace -G` fails, as no object of a part calls a probe.
    quiet there "./Configure -des -Dusedtrace=/usr/local/bin/dtrace -Uusedl -Dman1dir=none -Dman3dir=none &&
      make -j$(nproc) perl"
    built perl perl 6
    printf 'package Shop; sub order { $_[0] } package main; Shop::order($_) for 1..3;\n' >"$work/bare/root/shop.pl"
    fires 'perl:sub-entry\("order", "/root/shop.pl"' \
      "'perl:sub-entry' --where 'arg0 == order' -- ./perl -Ilib /root/shop.pl"
    ;;
  ruby*)
    # Patches of the package may be newer than what autoconf made of them.
    quiet there "touch configure && ./configure --enable-dtrace --disable-install-doc && make -j$(nproc) ruby"
    built ruby ruby 15
    # Ruby looks at its probes of methods in the instructions of TracePoint alone, as its own test/dtrace does.
    printf 'TracePoint.new(:call) {}.enable\ndef order(n) n end\n3.times { |n| order(n) }\n' >"$work/bare/root/shop.rb"
    fires 'ruby:method-entry\("Object", "order"' \
      "'ruby:method-entry' --where 'arg1 == order' -- ./ruby --disable-gems /root/shop.rb"
    ;;
  postgresql-*)
    quiet inside bare apt-get install -y --no-install-recommends bison flex perl
    quiet there "./configure --enable-dtrace --without-readline --without-zlib --without-icu && make -j$(nproc) && make install"
    built /usr/local/pgsql/bin/postgres postgresql 55
    quiet inside bare sh -c 'useradd db && mkdir /db && chown db /db && ldconfig /usr/local/pgsql/lib &&
      setpriv --reuid db --clear-groups /usr/local/pgsql/bin/initdb -D /db'
    # One backend alone, which answers what its standard input asks.
    echo 'select 42;' >"$work/bare/root/query.sql"
    fires 'postgresql:query-start\("select 42' \
      "'postgresql:query-*' -- setpriv --reuid db --clear-groups /usr/local/pgsql/bin/postgres --single -D /db postgres </root/query.sql"
    ;;
  *) fail "how is $package built?" ;;
esac
