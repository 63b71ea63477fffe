#!/bin/sh
# libraries_test.sh PROGRAM: what PROGRAM is linked with is mapped at every start, so CUDA's large libraries must be
# opened when they are used. Fails where it is linked with one, or where its libraries cannot be listed.
set -eu
needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
printf '%s\n' "$needed"
case $needed in
  *libc.so*) ;;
  *) echo "readelf lists no C library: this test does not see what $1 is linked with"; exit 1 ;;
esac
case $needed in
  *libcu* | *libnv*) echo "$1 is linked with a library of CUDA (above): open it with dlopen when it is used"; exit 1 ;;
esac
