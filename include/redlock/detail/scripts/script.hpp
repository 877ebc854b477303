#pragma once

#include <string_view>

namespace redlock::detail {

// A Lua script and the SHA-1 of its text, by which EVALSHA calls it. (A test asks a server whether the two belong
// together.)
struct Script {
  std::string_view text, sha1;
};

}  // namespace redlock::detail
