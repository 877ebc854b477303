#pragma once

#include "redlock/detail/scripts/fence.hpp"
#include "redlock/detail/scripts/script.hpp"

// The scripts of a lock on several names: each is a plain lock's key, and all of them hold one token.
namespace redlock::detail::scripts {

// Takes all of the names, or none.
//   KEYS[1…n]     the names                      ARGV[1]  the owner's token
//   KEYS[n+1…2n]  optional: their counters       ARGV[2]  ttl in ms
//                 of fencing tokens              ARGV[3]  n
//                                                ARGV[4]  proposal, see fence.hpp
//   returns the fencing token as text, "0" without one: granted; an integer: not, and in how many ms the last of the
//   others' leases ends, -1 where one never does
// Replayable: the owner of all gets the same token again.
inline constexpr auto acquire_several_text = joined(
    minting,
    R"lua(local n, held, wait = tonumber(ARGV[3]), redis.call('EXISTS', unpack(KEYS, 1, tonumber(ARGV[3]))) > 0, nil
for i = 1, held and n or 0 do
  local holder = redis.call('GET', KEYS[i])
  held = held and holder == ARGV[1]
  if holder and holder ~= ARGV[1] then
    local left = redis.call('PTTL', KEYS[i])
    wait = (wait == -1 or left < 0) and -1 or math.max(wait or 0, left)
  end
end
if wait then return wait end
local fence, fault = mint(n + 1, held, ARGV[4])
if fault then return fault end
for i = 1, n do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
return fence)lua");
inline constexpr Script acquire_several = {
    .text = {acquire_several_text.data(), acquire_several_text.size()},
    .sha1 = "77597947e5851180712ebce2af0b545222941a49",
};

// Gives them back.
//   KEYS  the names              ARGV[1]  the owner's token
//                                ARGV[2]  optional: for how many ms more they stay taken
//   returns 1: all were ours and are released; 0: some were not, and those are untouched
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr Script release_several = {
    .text = R"lua(local ours = {}
for i, holder in ipairs(redis.call('MGET', unpack(KEYS))) do
  if holder == ARGV[1] then ours[#ours + 1] = KEYS[i] end
end
if ARGV[2] then
  for _, key in ipairs(ours) do redis.call('SET', key, 'released:' .. ARGV[1], 'PX', ARGV[2]) end
elseif #ours > 0 then
  redis.call('DEL', unpack(ours))
end
return #ours == #KEYS and 1 or 0)lua",
    .sha1 = "6e3ec7341fe41d78f42de35bf42361cc9cf9b176",
};

// Sets their leases back to the full length. Never creates, never shortens. It always writes, see renew_written.
//   KEYS  the names              ARGV[1]  the owner's token
//                                ARGV[2]  ttl in ms
//   returns 1: all are ours; 0: some are not, and all are untouched
// Replayable: idempotent.
inline constexpr Script renew_several = {
    .text = R"lua(for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, math.max(redis.call('PTTL', key), tonumber(ARGV[2])))
end
return 1)lua",
    .sha1 = "4994f62264fb4927497d3c9b471ff3f953ec6ee8",
};

// Raises the counters of fencing tokens, for the owner of the names alone.
//   KEYS[1…n]     the names      ARGV[1]  the owner's token
//   KEYS[n+1…2n]  the counters   ARGV[2]  what they are to be at least
//   returns 1: they are; 0: a name is free or somebody else's
// Replayable: idempotent while the names are ours, and nothing after it.
inline constexpr Script raise_several = {
    .text = R"lua(for i = 1, #KEYS / 2 do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then return 0 end
end
for i = #KEYS / 2 + 1, #KEYS do
  local last = tonumber(redis.call('GET', KEYS[i]) or '0')
  if not last then return redis.error_reply('ERR the fencing counter ' .. KEYS[i] .. ' is no number') end
  if last < tonumber(ARGV[2]) then redis.call('SET', KEYS[i], ARGV[2]) end
end
return 1)lua",
    .sha1 = "0edd2b879153f68a814683c28e39a79855332ab8",
};

}  // namespace redlock::detail::scripts
