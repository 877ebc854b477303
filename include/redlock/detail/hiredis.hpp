#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "redlock/error.hpp"

// The only place that includes hiredis: its parser and its replies. Sockets are ours (see socket.hpp) and so is the
// writing of commands (see exchange.hpp), because hiredis 0.14's restart a timeout at every signal and raise SIGPIPE.
namespace redlock::detail {

struct FreeReply {
  void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
};
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

inline bool is_error(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_ERROR; }
inline bool is_nil(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_NIL; }
inline bool is_integer(const redisReply& reply) noexcept { return reply.type == REDIS_REPLY_INTEGER; }
inline bool is_text(const redisReply& reply) noexcept {
  return reply.type == REDIS_REPLY_STRING || reply.type == REDIS_REPLY_STATUS;
}
inline std::string_view text_of(const redisReply& reply) noexcept {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

// hiredis' parser, with a bound on arrays: "*2147483647" would make it reserve 16 GiB before the first element is
// there.
class ReplyReader {
 public:
  ReplyReader() : reader_(redisReaderCreateWithFunctions(functions())) {
    if (!reader_) throw std::bad_alloc();
  }

  // Throws ConnectionError (protocol_error).
  void feed(std::string_view bytes) {
    if (redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK) fail();
    if (reader_->len - reader_->pos > longest_reply) {
      throw ConnectionError(errc::protocol_error, "an answer of more than 512 MiB");
    }
  }

  // Bytes that are no whole reply, or one that nobody has taken.
  bool is_empty() const noexcept { return reader_->len == reader_->pos && reader_->ridx < 0; }

  // The next whole reply; nullptr where more bytes are needed. Throws ConnectionError (protocol_error).
  ReplyPtr next() {
    void* reply = nullptr;
    if (redisReaderGetReply(reader_.get(), &reply) != REDIS_OK) fail();
    return ReplyPtr(static_cast<redisReply*>(reply));
  }

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const noexcept { redisReaderFree(reader); }
  };

  static constexpr std::size_t longest_array = std::size_t{1} << 20U;
  static constexpr std::size_t longest_reply = std::size_t{513} << 20U;  // Redis sends no string over 512 MiB

  static const redisReplyObjectFunctions& defaults() {
    static const redisReplyObjectFunctions functions = [] {
      const std::unique_ptr<redisReader, FreeReader> reader(redisReaderCreate());
      if (!reader) throw std::bad_alloc();
      return *reader->fn;
    }();
    return functions;
  }

  // The count is an int in hiredis 0.14 and a size_t from 1.0 on.
  template <class Count>
  static void* create_array(const redisReadTask* task, Count count) {
    if (static_cast<std::size_t>(count) > longest_array) return nullptr;
    return defaults().createArray(task, count);
  }

  static redisReplyObjectFunctions* functions() {
    static redisReplyObjectFunctions bounded = [] {
      redisReplyObjectFunctions all = defaults();
      all.createArray = &create_array;
      return all;
    }();
    return &bounded;
  }

  [[noreturn]] void fail() const {
    throw ConnectionError(errc::protocol_error,
                          "unreadable answer: " + std::string(static_cast<const char*>(reader_->errstr)));
  }

  std::unique_ptr<redisReader, FreeReader> reader_;
};

}  // namespace redlock::detail
