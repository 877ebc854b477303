#pragma once

#include <concepts>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace redlock {

// What a name or an address may be given as. Parameters of this kind are deduced: a std::string or std::string_view
// parameter would take {"a", "b"} for a pair of iterators, which compiles into undefined behaviour.
template <class S>
concept StringLike = std::convertible_to<const S&, std::string_view> && !std::same_as<S, std::nullptr_t>;

namespace detail {

// Throws std::invalid_argument for a null pointer, which std::string_view would read from.
template <StringLike S>
std::string_view view(const S& text) {
  if constexpr (std::is_pointer_v<S>) {
    if (text == nullptr) throw std::invalid_argument("redlock: a null pointer where a text is due");
  }
  return text;
}

inline constexpr std::size_t longest_name = std::size_t{64} * 1024;

// Throws std::invalid_argument unless `name` can be the name of a lock.
inline std::string_view checked_name(std::string_view name) {
  if (name.empty()) throw std::invalid_argument("redlock: the name of a lock is empty");
  if (name.size() > longest_name) {
    throw std::invalid_argument("redlock: the name of a lock has " + std::to_string(name.size()) +
                                " bytes, more than 64 KiB: '" + std::string(name.substr(0, 32)) + "...'");
  }
  return name;
}

}  // namespace detail
}  // namespace redlock
