#!/usr/bin/env bash
# course.sh PREFIX KEYS HIDE...: the whole course with an installed flashsim. The folders HIDE (source and build) are
# out of sight meanwhile where this system lets an unprivileged process do that.
set -euo pipefail
prefix=$1 keys=$2
shift 2

if [ -z "${FLASHSIM_COURSE_FOLDER:-}" ]; then
  FLASHSIM_COURSE_FOLDER=$(mktemp -d)
  export FLASHSIM_COURSE_FOLDER
  trap 'rm -rf "$FLASHSIM_COURSE_FOLDER"' EXIT
  cp -r "$prefix" "$FLASHSIM_COURSE_FOLDER/prefix"
  cp -r "$keys" "$FLASHSIM_COURSE_FOLDER/keys"
  cp "$0" "$FLASHSIM_COURSE_FOLDER/course.sh"
  cd "$FLASHSIM_COURSE_FOLDER"
  again=(bash "$FLASHSIM_COURSE_FOLDER/course.sh" "$FLASHSIM_COURSE_FOLDER/prefix" "$FLASHSIM_COURSE_FOLDER/keys")
  if unshare --mount --map-root-user true 2>/dev/null; then
    # shellcheck disable=SC2016
    unshare --mount --map-root-user bash -c \
      'n=$1; shift; for d in "${@:1:n}"; do mount -t tmpfs none "$d"; done; "${@:n+1}"' - $# "$@" "${again[@]}"
  else
    echo "source and build stay in sight: this system has no unprivileged mounts"
    "${again[@]}"
  fi
  exit
fi

export PATH="$prefix/bin:$PATH"
flashsim() { command flashsim "$@" </dev/null; }
expect() {  # expect CODE COMMAND...
  local code=$1 got=0
  shift
  "$@" >out 2>&1 || got=$?
  if [ $got -ne "$code" ]; then
    echo "exit code $got instead of $code: $*"
    cat out
    exit 1
  fi
}
says() { grep -q -- "$1" out || { echo "does not say '$1':"; cat out; exit 1; }; }

expect 0 flashsim lesson list
for lesson in 1 2 3 4 5 6 7 8 9 10 11 12; do expect 0 flashsim lesson run $lesson; done
expect 0 flashsim lesson export 2 --to . --format csv
expect 0 flashsim compare --kernel all --preset ladder
says "recorded on NVIDIA"
expect 0 flashsim traffic --preset fa1-fig2
expect 0 flashsim exercise bundle class.tar
tar -tf class.tar >/dev/null
expect 0 flashsim exercise start 3 work
expect 1 flashsim exercise check work
says skeleton
expect 0 flashsim exercise hint work
mkdir student
cp keys/*.cpp student
expect 0 flashsim grade student -x 1-10
says "100 of 100"
expect 0 flashsim grade student -x 3 --format gradescope --seed term
# The user's own schedules are linked with the installed libraries too.
cp student/03_tiled_forward.cpp mine.cpp
expect 0 flashsim traffic --schedule mine.cpp --n 256
echo "the course works with an installed flashsim"
