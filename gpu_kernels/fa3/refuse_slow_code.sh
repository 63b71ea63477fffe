#!/bin/sh
# Runs a compiler command; fails where ptxas says that it serialised wgmma or ignored setmaxnreg (messages C75xx,
# which are mere information to it).
said=$("$@" 2>&1)
status=$?
[ -z "$said" ] || printf '%s\n' "$said" >&2
case $said in
*"(C75"*) echo "refused: the kernel would be slow, see the C75xx message above" >&2; exit 1 ;;
esac
exit $status
