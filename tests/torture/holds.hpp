#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <redlock/redlock.hpp>
#include <stop_token>
#include <string>
#include <utility>

namespace redlock::torture {

using std::chrono::milliseconds;

// A lock of whichever kind, held by the thread that took it.
struct Held {
  std::function<bool()> is_valid;
  std::function<void()> unlock;
  std::function<void()> forget = {};  // without unlocking; empty: this kind cannot
  std::function<void()> renew = {};
  std::function<void()> pass_on = {};  // by its token to another object, as to another process
  std::string token = {};
  std::optional<std::uint64_t> fence = {};
};

// The locks of a worker.
//
// Thread safety: all members.
class Kinds {
 public:
  Kinds(Client client, const LockOptions& options, bool is_quorum) : client_(std::move(client)), options_(options) {
    if (!is_quorum) shared_.emplace(client_, "shared:0", options_);
  }

  struct Choice {
    std::string name;
    int share = 1, of = 1;
  };

  // One that the deployment has, by any number.
  Choice choose(unsigned number) const {
    static const std::array<Choice, 10> all{{{"lock:0"},
                                             {"mutex:0"},
                                             {"lock:1"},
                                             {"mutex:0"},
                                             {"fair:0"},
                                             {"lock:0+lock:1"},
                                             {"shared:0", 1, 1000},
                                             {"shared:0", 1000, 1000},
                                             {"permits:0", 1, 2},
                                             {"permits:0", 1, 2}}};
    return all[number % (shared_ ? all.size() : 4)];
  }

  // nullopt: not in time, or stopped.
  std::optional<Held> take(const Choice& choice, milliseconds wait, milliseconds ttl, bool watchdog,
                           const std::stop_token& stop) {
    LockOptions options = options_;
    options.ttl = ttl;
    options.watchdog = watchdog;
    if (choice.name.starts_with("mutex")) return take_mutex(mutex_, wait, stop);
    if (choice.name.starts_with("shared")) {
      if (choice.share == choice.of) return take_mutex(*shared_, wait, stop);
      if (!shared_->try_lock_shared_for(wait, stop)) return std::nullopt;
      return Held{.is_valid = [this] { return shared_->held_by_this_thread(); },
                  .unlock = [this] { (void)shared_->unlock_shared(); }};
    }
    if (choice.name.starts_with("permits")) return take_permit(choice, wait, options, stop);
    options.fair = choice.name.starts_with("fair");
    return take_lock(choice.name, wait, options, stop);
  }

 private:
  static std::uint64_t number(FencingToken token) { return static_cast<std::uint64_t>(token); }

  static std::optional<Held> take_mutex(Mutex& mutex, milliseconds wait, const std::stop_token& stop) {
    if (!mutex.try_lock_for(wait, stop)) return std::nullopt;
    return Held{.is_valid = [&mutex] { return mutex.held_by_this_thread(); },
                .unlock = [&mutex] { (void)mutex.unlock(); },
                .token = std::string(mutex.token().text()),
                .fence = number(mutex.fencing_token())};
  }

  std::optional<Held> take_permit(const Choice& choice, milliseconds wait, LockOptions options,
                                  const std::stop_token& stop) {
    options.fencing = false;
    Semaphore semaphore{client_, choice.name, choice.of, options};
    std::optional<Permit> granted = semaphore.try_acquire_for(wait, stop);
    if (!granted) return std::nullopt;
    const auto permit = std::make_shared<Permit>(*std::move(granted));
    return Held{.is_valid = [permit] { return permit->owns_permit(); }, .unlock = [permit] { (void)permit->unlock(); }};
  }

  std::optional<Held> take_lock(const std::string& name, milliseconds wait, const LockOptions& options,
                                const std::stop_token& stop) {
    const std::size_t plus = name.find('+');
    const bool is_one = plus == std::string::npos;
    const Names names = is_one ? Names(name) : Names(name.substr(0, plus), name.substr(plus + 1));
    const auto lock = std::make_shared<Lock>(client_, names, std::defer_lock, options);
    if (!lock->try_lock_for(wait, stop)) return std::nullopt;
    const auto unlock = [lock] {
      if (lock->token() != OwnerToken()) (void)lock->unlock();
    };
    Held held{.is_valid = [lock] { return lock->owns_lock(); },
              .unlock = unlock,
              .forget = [lock] { (void)lock->release(); },
              .renew = [lock] { (void)lock->renew(); },
              .token = std::string(lock->token().text())};
    if (!is_one) return held;
    held.fence = number(lock->fencing_token());
    held.pass_on = [this, lock, name, options] {
      *lock = Lock(client_, name, std::adopt_lock, lock->release(), options);
    };
    return held;
  }

  Client client_;
  LockOptions options_;
  Mutex mutex_{client_, "mutex:0", options_};
  std::optional<SharedMutex> shared_;  // not with a quorum, as others are not
};

}  // namespace redlock::torture
