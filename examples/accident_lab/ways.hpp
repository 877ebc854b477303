#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <redlock/redlock.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "event.hpp"

// The ways to write a lock, as one finds them: the mistakes are the point.

inline constexpr const char* lock_name = "lock:item";
inline const std::string ttl_seconds = "1", ttl_milliseconds = "1000";

// Where the lock is kept: one server, or those of a quorum.
using Nodes = std::vector<redlock::Uri>;

class Way {
 public:
  Way() = default;
  Way(const Way&) = delete;
  Way& operator=(const Way&) = delete;
  virtual ~Way() = default;

  // Tries until then. `between` is called after its first command, where it needs two.
  virtual bool take(Clock::time_point limit, const std::function<void()>& between) = 0;
  virtual What release() = 0;  // deletes, finds_nothing; throws where the server is gone
  virtual std::optional<redlock::FencingToken> fence() const { return std::nullopt; }
};

// Those that are written by hand, with one connection.
class ByHand : public Way {
 public:
  explicit ByHand(const Nodes& nodes) : redis_(nodes.front()) {}

  bool take(Clock::time_point limit, const std::function<void()>& between) final {
    while (!attempt(between)) {
      if (Clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  What release() override { return removed(redis_.command("DEL", lock_name)); }

 protected:
  virtual bool attempt(const std::function<void()>& between) = 0;

  static What removed(const redlock::Reply& reply) {
    return reply.as_integer() == 1 ? What::deletes : What::finds_nothing;
  }
  redlock::Connection& redis() { return redis_; }

 private:
  redlock::Connection redis_;
};

class SetnxDel final : public ByHand {
 public:
  using ByHand::ByHand;

 protected:
  bool attempt(const std::function<void()>& /*between*/) override {
    return redis().command("SETNX", lock_name, "1").as_integer() == 1;
  }
};

class SetnxExpireDel final : public ByHand {
 public:
  using ByHand::ByHand;

 protected:
  bool attempt(const std::function<void()>& between) override {
    if (redis().command("SETNX", lock_name, "1").as_integer() != 1) return false;
    between();
    redis().command("EXPIRE", lock_name, ttl_seconds);
    return true;
  }
};

class SetNxPxDel final : public ByHand {
 public:
  using ByHand::ByHand;

 protected:
  bool attempt(const std::function<void()>& /*between*/) override {
    return !redis().command("SET", lock_name, "1", "NX", "PX", ttl_milliseconds).is_nil();
  }
};

class TokenAndScript : public ByHand {
 public:
  using ByHand::ByHand;

  What release() override {
    constexpr const char* script =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    return removed(redis().command("EVAL", script, "1", lock_name, token_));
  }

 protected:
  bool attempt(const std::function<void()>& /*between*/) override {
    return !redis().command("SET", lock_name, token_, "NX", "PX", ttl_milliseconds).is_nil();
  }
  const std::string& token() const { return token_; }

 private:
  std::string token_ = std::to_string(std::random_device()());
};

class TokenScriptAndWatchdog final : public TokenAndScript {
 public:
  explicit TokenScriptAndWatchdog(const Nodes& nodes) : TokenAndScript(nodes), renewing_(nodes.front()) {}

  What release() override {
    watchdog_ = {};
    return TokenAndScript::release();
  }

 protected:
  bool attempt(const std::function<void()>& between) override {
    if (!TokenAndScript::attempt(between)) return false;
    watchdog_ = std::jthread([this](const std::stop_token& stop) { renew(stop); });
    return true;
  }

 private:
  void renew(const std::stop_token& stop) try {
    constexpr const char* script =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    while (!stop.stop_requested()) {
      renewing_.command("EVAL", script, "1", lock_name, token(), ttl_milliseconds);
      std::this_thread::sleep_for(ttl / 5);
    }
  } catch (const redlock::Error&) {  // and so nobody hears of it
  }

  redlock::Connection renewing_;
  std::jthread watchdog_;
};

class RedlockQuorum final : public Way {
 public:
  // The servers have just started, and have nothing to forget; on a busy machine they may be slow.
  explicit RedlockQuorum(const Nodes& nodes)
      : client_(redlock::Quorum(texts(nodes)),
                {.node_timeout = std::chrono::milliseconds(300), .restart_grace = std::chrono::milliseconds(0)}),
        lock_(client_, lock_name, std::defer_lock, {.ttl = ttl, .fencing = true}) {}

  bool take(Clock::time_point limit, const std::function<void()>& /*between*/) override {
    return lock_.try_lock_for(limit - Clock::now());
  }
  What release() override {
    return lock_.unlock() == redlock::UnlockResult::lost ? What::finds_nothing : What::deletes;
  }
  std::optional<redlock::FencingToken> fence() const override { return lock_.fencing_token(); }

 private:
  static std::vector<std::string> texts(const Nodes& nodes) {
    std::vector<std::string> texts;
    for (const redlock::Uri& each : nodes) texts.push_back(each.text());
    return texts;
  }

  redlock::Client client_;
  redlock::Lock lock_;
};

struct WayKind {
  const char* title;
  const char* code;
  const char* about;
  std::size_t servers;
  std::unique_ptr<Way> (*make)(const Nodes&);
};

template <class Kind>
std::unique_ptr<Way> make_way(const Nodes& nodes) {
  return std::make_unique<Kind>(nodes);
}

inline const std::array<WayKind, 6> ways = {{
    {"SETNX + DEL", "SETNX lock 1\n…\nDEL lock", "Nothing ends the lock of a holder that died.", 1, make_way<SetnxDel>},
    {"SETNX, then EXPIRE", "SETNX lock 1\nEXPIRE lock 1\n…\nDEL lock",
     "Two commands: who dies between them leaves a lock without an end. And the lock ends while the work goes on.", 1,
     make_way<SetnxExpireDel>},
    {"SET NX PX + DEL", "SET lock 1 NX PX 1000\n…\nDEL lock",
     "One command, but the value does not say whose it is: DEL deletes whoever's lock is there by then.", 1,
     make_way<SetNxPxDel>},
    {"token + script", "SET lock <token> NX PX 1000\n…\nif GET lock == <token> then DEL lock",
     "Deletes its own lock alone. It still ends while the work goes on.", 1, make_way<TokenAndScript>},
    {"token + script + watchdog",
     "SET lock <token> NX PX 1000\nevery 200 ms: if GET lock == <token> then PEXPIRE lock 1000\n…\nif GET lock == "
     "<token> then DEL lock",
     "Lasts for as long as the work, unless the process stands still, or the server forgets.", 1,
     make_way<TokenScriptAndWatchdog>},
    {"redlock: quorum + fencing",
     "redlock::Client client{{\"redis://a\", \"redis://b\", \"redis://c\"}};\nredlock::Lock lock{client, \"lock\", "
     "{.ttl = 1s, .fencing = true}};\n…\nUPDATE item SET … WHERE fence <= :fence",
     "A majority of independent servers keeps it; the store refuses whoever holds an older token.", 3,
     make_way<RedlockQuorum>},
}};
