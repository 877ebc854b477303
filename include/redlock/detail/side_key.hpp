#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace redlock::detail {

// The slot of a key in a cluster:
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model (CRC16, XMODEM
// variant, over the hash tag or else the whole key).
class HashSlot {
 public:
  // What is hashed: between the first '{' and the first '}' after it, unless that is empty.
  static constexpr std::string_view tag(std::string_view key) noexcept {
    const std::size_t open = key.find('{');
    if (open == std::string_view::npos) return {};
    const std::size_t close = key.find('}', open + 1);
    return close == std::string_view::npos ? std::string_view() : key.substr(open + 1, close - open - 1);
  }

  static constexpr unsigned of(std::string_view key) noexcept {
    const std::string_view hashed = tag(key);
    return crc16(hashed.empty() ? key : hashed) % 16384U;
  }

 private:
  static constexpr unsigned crc16(std::string_view bytes) noexcept {
    unsigned crc = 0;
    for (const char c : bytes) {
      crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8U;
      for (int bit = 0; bit < 8; ++bit) crc = ((crc & 0x8000U) != 0 ? crc << 1U ^ 0x1021U : crc << 1U) & 0xFFFFU;
    }
    return crc;
  }
};

// The key beside a lock's own that holds something about it (`suffix`: "fence"), in the same slot, so that one script
// may use both. Names do not share one (but for a name made for it: `{21562}a}` and `a}:`).
inline std::string side_key(std::string_view name, std::string_view suffix) {
  const std::string lock(name), behind = ":" + std::string(suffix);
  if (name.find('}') == std::string_view::npos) return "{" + lock + "}" + behind;
  if (!HashSlot::tag(name).empty()) return lock + ":" + behind;
  // A '}' and no hash tag: the name cannot be one, so another tag of its slot is looked for.
  const unsigned slot = HashSlot::of(name);
  for (unsigned n = 0;; ++n) {
    const std::string number = std::to_string(n);
    if (HashSlot::of(number) == slot) return std::string("{").append(number).append("}").append(lock).append(behind);
  }
}

}  // namespace redlock::detail
