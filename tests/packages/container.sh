#!/usr/bin/env bash
# The container image and the DaemonSet, as far as that goes without a container engine: a root that holds what the
# Dockerfile puts there, read-only, in which the manifest's command line runs as root with the manifest's
# capabilities alone, and sends profiles of a container's process to a collector.
#   container.sh SOURCE-DIR BUILD-DIR DEMO-SERVICE
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "needs root: it mounts"; exit 1; }
[ -n "${VITRINE_MOUNTS:-}" ] || exec env VITRINE_MOUNTS=own unshare --mount --propagation private "$0" "$@"
source=$(realpath "$1") build=$(realpath "$2") service=$(realpath "$3")
files=$source/packaging/container
work=$(mktemp -d)
running=()
group=
finish() {
  [ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true
  wait || true
  if [ -n "$group" ]; then rmdir "$group" || true; umount "$work/cgroup" || true; fi
  umount -Rl "$work/root" 2>/dev/null || true
  rm -rf --one-file-system "$work"
}
trap finish EXIT
fail() { printf '%s\n' "$*"; exit 1; }

echo "== the image"
"$source/packaging/release/make" "$build" "$work/made" >/dev/null
root=$work/root
mkdir "$root"
# As FROM scratch and its COPYs do.
grep -q '^FROM scratch' "$files/Dockerfile" || fail "the image is not made from scratch"
mkdir "$root/vitrine"
tar -xzf "$work"/made/vitrine-*-linux-"$(uname -m)".tar.gz -C "$root/vitrine" --strip-components=1
mkdir -p "$root/etc/ssl/certs"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
entry=$(sed -n 's/^ENTRYPOINT \["\(.*\)"\]/\1/p' "$files/Dockerfile")
[ -x "$root$entry" ] || fail "the entry point $entry is not in the image"
[ "$(sed -n 's/^COPY --from=unpacked \([^ ]*\) .*/\1/p' "$files/Dockerfile" | tr '\n' ' ')" = "/vitrine /etc/ssl/certs/ca-certificates.crt " ] ||
  fail "the Dockerfile copies something else"
du -sh "$root"

echo "== a pod"
# What the kubelet mounts: /proc of the node (hostPID), /sys to read, and the volumes.
mkdir -p "$root"/{proc,sys,dev,tmp,var/lib/vitrine,etc/vitrine}
mount --bind "$root" "$root"
mount --rbind /proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -o remount,bind,ro "$root/sys"
mount -t tmpfs -o size=16m tmpfs "$root/tmp"
mount -t tmpfs -o size=64m tmpfs "$root/var/lib/vitrine"
python3 "$(dirname "$0")/../support/collector.py" "$work" &
running+=($!)
touch "$work/got"
until [ -e "$work/port" ]; do sleep 0.1; done
sed -n '/^  agent.toml: |/,/^---/p' "$files/daemonset.yaml" | sed '1d;$d;s/^    //' |
  sed "s#^url = .*#url = \"otlp+http://127.0.0.1:$(cat "$work/port")\"#; s#^interval = .*#interval = \"1s\"#
    s#^listen = .*#listen = \"127.0.0.1:0\"#" >"$root/etc/vitrine/agent.toml"
grep -q '^container = ' "$root/etc/vitrine/agent.toml" || fail "no configuration in the manifest"
mount -o remount,bind,ro "$root"
# A process in what looks like a container's control group.
mkdir "$work/cgroup"
mount -t cgroup2 none "$work/cgroup"
group=$work/cgroup/cri-containerd-$(printf 'c0ffee%.0s' {1..10})$(printf %04d $$ | tail -c 4).scope
mkdir "$group"
(echo 0 >"$group/cgroup.procs" && exec "$service" --seconds 300) >/dev/null &
running+=($!)

capabilities=$(sed -n 's/^ *add: \[\(.*\)\]/\1/p' "$files/daemonset.yaml" | tr '[:upper:]' '[:lower:]' | sed 's/, */,+/g; s/^/+/')
arguments=$(sed -n 's/^ *args: \[\(.*\)\]/\1/p' "$files/daemonset.yaml" | tr -d '",')
echo "capabilities: $capabilities; arguments: $arguments"
for setting in 'hostPID: true' 'readOnlyRootFilesystem: true' 'allowPrivilegeEscalation: false' 'drop: \[ALL\]'; do
  grep -q "$setting" "$files/daemonset.yaml" || fail "the manifest lacks $setting"
done
# Root in the new root, whose programs get the capabilities that are left. chroot(8) would need one more.
enter='
import ctypes, os, sys
root, wanted, *command = sys.argv[1:]
names = {"+sys_ptrace": 19, "+sys_admin": 21, "+syslog": 34, "+perfmon": 38, "+bpf": 39}
kept = {names[name] for name in wanted.split(",")}
libc = ctypes.CDLL(None)
os.chroot(root)
os.chdir("/")
for number in range(41):  # PR_CAPBSET_DROP
    if number not in kept and libc.prctl(24, number, 0, 0, 0) != 0:
        sys.exit(f"capability {number} stays")
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
os.execve(command[0], command, {"VITRINE_HOST_NAME": "node-1"})
'
# shellcheck disable=SC2086  # words
python3 -c "$enter" "$root" "$capabilities" "$entry" $arguments >"$work/log" 2>&1 &
agent=$!
running+=($agent)
until [ "$(wc -l <"$work/got")" -ge 3 ]; do
  kill -0 $agent 2>/dev/null || { cat "$work/log"; fail "it has ended"; }
  sleep 0.2
done
port=$(sed -n 's#.*http://127.0.0.1:\([0-9]*\)/metrics.*#\1#p' "$work/log" | head -n 1)
[ "$(curl -s "http://127.0.0.1:$port/healthz")" = ok ] || fail "not healthy"
curl -s "http://127.0.0.1:$port/metrics" | grep -E '^vitrine_agent_(samples|lost_samples|sent_requests)_total'
grep CapEff "/proc/$agent/status"
code=0
kill $agent
wait $agent || code=$?
cat "$work/log"
[ $code = 0 ] || fail "it ends with $code"
if grep -E 'give vitrine|setcap|Read-only' "$work/log"; then fail "it lacks a permission"; fi
