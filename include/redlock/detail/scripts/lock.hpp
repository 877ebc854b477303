#pragma once

#include "redlock/detail/scripts/script.hpp"

// The scripts of the plain lock: one key that holds its owner's token.
namespace redlock::detail::scripts {

// Gives a lock back.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//                                ARGV[2]  optional: for how many ms more the name stays taken
//   returns 1: it was ours and is released; 0: it is free or somebody else's, and untouched
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr Script release = {
    .text = R"lua(if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] then redis.call('SET', KEYS[1], 'released:' .. ARGV[1], 'PX', ARGV[2]) else redis.call('DEL', KEYS[1]) end
return 1)lua",
    .sha1 = "dd42549c910e2b3fa738546510cc723772415897",
};

// Sets the lease of a lock back to its full length. Never creates, never shortens.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//                                ARGV[2]  ttl in ms
//   returns 1: it is ours; 0: it is free or somebody else's, and untouched
// Replayable: idempotent.
inline constexpr Script renew = {
    .text = R"lua(if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1)lua",
    .sha1 = "dba8305253ce460b9d2d8605f77697d1a65c3058",
};

// The same for a lock that replicas have to have, too: it always writes, so that there is something to acknowledge. From
// Redis 8 on WAIT is content at once where nothing was written.
inline constexpr Script renew_written = {
    .text = R"lua(if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])))
return 1)lua",
    .sha1 = "17f64f00c307ede4da762f360dd7459d050dc43d",
};

// Takes a lock and mints its fencing token.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the counter         ARGV[2]  ttl in ms
//                                ARGV[3]  proposal, see fence.hpp
//                                ARGV[4]  how many tokens to reserve
//   returns the first token reserved, as text; nil: somebody else holds the lock
// As in fence.hpp, but for a block of tokens. Replayable: the owner gets the same token again.
inline constexpr Script acquire_fenced = {
    .text = R"lua(local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return false end
local last, block, proposal = tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[4]), tonumber(ARGV[3])
if not last or last < 0 or last ~= math.floor(last) or last + block >= 2^53 then
  return redis.error_reply('ERR the fencing counter ' .. KEYS[2] .. ' is no number below 2^53')
end
if holder then return string.format('%.0f', last - block + 1) end
local first = last + 1
if proposal > first and proposal < 2^52 then first = proposal end
redis.call('SET', KEYS[2], string.format('%.0f', first + block - 1))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return string.format('%.0f', first))lua",
    .sha1 = "d6e693ec9433398a724029d451d948e4b5ad2143",
};

// Raises the counter of fencing tokens, for the owner of the lock alone.
//   KEYS[1]  the lock            ARGV[1]  the owner's token
//   KEYS[2]  the counter         ARGV[2]  what it is to be at least
//   returns 1: it is; 0: the lock is free or somebody else's
// Replayable: idempotent while the lock is ours, and nothing after it.
inline constexpr Script raise = {
    .text = R"lua(if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
if not last then return redis.error_reply('ERR the fencing counter ' .. KEYS[2] .. ' is no number') end
if last < tonumber(ARGV[2]) then redis.call('SET', KEYS[2], ARGV[2]) end
return 1)lua",
    .sha1 = "dc6c5f34fd19e7d2eb3195f779e3d503a643706c",
};

}  // namespace redlock::detail::scripts
