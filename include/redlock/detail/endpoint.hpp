#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/resolve.hpp"
#include "redlock/options.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// Where a server is and how to talk to it: the options that a connection needs, those of the address put over them.
struct Settings {
  Settings(Uri address, const ClientOptions& options)
      : uri(std::move(address)),
        client_name(uri.client_name().value_or(options.client_name)),
        connect_timeout(uri.connect_timeout().value_or(options.connect_timeout)),
        command_timeout(uri.command_timeout().value_or(options.command_timeout)),
        credentials(options.credentials) {
    ClientOptions effective = options;
    effective.client_name = client_name;
    check(effective);
    connect_timeout = std::min<std::chrono::milliseconds>(connect_timeout, std::chrono::hours(24));
    command_timeout = std::min<std::chrono::milliseconds>(command_timeout, std::chrono::hours(24));
    if (!credentials)
      credentials = [user = uri.user(), password = uri.password()] { return Credentials{user, password}; };
  }

  Uri uri;
  std::string client_name;
  std::chrono::milliseconds connect_timeout, command_timeout;
  std::function<Credentials()> credentials;
};

// What all connections to one server share: its settings, and the addresses of its host that were good last.
//
// Thread safety: all members.
class Endpoint {
 public:
  explicit Endpoint(Settings settings) : settings_(std::move(settings)) {
    const Uri& uri = settings_.uri;
    if (uri.is_unix()) {
      fixed_ = {Address::of_unix_socket(uri.path())};
    } else {
      fixed_ = Addresses::look_up(uri.host(), uri.port(), AI_NUMERICHOST).found;  // reads the text, asks nobody
    }
  }

  const Settings& settings() const noexcept { return settings_; }

  // The address itself, where it is no name that has to be looked up; else empty.
  const std::vector<Address>& fixed() const noexcept { return fixed_; }

  // The look-up under way, or a new one: a resolver that hangs holds one thread, not one for each attempt.
  std::shared_ptr<LookUp> look_up(TimePoint now) {
    const std::lock_guard guard(mutex_);
    if (look_up_ && look_up_->done()) {  // perhaps too late for whoever asked, but not for the next one
      Addresses answer = look_up_->result();
      if (!answer.found.empty()) last_good_ = std::move(answer.found);
      look_up_.reset();
    }
    if (!look_up_) look_up_ = LookUp::start(settings_.uri.host(), settings_.uri.port(), now);
    return look_up_;
  }

  std::vector<Address> last_good() const {
    const std::lock_guard guard(mutex_);
    return last_good_;
  }
  void remember(std::vector<Address> addresses) {
    const std::lock_guard guard(mutex_);
    last_good_ = std::move(addresses);
  }

 private:
  // Constant after construction.
  Settings settings_;
  std::vector<Address> fixed_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::shared_ptr<LookUp> look_up_;
  std::vector<Address> last_good_;
};

}  // namespace redlock::detail
