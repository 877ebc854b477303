#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/counter.hpp"
#include "redlock/detail/resolve.hpp"
#include "redlock/options.hpp"
#include "redlock/transport.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// Where a server is and how to talk to it: the options that a connection needs, those of the address put over them.
struct Settings {
  Settings(Uri address, const ClientOptions& options)
      : uri(std::move(address)),
        client_name(uri.client_name().value_or(options.client_name)),
        connect_timeout(uri.connect_timeout().value_or(options.connect_timeout)),
        command_timeout(uri.command_timeout().value_or(options.command_timeout)),
        credentials(options.credentials),
        transport(options.transport) {
    if (uri.is_tls() && !transport) {
      throw std::invalid_argument(
          "redlock: " + uri.text() +
          " asks for TLS: include redlock/tls.hpp, link redlock::tls (or ssl and crypto), and set "
          "ClientOptions::transport to redlock::tls()");
    }
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
  std::shared_ptr<const Transport> transport;
  std::shared_ptr<Counter> connections;  // that were made; nullptr: nobody wants to know
};

class Endpoint;

// Asks where a server is at the moment.
//
// Thread safety: one thread at a time.
// On failure: advance() throws ConnectionError.
class Search {
 public:
  Search() = default;
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;
  virtual ~Search() = default;
  virtual std::shared_ptr<Endpoint> advance(TimePoint now) = 0;  // nullptr: not known yet
  virtual TimePoint watch(PollSet& files) = 0;  // adds what to poll for; returns when to advance anyway
};

// Knows whom to ask for a server that moves.
//
// Thread safety: all members.
class Locator {
 public:
  Locator() = default;
  Locator(const Locator&) = delete;
  Locator& operator=(const Locator&) = delete;
  virtual ~Locator() = default;
  virtual std::unique_ptr<Search> search(TimePoint now) = 0;
  // Whether it is what the last search found.
  virtual bool is_current(const Endpoint& server) const noexcept = 0;
};

// What all connections to one server share: its settings, and the addresses of its host that were good last. Or, with a
// locator, whom to ask for the server first.
//
// Thread safety: all members.
class Endpoint {
 public:
  explicit Endpoint(Settings settings, std::unique_ptr<Locator> locator = nullptr)
      : settings_(std::move(settings)), locator_(std::move(locator)) {
    const Uri& uri = settings_.uri;
    if (locator_) return;
    if (uri.is_unix()) {
      fixed_ = {Address::of_unix_socket(uri.path())};
    } else {
      fixed_ = Addresses::look_up(uri.host(), uri.port(), AI_NUMERICHOST).found;  // reads the text, asks nobody
    }
  }

  const Settings& settings() const noexcept { return settings_; }

  Locator* locator() const noexcept { return locator_.get(); }

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
  std::unique_ptr<Locator> locator_;
  std::vector<Address> fixed_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::shared_ptr<LookUp> look_up_;
  std::vector<Address> last_good_;
};

}  // namespace redlock::detail
