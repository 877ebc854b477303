#pragma once

#include <chrono>

#include "redlock/detail/scripts/script.hpp"

// The scripts of the fair lock: the plain lock's key, and a queue of those who wait for it, each under an id of its own.
//   {name}:queue        sorted set: the ids by the order in which they came
//   {name}:queue:alive  sorted set: the ids by when they were heard of last, in ms of the server's TIME
//   {name}:queue:ID     written when it may be the turn of ID, which watches it
// A waiter that is not heard of for as long as ARGV says has left. All keys go when the last waiter does.
namespace redlock::detail::scripts {

// A waiter makes itself heard every second or so, see Acquisition::poll_cap.
inline constexpr std::chrono::milliseconds dead_after{2000};

// Takes a lock, or a place in its queue.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the queue           ARGV[2]  ttl in ms
//   KEYS[3]  who is alive        ARGV[3]  the waiter's id; empty: a try, which neither queues nor overtakes
//   KEYS[4]  optional: the       ARGV[4]  after how many ms of silence a waiter has left
//            fencing counter     ARGV[5]  proposal for it: the client's wall clock in µs
//   returns the fencing token as text, "0" without one: granted; an integer, how many are before: not yet; nil: not, and
//   not queued
// Where the lock is free and somebody else is first, that one is told. Replayable: a place is kept, and refreshed.
inline constexpr Script acquire_fair = {
    .text = R"lua(local time = redis.call('TIME')
local now, me = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[3]
for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now - ARGV[4])) do
  redis.call('ZREM', KEYS[2], dead)
  redis.call('ZREM', KEYS[3], dead)
end
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
if redis.call('EXISTS', KEYS[1]) == 0 then
  if not first or first == me then
    local fence = '0'
    if KEYS[4] then
      local last, proposal = tonumber(redis.call('GET', KEYS[4]) or '0'), tonumber(ARGV[5])
      if not last or last < 0 or last ~= math.floor(last) or last + 1 >= 2^53 then
        return redis.error_reply('ERR the fencing counter ' .. KEYS[4] .. ' is no number below 2^53')
      end
      local next = last + 1
      if proposal > next and proposal < 2^52 then next = proposal end
      fence = string.format('%.0f', next)
      redis.call('SET', KEYS[4], fence)
    end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    redis.call('ZREM', KEYS[2], me)
    redis.call('ZREM', KEYS[3], me)
    redis.call('DEL', KEYS[2] .. ':' .. me)
    return fence
  end
  redis.call('SET', KEYS[2] .. ':' .. first, '1', 'PX', ARGV[4])
end
if me == '' then return false end
if not redis.call('ZSCORE', KEYS[2], me) then
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[2], (last or 0) + 1, me)
end
redis.call('ZADD', KEYS[3], now, me)
redis.call('PEXPIRE', KEYS[2], ARGV[4] * 2)
redis.call('PEXPIRE', KEYS[3], ARGV[4] * 2)
return redis.call('ZRANK', KEYS[2], me))lua",
    .sha1 = "4edb75d070fcefee406b336d6e0b18c1544da294",
};

// Gives a lock back, or a place in its queue, and tells the next in line.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the queue           ARGV[2]  the waiter's id, or empty
//   KEYS[3]  who is alive        ARGV[3]  for how many ms the news stays
//                                ARGV[4]  optional: for how many ms more the name stays taken
//   returns 1: it was ours and is released; 0: it is free or somebody else's, and untouched
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr Script release_fair = {
    .text = R"lua(local ours = redis.call('GET', KEYS[1]) == ARGV[1]
redis.call('ZREM', KEYS[2], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
redis.call('DEL', KEYS[2] .. ':' .. ARGV[2])
if ours and ARGV[4] then
  redis.call('SET', KEYS[1], 'released:' .. ARGV[1], 'PX', ARGV[4])
elseif ours then
  redis.call('DEL', KEYS[1])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if first then redis.call('SET', KEYS[2] .. ':' .. first, '1', 'PX', ARGV[3]) end
end
return ours and 1 or 0)lua",
    .sha1 = "4f957d3d14954e95929212d40397e517d790830b",
};

}  // namespace redlock::detail::scripts
