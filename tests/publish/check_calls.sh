#!/bin/sh -e
# check_calls.sh libvitrine_publish.a fault_test: everything that the library calls and that can fail
# is one of the functions that fault_test makes fail. Nothing of the C++ library that throws is called.
harmless='__cxa_atexit|__dso_handle|__errno_location|__gxx_personality_v0|_GLOBAL_OFFSET_TABLE_
_Unwind_Resume|_ZdlPvm?|__stack_chk_fail|__tls_get_addr
free|bcmp|mem(chr|cmp|cpy|move|set)|strlen|strerror_r|getpid|secure_getenv|sysconf
pthread_mutex_(lock|unlock)|pthread_key_delete'
pattern="^($(printf %s "$harmless" | tr '\n' '|'))\$"
names() { nm "$@" 2>/dev/null | awk 'NF >= 2 { print $NF }' | sort -u; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
names --undefined-only "$1" | grep -Ev "$pattern" > "$work/called"
{ names --defined-only "$1"; names --defined-only "$2"; } | sort -u > "$work/known"
if comm -23 "$work/called" "$work/known" | grep .; then
  echo "$1 calls these, and fault_test does not make them fail" >&2
  exit 1
fi
