#!/bin/sh
# Prints the flags by which this compiler reaches thread-local variables through TLS descriptors.
compiler=${CXX:-c++}
knows() { echo | $compiler "$1" -x c++ -c -o /dev/null - 2>/dev/null; }

case $(uname -m) in
  x86_64)
    if knows -mtls-dialect=gnu2; then echo -mtls-dialect=gnu2   # gcc; clang since 18
    else echo -DVITRINE_TLSDESC_BY_ASM=1; fi ;;
  *)
    if knows -mtls-dialect=desc; then echo -mtls-dialect=desc; fi ;;  # clang knows no other way
esac
