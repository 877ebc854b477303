#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "redlock/detail/scripts/script.hpp"

// The scripts of the fair lock: the plain lock's key, and a queue of those who wait for it, each under an id of its own.
//   {name}:queue        sorted set: the ids by the order in which they came
//   {name}:queue:alive  sorted set: the ids by when they were heard of last, in ms of the server's TIME
//   {name}:queue:ID     written when ID, which watches it, comes to be the first, and when it is its turn
// A waiter that is not heard of for as long as ARGV[3] says has left. All keys go when the last waiter does.
//
// A lock that is given back while others wait is not free: its key holds a reservation, "next:" and the key of the next
// in line, for as long as that one may be silent. So no other lock on the same name comes first, unless the reservation
// or a lease has expired.
namespace redlock::detail::scripts {

// A waiter makes itself heard every second or so, see Acquisition::poll_cap.
inline constexpr std::chrono::milliseconds dead_after{2000};

// The key that a waiter watches, and what the lock's key holds while it is reserved for that one.
inline std::string own_key(std::string_view queue, std::string_view id) {
  return std::string(queue).append(":").append(id);
}
inline std::string reservation(std::string_view queue, std::string_view id) { return "next:" + own_key(queue, id); }

// What both scripts begin with: the same keys and arguments. Who is silent leaves when it comes to be the first. (A
// silence that lies ahead: the server's clock was set back.)
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the queue           ARGV[2]  the waiter's id, or empty
//   KEYS[3]  who is alive        ARGV[3]  after how many ms of silence a waiter has left
inline constexpr char fair_queue[] = R"lua(local time = redis.call('TIME')
local now, me, next = time[1] * 1000 + math.floor(time[2] / 1000), ARGV[2], 'next:' .. KEYS[2] .. ':'
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
local function reserve(first)
  redis.call('SET', KEYS[1], next .. first, 'PX', ARGV[3])
  tell(first)
end
local holder = redis.call('GET', KEYS[1])
local reserved = holder and string.sub(holder, 1, #next) == next
)lua";

// Takes a lock, or a place in its queue.
//   KEYS[4]  optional: the       ARGV[4]  ttl in ms
//            fencing counter     ARGV[5]  proposal for it: the client's wall clock in µs
//   returns the fencing token as text, "0" without one: granted; nil: not, and a try without an id does not queue; or
//   [how many are before, in how many ms it is worth to look again without being told]; -1: it is not
// Where it is free and somebody else is first, it is reserved for that one. Replayable: a place is kept, and refreshed.
inline constexpr auto acquire_fair_text = joined(fair_queue, R"lua(local first, dropped = first_in_line()
if not holder or reserved then
  if not first or first == me then
    local fence = '0'
    if KEYS[4] then
      local last, proposal = tonumber(redis.call('GET', KEYS[4]) or '0'), tonumber(ARGV[5])
      if not last or last < 0 or last ~= math.floor(last) or last + 1 >= 2^53 then
        return redis.error_reply('ERR the fencing counter ' .. KEYS[4] .. ' is no number below 2^53')
      end
      local claim = last + 1
      if proposal > claim and proposal < 2^52 then claim = proposal end
      fence = string.format('%.0f', claim)
      redis.call('SET', KEYS[4], fence)
    end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[4])
    leave(me)
    first = first_in_line()
    if first then tell(first) end
    return fence
  end
  if holder ~= next .. first then reserve(first) end
elseif dropped and first ~= me then
  tell(first)
end
if me == '' then return false end
redis.call('DEL', KEYS[2] .. ':' .. me)
if not redis.call('ZSCORE', KEYS[2], me) then
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2]
  redis.call('ZADD', KEYS[2], (last or 0) + 1, me)
end
redis.call('ZADD', KEYS[3], now, me)
redis.call('PEXPIRE', KEYS[2], ARGV[3] * 2)
redis.call('PEXPIRE', KEYS[3], ARGV[3] * 2)
local rank, wait = redis.call('ZRANK', KEYS[2], me), -1
if not holder or reserved then
  wait = redis.call('ZSCORE', KEYS[3], first) + ARGV[3] - now
elseif rank <= 1 then
  wait = redis.call('PTTL', KEYS[1])
end
return {rank, wait})lua");
inline constexpr Script acquire_fair = {
    .text = {acquire_fair_text.data(), acquire_fair_text.size()},
    .sha1 = "83ef5079ca4c015f82b9f53494e39ed3c0472bff",
};

// Gives a lock back, or a place in its queue, and reserves a free lock for the next in line.
//                                ARGV[4]  optional: for how many ms more the name stays taken
//   returns 1: it was ours and is released; 0: it is free or somebody else's, and untouched
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr auto release_fair_text =
    joined(fair_queue, R"lua(local was_first = me ~= '' and redis.call('ZRANK', KEYS[2], me) == 0
leave(me)
local ours, first, dropped = holder == ARGV[1], first_in_line()
if ours and ARGV[4] then
  redis.call('SET', KEYS[1], 'released:' .. ARGV[1], 'PX', ARGV[4])
elseif ours or not holder or holder == next .. me then
  if first then reserve(first) elseif holder then redis.call('DEL', KEYS[1]) end
end
if first and (was_first or dropped) then tell(first) end
return ours and 1 or 0)lua");
inline constexpr Script release_fair = {
    .text = {release_fair_text.data(), release_fair_text.size()},
    .sha1 = "ade2092dff8702f5650c47861141e63074d070e0",
};

}  // namespace redlock::detail::scripts
