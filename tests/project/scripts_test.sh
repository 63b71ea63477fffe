#!/usr/bin/env bash
# scripts_test.sh SOURCE SCRATCH: runs copies of run.sh and test.sh where the package manager, CMake, Ninja and ctest
# are stand-ins that log how they are called. Nothing is installed and nothing compiled.
# shellcheck disable=SC2016  # what the stand-ins do is expanded when they run
set -u
source_dir=$1 scratch="$2/with a space"
rm -rf "$scratch" && mkdir -p "$scratch/flashsim/cmake" "$scratch/bin" "$scratch/elsewhere" || exit 1
cp "$source_dir"/{run.sh,test.sh,CMakePresets.json,CMakeLists.txt} "$scratch/flashsim/"
cp "$source_dir/cmake/setup.sh" "$scratch/flashsim/cmake/"
ln -s "$scratch/flashsim/run.sh" "$scratch/run"  # as a user's ~/bin might hold it
log=$scratch/log
for tool in bash env cat dirname readlink grep mkdir awk nproc find sort rm flock sed chmod; do
  ln -s "$(command -v $tool)" "$scratch/bin/$tool"
done

# stand_in NAME: the command NAME logs its arguments, then does what standard input says.
stand_in() {
  { printf '#!/usr/bin/env bash\necho "%s $*" >>"%s"\n' "$1" "$log" && cat; } >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}

# called NAME: how often the stand-in NAME was run.
called() { grep -c "^$1 " "$log"; }

failures=0
# run COMMAND ARGS: leaves out, err, status and, in calls, what the stand-ins logged.
run() {
  : >"$log"
  out=$(cd "$scratch/elsewhere" && env -i PATH="$scratch/bin" HOME=/ "$@" 2>"$scratch/err")
  status=$? err=$(cat "$scratch/err") calls=$(cat "$log")
}
# check WHAT TEXT PATTERN: TEXT matches the glob PATTERN.
check() {
  # shellcheck disable=SC2053
  if [[ $2 == $3 ]]; then return; fi
  printf 'FAILED: %s\n  expected: %s\n  got: %s\n  messages: %s\n' "$1" "$3" "$2" "$err"
  failures=$((failures + 1))
}

echo "--- no package manager, nothing installed"
run "$scratch/run" --help
check "exit code" "$status" 3
check "message lists what to install" "$err" '*no apt-get*cmake ninja-build g++*librapidcheck-dev*'
check "stdout stays empty" "$out" ''

echo "--- packages missing, neither root nor sudo"
stand_in id <<<'echo 1000'
stand_in apt-get <<<'echo noise'
stand_in dpkg-query <<<'for p in "${@:3}"; do [ $p = doctest-dev ] || echo "installed $p"; done'
run "$scratch/run" --help
check "exit code" "$status" 3
check "message names only the missing package" "$err" '*: doctest-dev. Install*'
check "nothing was tried" "$(called apt-get)" 0

echo "--- packages missing, sudo at hand, first run"
stand_in sudo <<<'"$@"'
stand_in cmake <<<'echo noise; mkdir -p build/release build/dev build/lint && : >build/${3:-release}/build.ninja'
stand_in ninja <<'END'
echo noise
mkdir -p "$2/bin" && printf '#!/usr/bin/env bash\necho "ran in $PWD:"; printf "<%%s>" "$@"; exit 5\n' >"$2/bin/flashsim"
chmod +x "$2/bin/flashsim"
END
run "$scratch/run" step --title 'two words' '*'
check "exit code is flashsim's" "$status" 5
check "arguments and folder are the caller's" "$out" "ran in $scratch/elsewhere:?<step><--title><two words><\\*>"
check "says what it installs" "$err" '*installing with sudo apt-get: doctest-dev*'
check "installs only that" "$calls" '*sudo env *apt-get* install --no-install-recommends doctest-dev*cmake*--preset release*ninja -C * flashsim'

echo "--- nothing changed"
stand_in dpkg-query <<<'for p in "${@:3}"; do echo "installed $p"; done'
stand_in ninja <<<'echo "ninja: no work to do."'
run "$scratch/run" again
check "silent" "$err" ''
check "installs nothing" "$(called apt-get)" 0
check "does not configure" "$(called cmake)" 0
check "asks ninja once" "$(called ninja)" 1
check "runs" "$out" '*<again>'

echo "--- the presets changed"
echo >>"$scratch/flashsim/CMakePresets.json" ' '
run "$scratch/run"
check "configures again" "$calls" '*cmake --fresh --preset release*'

echo "--- the network is gone while a package is missing"
stand_in dpkg-query <<<'echo "installed cmake"'
stand_in apt-get <<<'exit 100'
run "$scratch/run" --help
check "exit code" "$status" 3
check "message" "$err" '*could not install ninja-build g++*'
stand_in dpkg-query <<<'for p in "${@:3}"; do echo "installed $p"; done'

echo "--- the build fails"
stand_in ninja <<<'exit 1'
run "$scratch/run" --help
check "exit code" "$status" 3
check "flashsim does not run" "$out" ''

echo "--- test.sh: a failing preset fails the whole, the others still run"
stand_in ninja <<<'echo "ninja: no work to do."'
stand_in ctest <<<'[ "$2" != dev ]'
run "$scratch/flashsim/test.sh" dev release -- -R numeric
check "exit code" "$status" 1
check "both ran, with the arguments" "$calls" '*ctest --preset dev *-R numeric*ctest --preset release *-R numeric*'
check "says which" "$err" '*failed: dev'
echo "--- test.sh lint: clang-tidy while compiling, no tests"
stand_in dpkg-query <<<'for p in "${@:3}"; do [ $p = clang-tidy ] || echo "installed $p"; done'
stand_in apt-get <<<'echo noise'
run "$scratch/flashsim/test.sh" lint
check "exit code" "$status" 0
check "installs clang-tidy and builds" "$calls" '*install --no-install-recommends clang-tidy*cmake --fresh --preset lint*ninja -C * all'
check "runs no test" "$(called ctest)" 0
stand_in dpkg-query <<<'for p in "${@:3}"; do echo "installed $p"; done'
run "$scratch/flashsim/test.sh" nonsense
check "unknown preset" "$status $err" '3 *no preset is called nonsense*'
run "$scratch/flashsim/test.sh" --nonsense
check "unknown option" "$status $err" '2 *unknown option --nonsense*'

[ "$failures" -eq 0 ] && echo "all as expected"
exit $((failures > 0))
