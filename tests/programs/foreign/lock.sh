#!/bin/sh
# Keeps locks with redis-cli alone, told what to do by foreign_test.cpp.
#
# usage: lock.sh PORT
#
# A line each on standard input and an answer to it:
#   try NAME TTL       one attempt, TTL in ms: held, busy
#   acquire NAME TTL   waits, the way this client's users do: held
#   release NAME       released, lost
# The first line of output is "ready", or "missing …" where what this needs is not installed.
set -eu
command -v redis-cli >/dev/null || { echo "missing redis-cli"; exit; }

ask() { redis-cli -p "$port" "$@" </dev/null; }

attempt() { # NAME TTL
  reply=$(ask SET "$1" "token of redis-cli" NX PX "$2")
  case $reply in
    OK) echo held ;;
    '') return 1 ;;
    *) echo "$reply" ;;
  esac
}

port=$1
echo ready
while read -r verb name ttl; do
  case $verb in
    try) attempt "$name" "$ttl" || echo busy ;;
    acquire) until attempt "$name" "$ttl"; do sleep 0.05; done ;;
    release) case $(ask DEL "$name") in 1) echo released ;; *) echo lost ;; esac ;;
    *) echo "unknown: $verb" ;;
  esac
done
