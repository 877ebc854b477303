# Sourced by examples/run and bench/run: a redis-server of one's own, without persistence, on a free port and a Unix socket.
#
#   start_redis FOLDER   sets redis_port, redis_socket and redis_process
#   stop_redis           kills it; without one, does nothing

redis_process=''

redis_answers() ( # PORT PROCESS: is the server at this port that process?
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit
  printf 'INFO server\r\nQUIT\r\n' >&3
  while IFS= read -r -t 5 line <&3; do
    [ "$line" != "process_id:$2"$'\r' ] || exit 0
  done
  exit 1
)

start_redis() { # A port that somebody else has taken ends the new server at once; then try another.
  redis_socket=$1/redis.sock
  for _ in {1..20}; do
    redis_port=$((20000 + RANDOM % 12000))
    redis-server --bind 127.0.0.1 --port "$redis_port" --unixsocket redis.sock --dir "$1" --save '' --appendonly no \
      --logfile "$1/log" >/dev/null 2>&1 &
    redis_process=$!
    for _ in {1..100}; do
      kill -0 "$redis_process" 2>/dev/null || break
      if redis_answers "$redis_port" "$redis_process" 2>/dev/null; then return; fi
      sleep 0.1
    done
    stop_redis
  done
  cat "$1/log" >&2
  echo "redis-server does not start" >&2
  return 1
}

stop_redis() {
  [ -z "$redis_process" ] || { kill -KILL "$redis_process" && wait "$redis_process"; } 2>/dev/null || true
  redis_process=''
}
