#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "redlock/detail/random.hpp"

namespace redlock {

// Who holds a lock: the value under its key. A random UUID (version 4, RFC 9562) of 122 bits from the operating system,
// new for each acquisition, kept as its 36 bytes of text in place.
//
// Thread safety: a value.
// On failure: generate() throws std::system_error if the operating system has no randomness to give.
class OwnerToken {
 public:
  static constexpr std::size_t length = 36;

  constexpr OwnerToken() noexcept = default;  // the nil UUID: nobody

  // Throws std::invalid_argument unless `text` is a UUID: 8-4-4-4-12 hexadecimal digits.
  explicit constexpr OwnerToken(std::string_view text) {
    if (!is_uuid(text))
      throw std::invalid_argument("redlock: not an owner token (a UUID of 36 characters): '" + std::string(text) + "'");
    std::copy_n(text.begin(), length, text_.begin());
  }

  static OwnerToken generate() { return from(detail::random_bytes<16>()); }

  // Of 16 random bytes.
  static constexpr OwnerToken from(std::array<unsigned char, 16> bytes) noexcept {
    bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0FU) | 0x40U);  // version 4
    bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3FU) | 0x80U);  // variant 1
    OwnerToken token;
    char* out = token.text_.data();
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (i == 4 || i == 6 || i == 8 || i == 10) *out++ = '-';
      *out++ = digits[bytes[i] >> 4U];
      *out++ = digits[bytes[i] & 0x0FU];
    }
    return token;
  }

  constexpr std::string_view text() const noexcept { return {text_.data(), length}; }
  constexpr bool is_nil() const noexcept { return text_ == nil; }

  friend constexpr bool operator==(const OwnerToken&, const OwnerToken&) noexcept = default;
  friend std::ostream& operator<<(std::ostream& out, const OwnerToken& token) { return out << token.text(); }

 private:
  using Text = std::array<char, length>;

  static constexpr std::string_view digits = "0123456789abcdef";
  static constexpr Text nil = {'0', '0', '0', '0', '0', '0', '0', '0', '-', '0', '0', '0',
                               '0', '-', '0', '0', '0', '0', '-', '0', '0', '0', '0', '-',
                               '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0', '0'};

  static constexpr bool is_uuid(std::string_view text) noexcept {
    if (text.size() != length) return false;
    for (std::size_t i = 0; i < length; ++i) {
      const char c = text[i];
      const bool dash = nil[i] == '-';
      const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (dash ? c != '-' : !hex) return false;
    }
    return true;
  }

  Text text_ = nil;
};

// A number that grows with every acquisition of a name. Whoever guards a resource stores the largest one seen and
// refuses smaller ones, so that a holder that was paused past its lease does no harm:
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
class FencingToken {
 public:
  constexpr FencingToken() noexcept = default;
  explicit constexpr FencingToken(std::uint64_t number) noexcept : number_(number) {}
  explicit constexpr operator std::uint64_t() const noexcept { return number_; }

  friend constexpr auto operator<=>(const FencingToken&, const FencingToken&) noexcept = default;
  friend std::ostream& operator<<(std::ostream& out, FencingToken token) { return out << token.number_; }

 private:
  std::uint64_t number_ = 0;
};

}  // namespace redlock
