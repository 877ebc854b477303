#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "redlock/detail/hiredis.hpp"

namespace redlock {

// One answer of Redis. Cheap to copy; an element of an array keeps the whole answer alive.
//
// Thread safety: a value; const members may run side by side.
// On failure: asking for a kind that it is not throws std::logic_error; an index out of range, std::out_of_range.
class Reply {
 public:
  explicit Reply(detail::ReplyPtr reply) : reply_(std::move(reply)) {}

  bool is_nil() const noexcept { return detail::is_nil(*reply_); }

  // An integer, or a string that is one: Redis answers GET of a number so.
  std::int64_t as_integer() const {
    if (detail::is_integer(*reply_)) return reply_->integer;
    const std::string_view text = detail::is_text(*reply_) ? detail::text_of(*reply_) : std::string_view();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) wrong_kind("an integer");
    return number;
  }

  // A string or a status. Lives as long as a copy of this Reply.
  std::string_view as_string() const {
    if (!detail::is_text(*reply_)) wrong_kind("a string");
    return detail::text_of(*reply_);
  }

  // Elements of an array; 0 for anything else.
  std::size_t size() const noexcept {
    return reply_->type == REDIS_REPLY_ARRAY ? static_cast<std::size_t>(reply_->elements) : 0;
  }

  Reply operator[](std::size_t index) const {
    if (index >= size())
      throw std::out_of_range("redlock: element " + std::to_string(index) + " of a reply of " + std::to_string(size()));
    return Reply(std::shared_ptr<const redisReply>(reply_, reply_->element[index]));
  }

 private:
  explicit Reply(std::shared_ptr<const redisReply> reply) noexcept : reply_(std::move(reply)) {}

  [[noreturn]] void wrong_kind(const char* expected) const {
    throw std::logic_error(std::string("redlock: the reply is ") + (is_nil() ? "nil, not " : "not ") + expected);
  }

  std::shared_ptr<const redisReply> reply_;
};

}  // namespace redlock
