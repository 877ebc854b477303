#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "redlock/detail/hiredis.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// A number as a word of a command, without the heap.
class NumberWord {
 public:
  template <std::integral Number>
  explicit NumberWord(Number number) noexcept
      : length_(static_cast<std::size_t>(
            std::to_chars(static_cast<char*>(text_), static_cast<char*>(text_) + sizeof text_, number).ptr - text_)) {}
  operator std::string_view() const noexcept {
    return {static_cast<const char*>(text_), length_};
  }  // NOLINT(*-explicit-*)

 private:
  char text_[20] = {};  // the longest of 64 bits
  std::size_t length_ = 0;
};

// What is said on one connection: the commands written, and the answers owed for them. It knows bytes, not sockets.
class Exchange {
 public:
  // One command, of which a part may come from elsewhere.
  void append(std::initializer_list<std::string_view> words, std::span<const std::string_view> more = {}) {
    prefix('*', words.size() + more.size());
    for (const std::string_view word : words) append_word(word);
    for (const std::string_view word : more) append_word(word);
    ++owed_;
  }
  void append(std::span<const std::string_view> words) { append({}, words); }

  std::string_view unsent() const noexcept { return std::string_view(out_).substr(sent_); }
  void sent(std::size_t bytes) noexcept {
    sent_ += bytes;
    if (sent_ < out_.size()) return;
    out_.clear();  // keeps its memory for the next command
    sent_ = 0;
  }

  void feed(std::string_view bytes) { reader_.feed(bytes); }

  // The next answer; nullptr where more bytes are needed. Throws ConnectionError at an answer that nothing asked for.
  ReplyPtr next() {
    ReplyPtr reply = reader_.next();
    if (!reply) return reply;
    if (owed_ == 0)
      throw ConnectionError(errc::protocol_error, "an answer to no question: " + std::string(text_of(*reply)));
    --owed_;
    return reply;
  }

  // The next thing said, asked for or not.
  ReplyPtr next_message() { return reader_.next(); }

  std::size_t owed() const noexcept { return owed_; }

  // Whether the next answer will be that of the next command: nothing is owed, and nothing more was said.
  bool is_even() const noexcept { return owed_ == 0 && out_.empty() && reader_.is_empty(); }

 private:
  void append_word(std::string_view word) {
    prefix('$', word.size());
    out_.append(word).append("\r\n");
  }

  void prefix(char kind, std::size_t number) {
    out_.push_back(kind);
    out_.append(NumberWord(static_cast<long long>(number))).append("\r\n");
  }

  ReplyReader reader_;
  std::string out_;
  std::size_t sent_ = 0;  // bytes of out_ that the socket took
  std::size_t owed_ = 0;
};

}  // namespace redlock::detail
