#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "redlock/redlock.hpp"

namespace bench {

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;

inline std::string address(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs yet
  if (value == nullptr) throw std::runtime_error(std::string("set ") + variable + ", or use bench/run");
  return value;
}

inline Context connect(const redlock::Uri& uri) {
  Context context(uri.is_unix() ? redisConnectUnix(uri.path().c_str()) : redisConnect(uri.host().c_str(), uri.port()));
  if (!context || context->err != 0) throw std::runtime_error("hiredis cannot connect to " + uri.text());
  return context;
}

// What an uncontended lock asks for.
inline constexpr const char* raw_token = "8a2d5bd8-6d3f-4a55-9a3f-0d7f5d3c5a11";
inline redlock::detail::Request plain_lock() {
  return {.verb = redlock::detail::Verb::try_acquire,
          .name = "bench:raw",
          .token = raw_token,
          .ttl = std::chrono::seconds(30)};
}

// The floor: the commands that the library sends for a lock and its release, byte for byte, over raw hiredis.
class RawLoop {
 public:
  explicit RawLoop(const redlock::Uri& uri, redlock::detail::Request lock = plain_lock())
      : context_(connect(uri)), set_(bytes(lock)) {
    run(bytes(lock, true));  // so that EVALSHA knows the scripts
    lock.verb = redlock::detail::Verb::release;
    lock.place = {};
    release_ = bytes(lock);
    run(bytes(lock, true));
  }

  void ping() { run("*1\r\n$4\r\nPING\r\n"); }

  void cycle() {
    run(set_);
    run(release_);
  }

  // One half of it: what is written now is answered later.
  void write(bool release) {
    append(release ? release_ : set_);
    int done = 0;
    while (done == 0) redisBufferWrite(context_.get(), &done);
  }
  void read() {
    void* reply = nullptr;
    redisGetReply(context_.get(), &reply);
    freeReplyObject(reply);
  }

 private:
  static std::string bytes(const redlock::detail::Request& request, bool by_text = false) {
    redlock::detail::Exchange exchange;
    std::vector<redlock::detail::Owed> owed;
    redlock::detail::Commands commands(exchange, owed);
    by_text ? commands.write_by_text(request, 0) : commands.write(request, 0);
    return std::string(exchange.unsent());
  }

  void append(const std::string& command) {
    redisAppendFormattedCommand(context_.get(), command.data(), command.size());
  }

  void run(const std::string& command) {
    append(command);
    read();
  }

  Context context_;
  std::string set_, release_;
};

}  // namespace bench
