#!/usr/bin/env bash
# vitrine-profile.service: systemd finds nothing wrong with it, and its command line, run as a user without
# rights but those that the unit gives, sends profiles of this machine to a collector.
#   service.sh SOURCE-DIR VITRINE
set -euo pipefail
files=$(realpath "$1")/packaging/debian/command
vitrine=$(realpath "$2")
[ "$(id -u)" = 0 ] || { echo "needs root: it gives capabilities to another user"; exit 1; }
work=$(mktemp -d)
running=()
trap '[ ${#running[@]} = 0 ] || kill "${running[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
chmod 755 "$work"
install -m 755 "$vitrine" "$work/vitrine"
unit=$work/vitrine-profile.service
sed "s#/usr/bin/vitrine#$work/vitrine#; s#^\(EnvironmentFile=\).*#\1$files/vitrine-profile.default#" \
  "$files/vitrine-profile.service" >"$unit"

systemd-analyze verify --man=no "$unit" 2>&1 | tee "$work/said"
if grep -q 'vitrine-profile' "$work/said"; then exit 1; fi
systemd-analyze security --offline=true --threshold=40 --no-pager "$unit" | tail -1

python3 "$(dirname "$0")/../support/collector.py" "$work" &
running+=($!)
until [ -e "$work/port" ]; do sleep 0.1; done

of() { sed -n "s/^$1=//p" "$unit"; }
capabilities=$(of AmbientCapabilities | sed 's/CAP_/+/g; s/ /,/g' | tr '[:upper:]' '[:lower:]')
mkdir "$work/state"
chown nobody "$work/state"
# shellcheck disable=SC1091
. "$files/vitrine-profile.default"
export VITRINE_EXPORT=otlp+http://127.0.0.1:$(cat "$work/port") VITRINE_INTERVAL=1s STATE_DIRECTORY=$work/state
command=$(eval "echo \"$(of ExecStart)\"")
echo "$command"
# shellcheck disable=SC2086  # words
setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs --bounding-set "-all,$capabilities" \
  --inh-caps "-all,$capabilities" --ambient-caps "-all,$capabilities" -- $command >"$work/log" 2>&1 &
agent=$!
running+=($agent)
touch "$work/got"
until [ "$(wc -l <"$work/got")" -ge 3 ]; do
  kill -0 $agent 2>/dev/null || { echo "it ended:"; cat "$work/log"; exit 1; }
  sleep 0.2
done
kill $agent
code=0
wait $agent || code=$?
cat "$work/log" "$work/got"
[ $code = 0 ] || { echo "stopped, it exits with $code"; exit 1; }
if grep -v '^/v1development/profiles ' "$work/got"; then exit 1; fi
# Some process may be out of reach for other reasons; it must not be for want of a capability.
if grep -E 'give vitrine|setcap' "$work/log"; then exit 1; fi
