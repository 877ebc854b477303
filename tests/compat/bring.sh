# Sourced by tests/compat/run. `bring PACKAGE-SUITE` puts hiredis or a server of another suite of Debian into
# $cache/PACKAGE-SUITE, once: hiredis into include/ and lib/ there, a server into bin/ by the names of Redis's programs.
# Nothing of the system is changed, its sources of packages included.

fail() { echo "compat: $*" >&2; exit 1; }

quietly() { "$@" >"$cache/log" 2>&1 || { cat "$cache/log" >&2; fail "failed: $*"; }; }

newer_apt() { # ARGUMENT...
  apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$cache/apt/sources" \
    -o Dir::State::Lists="$cache/apt/lists" -o Dir::Cache="$cache/apt" -o Acquire::Languages=none \
    -o APT::Sandbox::User="$(id -un)" "$@"
}

mirrors() { # FILTER...: where the system gets its packages from
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' "Release: $VERSION_CODENAME" "$@"
}

newer_suites() {
  [ -z "${suites_known:-}" ] || return 0
  local ID VERSION_CODENAME mirror list=$cache/apt/sources/newer.sources
  eval "$(grep -E '^(ID|VERSION_CODENAME)=' /etc/os-release)"
  [ "$ID" = debian ] || fail 'this takes packages from other suites of Debian, and the system is another'
  mirror=$(mirrors 'Origin: Debian')
  mirror=${mirror:-$(mirrors)} # an origin is known after an apt-get update only
  mirror=${mirror%%$'\n'*}
  [ -n "$mirror" ] || fail 'apt names no mirror of Debian'
  mkdir -p "$cache"/apt/{sources,lists/partial,archives/partial}
  local signed='Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg'
  printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\n%s\n\n' \
    deb "$mirror" bookworm-backports "$signed" deb-src "$mirror" 'trixie sid' "$signed" >"$list"
  quietly newer_apt update
  suites_known=1
}

unpack_source() { # The upstream's own, without Debian's patches, which are for the libraries of that suite.
  quietly newer_apt source --download-only --tar-only "${1/-//}"
  mkdir source
  tar -xf ./*.orig.tar.* -C source --strip-components=1
}

name_programs() { # SERVER CLI
  mkdir -p bin
  ln -s "$1" bin/redis-server
  ln -s "$1" bin/redis-sentinel
  ln -s "$2" bin/redis-cli
  quietly bin/redis-server --version
}

bring_hiredis() { # FOLDER
  unpack_source "$1"
  quietly make -C source -j "$(nproc)" USE_SSL=1
  quietly make -C source install USE_SSL=1 PREFIX="$PWD" LIBRARY_PATH=lib
  rm -r source
}

bring_server() { # FOLDER
  local name=${1%%-*}
  unpack_source "$1"
  quietly make -C source -j "$(nproc)" MALLOC=libc BUILD_TLS=yes
  cp "source/src/$name-server" "source/src/$name-cli" .
  rm -r source
  name_programs "../$name-server" "../$name-cli"
}

bring_binaries() { # FOLDER: of Valkey, from the suite that Debian builds for this system
  local suite=${1#*-} package
  quietly newer_apt download "valkey-server/$suite" "valkey-tools/$suite"
  for package in *.deb; do dpkg -x "$package" .; done
  name_programs ../usr/bin/valkey-server ../usr/bin/valkey-cli
}

bring() { # FOLDER
  local how=bring_server
  case $1 in
    system) return ;;
    hiredis-*) how=bring_hiredis ;;
    valkey-bookworm-backports) how=bring_binaries ;;
  esac
  [ ! -e "$cache/$1/complete" ] || return 0
  local begin=$SECONDS
  newer_suites
  rm -rf "${cache:?}/$1"
  mkdir -p "$cache/$1"
  cd "$cache/$1"
  "$how" "$1"
  touch complete
  cd "$OLDPWD"
  echo "compat: brought $1 in $((SECONDS - begin)) s"
}

# Another implementation of the protocol, in JavaScript. Without it the tests with it are skipped.
bring_npm() {
  export REDLOCK_TEST_NPM=$cache/npm
  [ ! -e "$cache/npm/complete" ] || return 0
  mkdir -p "$cache/npm"
  # Where the registry is out of reach, npm itself tries for many minutes.
  if timeout 120 npm install --no-audit --no-fund --prefix "$cache/npm" redlock@5.0.0-beta.2 ioredis@5 \
    >"$cache/log" 2>&1; then
    touch "$cache/npm/complete"
  else
    cat "$cache/log"
    echo 'compat: npm brings no packages, the tests with them are skipped'
  fi
}
