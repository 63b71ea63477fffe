# shellcheck shell=bash
# Shared by run.sh and test.sh, which source it: install what is missing, configure, build.
# Everything said here goes to stderr, so that stdout carries only what flashsim itself prints.

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

# The packages of Debian 12 and Ubuntu 24.04 that building and testing need.
packages=(
  cmake ninja-build g++
  libcli11-dev libeigen3-dev libfmt-dev nlohmann-json3-dev
  doctest-dev librapidcheck-dev
)

say() { printf 'flashsim: %s\n' "$*" >&2; }

die() {
  say "$@"
  exit 3
}

# Prints those of the packages that are not installed, one a line.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null)
  for package in "${packages[@]}"; do
    grep -qx "installed $package" <<<"$installed" || echo "$package"
  done
}

install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    if command -v cmake >/dev/null && command -v ninja >/dev/null; then return; fi
    die "CMake 3.25 and Ninja are needed, and this system has no apt-get to install them with." \
      "Install the equivalents of these Debian packages, then run this again: ${packages[*]}"
  fi
  local missing how=apt-get as_root=()
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "these packages are missing and neither root's rights nor sudo are at hand:" \
        "${missing[*]}. Install them (apt-get install), then run this again."
    how='sudo apt-get'
    as_root=(sudo)
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  say "installing with $how: ${missing[*]}"
  local apt=("${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update >&2 </dev/null || say "some package lists could not be updated; going on with those at hand"
  "${apt[@]}" install --no-install-recommends "${missing[@]}" >&2 </dev/null ||
    die "apt-get could not install ${missing[*]}: see its message above. The network is needed once, for this."
}

# How many compilers to run at once: the processors, and no more than one for each 2 GB of memory that is free
# (nvcc and Eigen-heavy files need that much). FLASHSIM_JOBS overrides.
job_count() {
  local processors megabytes limit used n
  if [ -n "${FLASHSIM_JOBS:-}" ]; then
    echo "$FLASHSIM_JOBS"
    return
  fi
  processors=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)
  megabytes=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null)
  if limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null) && [ "$limit" != max ]; then
    used=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
    limit=$(((limit - used) / 1048576))
    [ "$limit" -ge "${megabytes:-0}" ] || megabytes=$limit
  fi
  n=$((${megabytes:-4096} / 2048))
  [ "$n" -le "$processors" ] || n=$processors
  [ "$n" -ge 1 ] || n=1
  echo "$n"
}

# configure PRESET: runs CMake where something that Ninja does not watch has changed. FLASHSIM_CUDA=OFF (or ON, AUTO)
# in the environment overrides the preset. Without an NVIDIA driver the release leaves the CUDA kernels out, which would
# take minutes to compile and could not run; the preset ci compiles them wherever nvcc is.
configure() {
  local preset=$1 build=$root/build/$1 wanted options=() cuda=${FLASHSIM_CUDA:-}
  if [ -z "$cuda" ] && [ "$preset" = release ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then cuda=OFF; fi
  grep -q "\"name\": \"$preset\"" "$root/CMakePresets.json" || die "no preset is called $preset: see CMakePresets.json"
  [ -z "$cuda" ] || options+=("-DFLASHSIM_CUDA=$cuda")
  wanted=$(
    printf '%s\n' "$root" "${CC:-}" "${CXX:-}" "${CXXFLAGS:-}" "${CUDACXX:-}" "$cuda" "$(command -v cmake nvcc c++ ccache)"
    cat "$root/CMakePresets.json" "$root/CMakeUserPresets.json" 2>/dev/null
    find "$root" -path "$root/build" -prune -o -name CMakeLists.txt -print | sort  # new folders
  )
  if [ -f "$build/build.ninja" ] && [ "$wanted" = "$(cat "$build/configured_for" 2>/dev/null)" ]; then return; fi
  say "configuring build/$preset"
  rm -f "$build/configured_for"
  (cd "$root" && cmake --fresh --preset "$preset" "${options[@]}") >&2 </dev/null ||
    die "configuring failed: see CMake's message above. Needed are CMake 3.25 and these packages or their" \
      "equivalents: ${packages[*]}"
  printf '%s\n' "$wanted" >"$build/configured_for"
}

# build PRESET TARGET: brings TARGET up to date; silent where it already is.
build() {
  local n
  configure "$1"
  n=$(job_count)
  ninja -C "$root/build/$1" -j "$n" "$2" 2>&1 </dev/null | show_build "$2" "$1" "$n" >&2
  if [ "${PIPESTATUS[0]}" -ne 0 ]; then
    say "the build failed: see the compiler's message above"
    return 3
  fi
}

# show_build TARGET PRESET JOBS: passes Ninja's progress on, if there is any.
show_build() {
  local line begun=
  while IFS= read -r line; do
    case $line in
      'ninja: Entering'* | *'Re-checking globbed'* | 'ninja: no work to do.') continue ;;
    esac
    [ -n "$begun" ] || say "building $1 in build/$2, $3 at a time (the first time takes minutes)"
    begun=yes
    printf '%s\n' "$line"
  done
}

# prepare PRESET TARGET: all of the above. Two runs at once take turns.
prepare() {
  [ "$1" != lint ] || packages+=(clang-tidy)
  install_packages
  mkdir -p "$root/build" || die "cannot write to $root/build"
  exec {lock}>"$root/build/.lock"
  if command -v flock >/dev/null; then flock "$lock"; fi
  build "$1" "$2"
  local status=$?
  exec {lock}>&-
  return $status
}
