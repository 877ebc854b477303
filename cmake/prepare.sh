# Sourced by tests/run, tests/compat/run, examples/run, bench/run and .ci/run. `need PACKAGE...` (Debian's names)
# installs what is missing. No system service is started or stopped.

# How ctest runs: with more tests side by side than processors, since most of them wait for the most part; what fails is
# run once more, and both outcomes are printed: on a busy machine a server may get no processor for longer than a test
# that is about time has room for.
ctest_options=(--parallel $((2 * $(nproc))) --repeat until-pass:2)

redlock_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

redlock_has_header() { printf '#include <%s>\n' "$1" | g++ -std=c++20 -E -x c++ - >/dev/null 2>&1; }

# Debian's package redis-server brings a service; redis-tools has the same program under another name, and no service.
redlock_has_redis_server() {
  command -v redis-server >/dev/null && return
  local program tools=$redlock_root/build/tools
  program=$(command -v redis-check-rdb) || return
  mkdir -p "$tools"
  ln -sf "$program" "$tools/redis-server"
  "$tools/redis-server" --version 2>/dev/null | grep -q '^Redis server' || { rm "$tools/redis-server"; return 1; }
  export PATH=$tools:$PATH
}

redlock_has_fuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null
}

redlock_has() {
  case $1 in
    g++ | clang-tidy | clang-format | cmake | make | pkg-config) command -v "$1" >/dev/null ;;
    git | npm | openssl | python3 | spin) command -v "$1" >/dev/null ;;
    clang) command -v clang++ >/dev/null ;;
    chromium) command -v chromium >/dev/null || command -v chromium-headless-shell >/dev/null ;;
    ninja-build) command -v ninja >/dev/null ;;
    nodejs) command -v node >/dev/null ;;
    redis-server) redlock_has_redis_server ;;
    libhiredis-dev) redlock_has_header hiredis/hiredis.h || pkg-config --exists hiredis 2>/dev/null ;;
    libssl-dev) redlock_has_header openssl/ssl.h ;;
    libclang-rt-*-dev) redlock_has_fuzzer ;;
    libgtest-dev) redlock_has_header gtest/gtest.h ;;
    libgmock-dev) redlock_has_header gmock/gmock.h ;;
    libfaketime) compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null ;;
    python3-redis) /usr/bin/python3 -c "import redis.lock" 2>/dev/null ;;
    python3-prometheus-client) /usr/bin/python3 -c 'import prometheus_client.parser' 2>/dev/null ;;
    libsqlite3-dev) redlock_has_header sqlite3.h ;;
    libcli11-dev) redlock_has_header CLI/CLI.hpp ;;
    libspdlog-dev) redlock_has_header spdlog/spdlog.h ;;
    libbenchmark-dev) redlock_has_header benchmark/benchmark.h ;;
    *) echo "prepare: unknown package $1" >&2; exit 1 ;;
  esac
}

need() {
  local package missing=() root=()
  for package; do
    redlock_has "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "Needed, by Debian's names, and no apt-get here: ${missing[*]}" >&2
    exit 1
  fi
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "Needed, and neither root nor sudo here: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    root=(sudo)
  fi
  missing=("${missing[@]/#redis-server/redis-tools}")
  echo "Installing: ${missing[*]}"
  "${root[@]}" apt-get update -q
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
  for package; do
    redlock_has "$package" || { echo "Still missing after the installation: $package" >&2; exit 1; }
  done
}
