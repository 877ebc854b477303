#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/hiredis.hpp"

namespace redlock::fuzz {

// Ends the fuzzer where something does not hold: it keeps the input then.
inline void expect(bool holds) {
  if (!holds) __builtin_trap();
}

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};  // NOLINT(*-reinterpret-cast): libFuzzer's bytes
}

// The replies that stand in the bytes, as far as they can be read.
inline std::vector<detail::ReplyPtr> replies(std::string_view bytes) {
  std::vector<detail::ReplyPtr> all;
  try {
    detail::ReplyReader reader;
    reader.feed(bytes);
    while (detail::ReplyPtr reply = reader.next()) all.push_back(std::move(reply));
  } catch (const ConnectionError&) {  // the rest is no reply
  }
  return all;
}

}  // namespace redlock::fuzz
