#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

namespace redlock::detail {

// Several keys in one text, each as its length, a colon and its bytes. Empty: none.
class KeyList {
 public:
  static void append(std::string& list, std::string_view key) {
    list.append(std::to_string(key.size())).append(":").append(key);
  }

  // The first key, which is cut off.
  static std::string_view take(std::string_view& list) noexcept {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(list.data(), list.data() + list.size(), length);
    list.remove_prefix(static_cast<std::size_t>(end - list.data()) + 1);
    const std::string_view key = list.substr(0, length);
    list.remove_prefix(key.size());
    return key;
  }
};

// The keys of a lock: those of `list`, or else its name alone.
template <class Action>
void for_each_key(std::string_view name, std::string_view list, Action action) {
  if (list.empty()) return action(name);
  while (!list.empty()) action(KeyList::take(list));
}

// What says where a lock is kept. (All of its keys are kept together.)
inline std::string_view first_key(std::string_view name, std::string_view list) noexcept {
  return list.empty() ? name : KeyList::take(list);
}

}  // namespace redlock::detail
