#!/usr/bin/python3
"""Keeps locks with redis-py's redis.lock.Lock, told what to do by foreign_test.cpp.

usage: lock.py PORT

A line each on standard input and an answer to it:
  try NAME TTL       one attempt, TTL in ms: held, busy
  acquire NAME TTL   waits, the way this client's users do: held
  release NAME       released, lost
The first line of output is "ready", or "missing …" where what this needs is not installed.
"""
import sys

try:
    import redis
    import redis.lock
    from redis.exceptions import LockNotOwnedError
except ImportError:
    print("missing python3-redis")
    sys.exit()


def attempt(name, ttl, wait):
    lock = redis.lock.Lock(server, name, timeout=int(ttl) / 1000)
    if not lock.acquire(blocking=wait):
        return "busy"
    held[name] = lock
    return "held"


def release(name):
    try:
        held.pop(name).release()
        return "released"
    except LockNotOwnedError:
        return "lost"


server = redis.Redis(port=int(sys.argv[1]))
held = {}
verbs = {
    "try": lambda name, ttl: attempt(name, ttl, wait=False),
    "acquire": lambda name, ttl: attempt(name, ttl, wait=True),
    "release": release,
}
print("ready", flush=True)
for line in sys.stdin:
    verb, *arguments = line.split()
    print(verbs[verb](*arguments), flush=True)
