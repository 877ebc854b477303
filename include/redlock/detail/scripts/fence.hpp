#pragma once

// How scripts mint fencing tokens.
namespace redlock::detail::scripts {

// The counters are those keys that stand from `first` on; the token is larger than what any of them has given out, and all
// have it then. The proposal is the client's wall clock in µs: with it tokens outlive a counter that was lost. Lua's
// numbers are doubles, exact below 2^53: a counter that gets there is an error, and a proposal that would take it half way
// there is ignored. Counters are written before the lock: a script does not roll back, and a token that nobody got harms
// nobody. To the holder it gives the same one again. Without a counter: "0".
inline constexpr char minting[] = R"lua(local function mint(first, is_held, proposal)
  if first > #KEYS then return '0' end
  local last = 0
  for i = first, #KEYS do
    local each = tonumber(redis.call('GET', KEYS[i]) or '0')
    if not each or each < 0 or each ~= math.floor(each) or each + 1 >= 2^53 then
      return nil, redis.error_reply('ERR the fencing counter ' .. KEYS[i] .. ' is no number below 2^53')
    end
    last = math.max(last, each)
  end
  if not is_held then
    last = last + 1
    if tonumber(proposal) > last and tonumber(proposal) < 2^52 then last = tonumber(proposal) end
  end
  local token = string.format('%.0f', last)
  for i = first, #KEYS do redis.call('SET', KEYS[i], token) end
  return token
end
)lua";

}  // namespace redlock::detail::scripts
