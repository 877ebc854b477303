#pragma once

#include <string>
#include <string_view>

#include "redlock/detail/scripts/fence.hpp"
#include "redlock/detail/scripts/queue.hpp"
#include "redlock/detail/scripts/script.hpp"

// The scripts of the fair lock: the plain lock's key, and a queue of those who wait for it.
//
// A lock that is given back while others wait is not free: its key holds a reservation, "next:" and the key of the next
// in line, for as long as that one may be silent. So no other lock on the same name comes first, unless the reservation
// or a lease has expired.
namespace redlock::detail::scripts {

// What the lock's key holds while it is reserved for a waiter.
inline std::string reservation(std::string_view queue, std::string_view id) { return "next:" + own_key(queue, id); }

// What both scripts begin with, behind that of the queue.
inline constexpr char reserving[] = R"lua(local next = 'next:' .. KEYS[2] .. ':'
local function reserve(first)
  redis.call('SET', KEYS[1], next .. first, 'PX', ARGV[3])
  tell(first)
end
local holder = redis.call('GET', KEYS[1])
local reserved = holder and string.sub(holder, 1, #next) == next
)lua";

// Takes a lock, or a place in its queue.
//   KEYS[4]  optional: the       ARGV[4]  ttl in ms
//            fencing counter     ARGV[5]  proposal for it, see fence.hpp
//   returns the fencing token as text, "0" without one: granted; nil: not, and a try without an id does not queue; or
//   [how many are before, in how many ms it is worth to look again without being told]; -1: it is not
// Where it is free and somebody else is first, it is reserved for that one. Replayable: a place is kept, and refreshed.
inline constexpr auto acquire_fair_text =
    joined(queueing, reserving, minting, R"lua(local first, dropped = first_in_line()
if not holder or reserved then
  if not first or first == me then
    local fence, fault = mint(4, false, ARGV[5])
    if fault then return fault end
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
local rank, wait = wait_in_line(), -1
if not holder or reserved then
  wait = silent_at(first) - now
elseif rank <= 1 then
  wait = redis.call('PTTL', KEYS[1])
end
return {rank, wait})lua");
inline constexpr Script acquire_fair = {
    .text = {acquire_fair_text.data(), acquire_fair_text.size()},
    .sha1 = "aa5f5c0911c4fcdfff8a1ece1b9d3137676c3ab4",
};

// Gives a lock back, or a place in its queue, and reserves a free lock for the next in line.
//                                ARGV[4]  optional: for how many ms more the name stays taken
//   returns 1: it was ours and is released; 0: it is free or somebody else's, and untouched
// Replayable: the second time it answers 0 and changes nothing.
inline constexpr auto release_fair_text =
    joined(queueing, reserving, R"lua(local was_first = me ~= '' and redis.call('ZRANK', KEYS[2], me) == 0
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
    .sha1 = "b288f3a5b48dde97abb9061eb45193f68e5ddcf7",
};

}  // namespace redlock::detail::scripts
