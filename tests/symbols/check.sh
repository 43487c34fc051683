#!/usr/bin/env bash
# What a library exports is what its list says. A change of the list is a change of the interface: say it in
# CHANGELOG.md, and raise the version when something is gone.
#   check.sh LIBRARY LIST            compares
#   check.sh --update LIBRARY LIST   writes the list
# Left out are weak symbols: functions of headers that the compiler happened to put into the library as well.
set -euo pipefail

# kind name, as "function vitrine::…", sorted.
exported() {
  readelf --wide --dyn-syms "$1" | awk '
    $7 != "UND" && $5 == "GLOBAL" && ($4 == "FUNC" || $4 == "OBJECT" || $4 == "TLS") {
      kind = $4 == "FUNC" ? "function" : $4 == "TLS" ? "thread-local" : "object"
      size = $4 == "FUNC" ? "" : $3 + 0  # whose size is part of the ABI
      sub(/@.*/, "", $8)
      print kind, size, $8
    }' | c++filt | sed 's/  */ /' | LC_ALL=C sort -u
}

if [ "$1" = --update ]; then
  exported "$2" >"$3"
elif ! difference=$(diff -u --label "$2" --label "$1" "$2" <(exported "$1")); then
  echo "$difference"
  echo "If that is meant: $0 --update $1 $2, and say it in CHANGELOG.md"
  exit 1
fi
