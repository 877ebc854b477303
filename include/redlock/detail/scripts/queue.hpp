#pragma once

#include <chrono>
#include <string>
#include <string_view>

// The queue of those who wait for a lock, each under an id of its own: what scripts that keep one begin with.
//   {name}:queue        sorted set: the ids by the order in which they came
//   {name}:queue:alive  sorted set: the ids by when they were heard of last, in ms of the server's TIME
//   {name}:queue:ID     written when ID, which watches it, comes to be the first, and when it is its turn
// A waiter that is not heard of for as long as ARGV[3] says has left. All keys go when the last waiter does.
namespace redlock::detail::scripts {

// A waiter makes itself heard every second or so, see Acquisition::poll_cap.
inline constexpr std::chrono::milliseconds dead_after{2000};

// The key that a waiter watches.
inline std::string own_key(std::string_view queue, std::string_view id) {
  return std::string(queue).append(":").append(id);
}

// Who is silent leaves when it comes to be the first. (A silence that lies ahead: the server's clock was set back.)
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the queue           ARGV[2]  the waiter's id, or empty
//   KEYS[3]  who is alive        ARGV[3]  after how many ms of silence a waiter has left
inline constexpr char queueing[] = R"lua(local time = redis.call('TIME')
local now, me = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[2]
local function tell(id) redis.call('SET', KEYS[2] .. ':' .. id, '1', 'PX', ARGV[3]) end
local function leave(id)
  redis.call('ZREM', KEYS[3], id)
  if redis.call('ZREM', KEYS[2], id) == 0 then return end
  tell(id)
  redis.call('DEL', KEYS[2] .. ':' .. id)
end
local function first_in_line()
  local dropped = false
  while true do
    local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
    if not first then return nil, false end
    local silence = math.abs(now - (redis.call('ZSCORE', KEYS[3], first) or 0))
    if silence < tonumber(ARGV[3]) then return first, dropped end
    leave(first)
    dropped = true
  end
end
local function wait_in_line()
  redis.call('DEL', KEYS[2] .. ':' .. me)
  if not redis.call('ZSCORE', KEYS[2], me) then
    local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
    redis.call('ZADD', KEYS[2], (last or 0) + 1, me)
  end
  redis.call('ZADD', KEYS[3], now, me)
  redis.call('PEXPIRE', KEYS[2], ARGV[3] * 2)
  redis.call('PEXPIRE', KEYS[3], ARGV[3] * 2)
  return redis.call('ZRANK', KEYS[2], me)
end
local function silent_at(id) return redis.call('ZSCORE', KEYS[3], id) + ARGV[3] end
)lua";

}  // namespace redlock::detail::scripts
