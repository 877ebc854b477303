#pragma once

#include <string_view>

#include "redlock/detail/scripts/fence.hpp"
#include "redlock/detail/scripts/queue.hpp"
#include "redlock/detail/scripts/script.hpp"

// The scripts of what several may hold at once: the readers of a lock, or its one writer; permits of a semaphore. Each
// holder is a lease of its own.
//   name                 sorted set: the holders' entries by when their leases end, in ms of the server's TIME
//   {name}:queue…        those who wait, see queue.hpp
//   {name}:queue:limits  of a semaphore: sorted set: the numbers of permits that holders and waiters know, by until when
// An entry is "r:", "w:" or "p:" (reader, writer, permit) and the owner's token; so begins a waiter's id, too. Who came
// first is served first: a reader waits for the writers before it, a writer for all before it, and neither can starve.
namespace redlock::detail::scripts {

// What they begin with, behind that of the queue.
//   KEYS[1]  the name            ARGV[1]  the entry
//   KEYS[2]  the queue           ARGV[2]  the waiter's id, or empty
//   KEYS[3]  who is alive        ARGV[3]  after how many ms of silence a waiter has left
//   KEYS[4]  the limits, of a    ARGV[4]  the number of permits; 0: no semaphore
//            semaphore
inline constexpr char sharing[] = R"lua(local mode, limit = string.sub(ARGV[1], 1, 1), tonumber(ARGV[4])
local ended = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if limit > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  for _, each in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do limit = math.min(limit, tonumber(each)) end
end
local function lease(key, member, ends)
  redis.call('ZADD', key, math.max(ends, redis.call('ZSCORE', key, member) or 0), member)
  if redis.call('PTTL', key) < ends - now then redis.call('PEXPIRE', key, ends - now) end
end
local function know_limit(ends) if limit > 0 then lease(KEYS[4], ARGV[4], ends) end end
local function kind_of_holders()
  local one = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  return one and string.sub(one, 1, 1)
end
local function admits(kind, before)
  if kind == 'r' then return kind_of_holders() ~= 'w' end
  return redis.call('ZCARD', KEYS[1]) + before < (kind == 'p' and limit or 1)
end
local function tell_admitted()
  local before = 0
  repeat
    local id = redis.call('ZRANGE', KEYS[2], before, before)[1]
    local kind = id and string.sub(id, 1, 1)
    if not id or not admits(kind, before) then return end
    tell(id)
    before = before + 1
  until kind == 'w'
end
if ended > 0 then tell_admitted() end
)lua";

// Takes an entry, or a place in the queue.
//   KEYS[4]  of a writer, optional: the      ARGV[5]  ttl in ms
//            counter of fencing tokens       ARGV[6]  proposal for it, see fence.hpp
//   returns the fencing token as text, "0" without one: granted; nil: not, and a try without an id does not queue; or
//   [how many are before, in how many ms it is worth to look again without being told]
// Replayable: the owner gets the same entry and token again; a place is kept, and refreshed.
inline constexpr auto acquire_shared_text = joined(queueing, sharing, minting, R"lua(local held_as = kind_of_holders()
if held_as and (held_as == 'p') ~= (mode == 'p') then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is held as another kind of lock')
end
local first, dropped = first_in_line()
local before = me ~= '' and redis.call('ZRANK', KEYS[2], me) or redis.call('ZCARD', KEYS[2])
local held, free = redis.call('ZSCORE', KEYS[1], ARGV[1]), admits(mode, before)
if mode == 'r' then
  for i = 0, before - 1 do
    if not free then break end
    free = string.sub(redis.call('ZRANGE', KEYS[2], i, i)[1], 1, 1) ~= 'w'
  end
end
if held or free then
  local fence, fault = mint(mode == 'w' and 4 or 5, held, ARGV[6])
  if fault then return fault end
  lease(KEYS[1], ARGV[1], now + ARGV[5])
  know_limit(now + ARGV[5])
  leave(me)
  if dropped then tell_admitted() end
  return fence
end
if dropped then tell_admitted() end
if me == '' then return false end
know_limit(now + ARGV[3])
local rank = wait_in_line()
if rank > 0 then return {rank, silent_at(first) - now} end
local last = mode == 'p' and 0 or -1
return {0, redis.call('ZRANGE', KEYS[1], last, last, 'WITHSCORES')[2] - now})lua");
inline constexpr Script acquire_shared = {
    .text = {acquire_shared_text.data(), acquire_shared_text.size()},
    .sha1 = "2b6c875e1d4e01627107693623e0182a06134eaa",
};

// Gives an entry back, or a place in the queue. A writer's that was downgraded is a reader's. The entry "*" is all.
//   returns 1: it was ours and is released; 0: it had ended
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr auto release_shared_text = joined(queueing, sharing, R"lua(local ours
if ARGV[1] == '*' then ours = redis.call('DEL', KEYS[1]) else ours = redis.call('ZREM', KEYS[1], ARGV[1]) end
if ours == 0 and mode == 'w' then ours = redis.call('ZREM', KEYS[1], 'r' .. string.sub(ARGV[1], 2)) end
if me ~= '' then leave(me) end
local first = first_in_line()
if first and ARGV[1] == '*' then tell(first) end
tell_admitted()
return ours)lua");
inline constexpr Script release_shared = {
    .text = {release_shared_text.data(), release_shared_text.size()},
    .sha1 = "4ce6d72d62c23a952e17d0671d996ca5df0ce31c",
};

// Sets the lease of an entry back to its full length. Never creates, never shortens. It always writes, see renew_written.
//                                ARGV[5]  ttl in ms
//   returns 1: it is ours; 0: it has ended
// Replayable: idempotent.
inline constexpr auto renew_shared_text = joined(queueing, sharing, R"lua(local entry = ARGV[1]
if mode == 'w' and not redis.call('ZSCORE', KEYS[1], entry) then entry = 'r' .. string.sub(entry, 2) end
if not redis.call('ZSCORE', KEYS[1], entry) then return 0 end
lease(KEYS[1], entry, now + ARGV[5])
know_limit(now + ARGV[5])
return 1)lua");
inline constexpr Script renew_shared = {
    .text = {renew_shared_text.data(), renew_shared_text.size()},
    .sha1 = "ecfc890dcf0a956d7c77a9f5cb318b49ba0d2261",
};

// Makes a writer a reader, without letting go, and renews it.
//                                ARGV[5]  ttl in ms
//   returns 1: it is a reader; 0: its lease had ended
// Replayable: idempotent.
inline constexpr auto downgrade_text = joined(queueing, sharing, R"lua(local entry = 'r' .. string.sub(ARGV[1], 2)
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 and not redis.call('ZSCORE', KEYS[1], entry) then return 0 end
lease(KEYS[1], entry, now + ARGV[5])
first_in_line()
tell_admitted()
return 1)lua");
inline constexpr Script downgrade = {
    .text = {downgrade_text.data(), downgrade_text.size()},
    .sha1 = "69e6a678638719ba37fc9b30a7f71ce5c9849028",
};

// Who holds a name that several may hold: the one whose lease ends last.
//   KEYS[1]  the name
//   returns [its token, for how many ms more]; nil: nobody
inline constexpr Script look_shared = {
    .text = R"lua(local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if not last[2] or tonumber(last[2]) <= now then return false end
return {string.sub(last[1], 3), last[2] - now})lua",
    .sha1 = "f2a535bacbc15e906b7ee2ada315b5f0b0db2071",
};

}  // namespace redlock::detail::scripts
