#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace redlock::detail {

// A Lua script and the SHA-1 of its text, by which EVALSHA calls it. (A test asks a server whether the two belong
// together.)
struct Script {
  std::string_view text, sha1;
};

// A script's text of several literals, some of which others share.
template <std::size_t... Sizes>
consteval auto joined(const char (&... parts)[Sizes]) {
  std::array<char, (0 + ... + (Sizes - 1))> text{};
  auto* end = text.begin();
  ((end = std::copy_n(parts, Sizes - 1, end)), ...);
  return text;
}

}  // namespace redlock::detail
