#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
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

// The floor: SET and EVALSHA as the library sends them, words and lengths, no formatting.
class RawLoop {
 public:
  explicit RawLoop(const redlock::Uri& uri) : context_(connect(uri)) {
    run({"EVAL", std::string(script.text), "1", "bench:raw", token});  // so that EVALSHA knows it
  }

  void ping() { run({"PING"}); }

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
  static constexpr redlock::detail::Script script = redlock::detail::scripts::release;
  static constexpr const char* token = "8a2d5bd8-6d3f-4a55-9a3f-0d7f5d3c5a11";

  void append(const std::vector<std::string>& words) {
    const char* texts[8];
    std::size_t lengths[8];
    for (std::size_t i = 0; i < words.size(); ++i) {
      texts[i] = words[i].data();
      lengths[i] = words[i].size();
    }
    redisAppendCommandArgv(context_.get(), static_cast<int>(words.size()), texts, lengths);
  }

  void run(const std::vector<std::string>& words) {
    append(words);
    read();
  }

  Context context_;
  const std::vector<std::string> set_ = {"SET", "bench:raw", token, "NX", "PX", "30000"};
  const std::vector<std::string> release_ = {"EVALSHA", std::string(script.sha1), "1", "bench:raw", token};
};

}  // namespace bench
