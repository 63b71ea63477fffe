#!/usr/bin/env bash
# ./run.sh ARGS: installs what is missing, builds flashsim and runs it with ARGS. See README.md.
set -u
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/cmake/setup.sh"

prepare release flashsim || exit
exec "$root/build/release/bin/flashsim" "$@"
