#!/usr/bin/env bash
# CheckPublishedSymbols.cmake accepts a library as readers want it, and refuses one for each rule.
#   check_published_symbols.sh CMAKE CHECK.cmake CC READELF [CC-FLAG…]
set -euo pipefail
cmake=$1 check=$2 cc=$3 readelf=$4
shift 4
model=("$@")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
good=(-Wl,-soname,libcustomlabels.so -Wl,-z,nodelete)

# build FLAG…: a library; prints what the check says of it, and has its exit status.
build() {
  "$cc" -O2 -fPIC -shared "$@" "$here/published_symbols.c" -o "$work/lib.so"
  "$cmake" "-DFILE=$work/lib.so" "-DREADELF=$readelf" -DVERSION=1 -DSONAME=libcustomlabels.so \
    -DSLOTS=custom_labels_current_set:8,otel_thread_ctx_v1:8 -P "$check" 2>&1
}

refuses() {  # refuses WHY FLAG…
  local why=$1 said
  shift
  if said=$(build "$@"); then
    echo "accepted, although: $why"; exit 1
  elif [[ $(tr -s ' \n' ' ' <<<"$said") != *"$why"* ]]; then
    echo "refused, but not because: $why"; echo "$said"; exit 1
  fi
}

if ! said=$(build "${model[@]}" "${good[@]}"); then
  echo "a good library is refused:"; echo "$said"; exit 1
fi
ok=("${model[@]}" "${good[@]}")
refuses "custom_labels_abi_version holds the bytes 02000000" "${ok[@]}" -DVERSION=2
refuses "custom_labels_abi_version is in .data (PROGBITS WA), not in constant" "${ok[@]}" -DMUTABLE_VERSION
refuses "custom_labels_abi_version is OBJECT GLOBAL DEFAULT, 8 bytes" "${ok[@]}" -DVERSION_TYPE=uint64_t
refuses "custom_labels_current_set is TLS GLOBAL DEFAULT, 4 bytes" "${ok[@]}" -DSLOT_TYPE=uint32_t
refuses "custom_labels_current_set is TLS WEAK DEFAULT" "${ok[@]}" '-DSLOT_ATTRIBUTE=__attribute__((weak))'
refuses "custom_labels_current_set is not exported" "${ok[@]}" '-DSLOT_ATTRIBUTE=__attribute__((visibility("hidden")))'
refuses "custom_labels_current_set has no TLS descriptor" "${ok[@]}" -ftls-model=initial-exec
if [ "$cc" = gcc ]; then
  refuses "with its symbol, by which readers find it" "${ok[@]}" -fuse-ld=lld -Wl,-Bsymbolic
fi
refuses "the soname is not libcustomlabels.so" "${model[@]}" -Wl,-soname,libcustomlabels.so.1 -Wl,-z,nodelete
refuses "dlclose would unload it" "${model[@]}" -Wl,-soname,libcustomlabels.so
refuses "the stack is executable" "${ok[@]}" -Wl,-z,execstack
echo "all rules hold"
