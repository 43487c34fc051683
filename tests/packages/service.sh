#!/usr/bin/env bash
# vitrine-profile.service and vitrine-agent.service: systemd finds nothing wrong with them, and their command lines, run
# as a user without rights but those that the unit gives, send profiles of this machine to a collector.
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
python3 "$(dirname "$0")/../support/collector.py" "$work" &
running+=($!)
until [ -e "$work/port" ]; do sleep 0.1; done

mkdir "$work/state"
chown nobody "$work/state"
export STATE_DIRECTORY=$work/state

# taken_unit NAME: its file, with our program, as $unit; systemd has nothing to say about it.
taken_unit() {
  unit=$work/$1
  sed "s#/usr/bin/vitrine#$work/vitrine#; s#^\(EnvironmentFile=-*\).*#\1$files/vitrine-profile.default#
    s#/etc/vitrine/agent.toml#$work/agent.toml#" "$files/$1" >"$unit"
  systemd-analyze verify --man=no "$unit" 2>&1 | tee "$work/said"
  if grep -q "${1%.service}" "$work/said"; then exit 1; fi
  systemd-analyze security --offline=true --threshold=40 --no-pager "$unit" | tail -1
}
of() { sed -n "s/^$1=//p" "$unit"; }

# started COMMAND: in the background, with the unit's capabilities alone, as $agent.
started() {
  local capabilities
  capabilities=$(of AmbientCapabilities | sed 's/CAP_/+/g; s/ /,/g' | tr '[:upper:]' '[:lower:]')
  echo "$1"
  : >"$work/got"
  # shellcheck disable=SC2086  # words
  setpriv --reuid nobody --regid nogroup --clear-groups --no-new-privs --bounding-set "-all,$capabilities" \
    --inh-caps "-all,$capabilities" --ambient-caps "-all,$capabilities" -- $1 >"$work/log" 2>&1 &
  agent=$!
  running+=($agent)
}
# sends COUNT: so many more requests come.
sends() {
  local wanted=$(($(wc -l <"$work/got") + $1))
  until [ "$(wc -l <"$work/got")" -ge $wanted ]; do
    kill -0 $agent 2>/dev/null || { echo "it ended:"; cat "$work/log"; exit 1; }
    sleep 0.2
  done
}
# keeps_admin_out_of_effect: CAP_SYS_ADMIN (bit 21), which the unit gives for the start, is not in effect in the thread
# that goes on; profile has dropped it altogether.
keeps_admin_out_of_effect() {
  local set
  for set in "$@"; do
    [ $((0x$(sed -n "s/^$set:\t//p" "/proc/$agent/status") >> 21 & 1)) = 0 ] ||
      { echo "CAP_SYS_ADMIN is in $set"; exit 1; }
  done
}
stopped() {
  local code=0
  kill $agent
  wait $agent || code=$?
  cat "$work/log" "$work/got"
  [ $code = 0 ] || { echo "stopped, it exits with $code"; exit 1; }
  if grep -v '^/v1development/profiles ' "$work/got"; then exit 1; fi
  # Some process may be out of reach for other reasons; it must not be for want of a capability.
  if grep -E 'give vitrine|setcap' "$work/log"; then exit 1; fi
}

taken_unit vitrine-profile.service
# shellcheck disable=SC1091
. "$files/vitrine-profile.default"
export VITRINE_EXPORT=otlp+http://127.0.0.1:$(cat "$work/port") VITRINE_INTERVAL=1s
started "$(eval "echo \"$(of ExecStart)\"")"
sends 3
keeps_admin_out_of_effect CapEff CapPrm
stopped

# The agent: also after a reload, for which it needs what it has given up since its start.
sed "s#^url = .*#url = \"$VITRINE_EXPORT\"#; s#^interval = .*#interval = \"1s\"#; s#^spool = .*#spool = \"$work/state/spool\"#
  s/^#listen = .*/listen = \"127.0.0.1:0\"/" "$files/agent.toml" >"$work/agent.toml"
chmod 644 "$work/agent.toml"
taken_unit vitrine-agent.service
started "$(of ExecStart)"
sends 2
keeps_admin_out_of_effect CapEff
sed -i 's#^frequency = .*#frequency = 97#' "$work/agent.toml"
kill -HUP $agent
until grep -q 'the configuration is reloaded$' "$work/log"; do
  kill -0 $agent 2>/dev/null || { echo "it ended:"; cat "$work/log"; exit 1; }
  sleep 0.2
done
sends 2
keeps_admin_out_of_effect CapEff
stopped
