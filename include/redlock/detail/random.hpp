#pragma once

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace redlock::detail {

// Straight from the kernel: no generator of our own, whose state a fork or a cloned machine would run twice.
template <std::size_t Count>
std::array<unsigned char, Count> random_bytes() {
  static_assert(Count <= 256, "getentropy() gives no more at once");
  std::array<unsigned char, Count> bytes = {};
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw std::system_error(errno, std::generic_category(), "redlock: getentropy");
  return bytes;
}

// For jitter: a number in [0, 1). Never throws; without randomness there is no jitter.
inline double random_fraction() noexcept {
  std::uint32_t bits = 0;
  if (::getentropy(&bits, sizeof bits) != 0) return 0.5;
  return static_cast<double>(bits) / 4294967296.0;
}

}  // namespace redlock::detail
