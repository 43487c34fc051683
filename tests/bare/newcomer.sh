#!/usr/bin/env bash
# What a newcomer does, on a minimal Debian where nothing is installed: clones the repository, runs the demo and
# makes the packages. Another minimal Debian, without compilers, then installs and uses those.
#   newcomer.sh SOURCE-DIR ROOTS-DIR RELEASE [test]
# test: runs `./run test` there, too.
set -euo pipefail
VITRINE_ROOTS=${2:?}
# shellcheck source=roots.sh
. "$(dirname "$0")/roots.sh"
source=$(realpath "$1") release=$3
there=/srv/vitrine  # where other users can enter, as whom some tests run
service=
at_end() { [ -z "$service" ] || kill "$service" 2>/dev/null || true; }

echo "== a minimal Debian ($release)"
make_root bare "$release" ca-certificates git
# What is committed, as a clone has it.
quiet git -c safe.directory='*' clone --no-hardlinks "file://$source" "$work/bare$there"
echo "at $(git -C "$work/bare$there" log -1 --format='%h %s')"
run() { inside bare sh -c "cd $there && exec ./run $*"; }

echo "== ./run demo"
begin=$SECONDS
run demo >"$work/demo" 2>"$work/demo.err" </dev/null ||
  { tail -n 40 "$work/demo" "$work/demo.err"; fail "the demo failed"; }
echo "it took $((SECONDS - begin)) s, packages included; its last 40 lines:"
tail -n 40 "$work/demo"
shown() {  # shown WHAT PATTERN
  grep -Eq "$2" "$work/demo" || { cat "$work/demo" "$work/demo.err"; fail "the demo shows no $1"; }
}
shown "labels of worker threads" '^ +[0-9]+ +worker-[0-9]+ +proven .*tenant='
shown "labelled event" 'worker-[0-9]+ [0-9]+/[0-9]+ +shop:request_start\(id=[0-9]+, path="/.*tenant='
shown "latency table" '^ +(acme|globex|initech) +[0-9]+( +[0-9.]+(us|µs|ms|s)){5}'
page=$(sed -n 's/.*for a browser: //p' "$work/demo")
[ -n "$page" ] || fail "the demo made no page"
[ "$(stat -c %s "$work/bare/$page")" -gt 100000 ] || fail "the demo's page is small"

echo "== ./run package"
run package >"$work/package" 2>&1 || { tail -n 40 "$work/package"; fail "packages are not made"; }
made=$work/bare$there/build/packages
ls -l "$made"

if [ "${4:-}" = test ]; then
  echo "== ./run test"
  begin=$SECONDS
  run test >"$work/test" 2>&1 || { tail -n 300 "$work/test"; fail "tests failed"; }
  echo "it took $((SECONDS - begin)) s"
  tail -n 20 "$work/test"
fi

echo "== the packages, on a Debian without compilers"
make_root other "$release"
mkdir "$work/other/packages"
cp "$made"/*.deb "$work/other/packages"
quiet inside other apt-get update
quiet inside other sh -c 'apt-get install -y --no-install-recommends man-db /packages/*.deb'
[ ! -e "$work/other/usr/bin/gcc" ] || fail "they install a compiler"
inside other vitrine --version
inside other vitrine doctor >"$work/doctor" || true
grep -q '^modes' "$work/doctor" || { cat "$work/doctor"; fail "vitrine doctor failed"; }
chroot "$work/bare" "$there/build/release/bin/vitrine-demo-service" --seconds 300 >"$work/service" &
service=$!
until [ -s "$work/service" ]; do kill -0 "$service" || fail "the demo's service ends"; sleep 0.1; done
inside other vitrine ps >"$work/ps" || fail "vitrine ps failed"
grep -Eq "^$service +vitrine-demo-se .*shop" "$work/ps" || { cat "$work/ps"; fail "vitrine ps does not show the service"; }
inside other man vitrine-labels 2>&1 | grep -i '^vitrine-labels(1)' >/dev/null || fail "man vitrine-labels shows no page"
echo "ok"
