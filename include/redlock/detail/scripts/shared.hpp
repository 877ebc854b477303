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
inline constexpr char sharing[] = R"lua(local mode, limit, limit_known = string.sub(ARGV[1], 1, 1), tonumber(ARGV[4]), 0
local next_end = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
local held_as = next_end[1] and (string.match(next_end[1], '^([rwp]):') or '?')
if held_as == '?' or (held_as and mode ~= '*' and (held_as == 'p') ~= (mode == 'p')) then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is no lock of this kind')
end
local ended = next_end[2] and tonumber(next_end[2]) <= now
if ended then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  next_end = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  held_as = next_end[1] and string.sub(next_end[1], 1, 1)
end
if limit > 0 then
  local limits = redis.call('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES')
  for i = 1, #limits, 2 do
    if limits[i] == ARGV[4] then limit_known = tonumber(limits[i + 1]) end
    if tonumber(limits[i + 1]) > now then
      limit = math.min(limit, tonumber(limits[i]))
    else
      redis.call('ZREM', KEYS[4], limits[i])
    end
  end
end
local function last_until(key, ends)
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), ends - now))
end
local function lease(entry, ends)
  if held_as then last_until(KEYS[1], ends) end -- first, as it is allowed where memory is full, and so is what follows
  local old = held_as and redis.call('ZSCORE', KEYS[1], entry)
  redis.call('ZADD', KEYS[1], math.max(ends, old or 0), entry)
  if not held_as then redis.call('PEXPIRE', KEYS[1], ends - now) end
end
local function know_limit(ends, enough)
  if limit == 0 or limit_known >= enough then return end
  redis.call('ZADD', KEYS[4], ends, ARGV[4])
  last_until(KEYS[4], ends)
end
local function admits(kind, before)
  if kind == 'r' then
    local one = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
    return not one or string.sub(one, 1, 1) ~= 'w'
  end
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
if ended then tell_admitted() end
)lua";

// Takes an entry, or a place in the queue.
//   KEYS[4]  of a writer, optional: the      ARGV[5]  ttl in ms
//            counter of fencing tokens       ARGV[6]  proposal for it, see fence.hpp
//   returns the fencing token as text, "0" without one: granted; nil: not, and a try without an id does not queue; or
//   [how many are before, in how many ms it is worth to look again without being told]
// Replayable: the owner gets the same entry and token again; a place is kept, and refreshed.
inline constexpr auto acquire_shared_text =
    joined(queueing, sharing, minting, R"lua(local before, first, dropped = redis.call('ZCARD', KEYS[2]), nil, false
local is_waited_for = before > 0
if is_waited_for then
  first, dropped = first_in_line()
  before = me ~= '' and redis.call('ZRANK', KEYS[2], me) or redis.call('ZCARD', KEYS[2])
end
local held = held_as and redis.call('ZSCORE', KEYS[1], ARGV[1])
local free
if mode == 'p' then
  free = (held_as and redis.call('ZCARD', KEYS[1]) or 0) + before < limit
elseif mode == 'w' then
  free = not held_as and before == 0
else
  free = held_as ~= 'w' and (before == 0 or string.sub(first, 1, 1) ~= 'w')
  for _, id in ipairs(free and before > 1 and redis.call('ZRANGE', KEYS[2], 1, before - 1) or {}) do
    free = free and string.sub(id, 1, 1) ~= 'w'
  end
end
if held or free then
  local fence, fault = mint(mode == 'w' and 4 or 5, held, ARGV[6])
  if fault then return fault end
  lease(ARGV[1], now + ARGV[5])
  know_limit(now + 2 * ARGV[5], now + ARGV[5])
  if is_waited_for then
    leave(me)
    if dropped or not held_as then tell_admitted() end -- the last lease may have ended with its key
  end
  return fence
end
if dropped then tell_admitted() end
if me == '' then return false end
know_limit(now + ARGV[3], now + ARGV[3])
local rank = wait_in_line()
if rank > 0 then return {rank, silent_at(first) - now} end
if mode ~= 'p' then next_end = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES') end
return {0, next_end[2] - now})lua");
inline constexpr Script acquire_shared = {
    .text = {acquire_shared_text.data(), acquire_shared_text.size()},
    .sha1 = "0d54e95a0e57b99f9a31fb28bf9d49819293679d",
};

// Gives an entry back, or a place in the queue. A writer's that was downgraded is a reader's. The entry "*" is all, of
// which only the first in line is told.
//   returns 1: it was ours and is released; 0: it had ended
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr auto release_shared_text = joined(R"lua(local ours = 0
if ARGV[1] ~= '*' then
  ours = redis.call('ZREM', KEYS[1], ARGV[1])
elseif string.find(redis.call('ZRANGE', KEYS[1], 0, 0)[1] or '', '^[rwp]:') then
  ours = redis.call('DEL', KEYS[1])
end
if ours == 0 and string.sub(ARGV[1], 1, 1) == 'w' then
  ours = redis.call('ZREM', KEYS[1], 'r' .. string.sub(ARGV[1], 2))
end
if redis.call('ZCARD', KEYS[2]) == 0 then return ours end
)lua",
                                                   queueing, sharing, R"lua(if me ~= '' then leave(me) end
local first = first_in_line()
if first and ARGV[1] == '*' then tell(first) end
tell_admitted()
return ours)lua");
inline constexpr Script release_shared = {
    .text = {release_shared_text.data(), release_shared_text.size()},
    .sha1 = "6dbf364d14b547d63f5911f7fe50cd9b5fc102f9",
};

// Sets the lease of an entry back to its full length. Never creates, never shortens. It always writes, see renew_written.
//                                ARGV[5]  ttl in ms
//   returns 1: it is ours; 0: it has ended
// Replayable: idempotent.
inline constexpr auto renew_shared_text = joined(queueing, sharing, R"lua(local entry = ARGV[1]
if mode == 'w' and not redis.call('ZSCORE', KEYS[1], entry) then entry = 'r' .. string.sub(entry, 2) end
if not redis.call('ZSCORE', KEYS[1], entry) then return 0 end
lease(entry, now + ARGV[5])
know_limit(now + 2 * ARGV[5], now + ARGV[5])
return 1)lua");
inline constexpr Script renew_shared = {
    .text = {renew_shared_text.data(), renew_shared_text.size()},
    .sha1 = "3f0828f7d7bbcfa62525c2588f8119738fd091f9",
};

// Makes a writer a reader, without letting go, and renews it.
//                                ARGV[5]  ttl in ms
//   returns 1: it is a reader; 0: its lease had ended
// Replayable: idempotent.
inline constexpr auto downgrade_text = joined(queueing, sharing, R"lua(local entry = 'r' .. string.sub(ARGV[1], 2)
if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 and not redis.call('ZSCORE', KEYS[1], entry) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[5], entry)
last_until(KEYS[1], now + ARGV[5])
first_in_line()
tell_admitted()
return 1)lua");
inline constexpr Script downgrade = {
    .text = {downgrade_text.data(), downgrade_text.size()},
    .sha1 = "b4a490f13d59409c77aa56e85072726cf3b69f54",
};

// Who holds a name that several may hold: the one whose lease ends last.
//   KEYS[1]  the name
//   returns [its token, for how many ms more]; nil: nobody
inline constexpr Script look_shared = {
    .text = R"lua(local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
if last[1] and not string.find(last[1], '^[rwp]:') then
  return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is no lock')
end
if not last[2] or tonumber(last[2]) <= now then return false end
return {string.sub(last[1], 3), last[2] - now})lua",
    .sha1 = "02f9993d1dc5405835a71ea9f9a334a8e5a8b894",
};

}  // namespace redlock::detail::scripts
