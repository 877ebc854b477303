#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/resolve.hpp"
#include "redlock/detail/socket.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// From an endpoint to a connected socket, without ever blocking: looks the host up, then tries each of its addresses,
// which share the time that is left. A look-up that takes more than 50 ms is overtaken by the addresses that were good
// last.
//
// On failure: advance() throws ConnectionError, with the reason of the last address tried.
class Connector {
 public:
  Connector(std::shared_ptr<Endpoint> endpoint, TimePoint now, TimePoint deadline)
      : endpoint_(std::move(endpoint)), deadline_(deadline), addresses_(endpoint_->fixed()) {
    if (addresses_.empty()) look_up_ = endpoint_->look_up(now);
  }

  // The socket, once it is connected.
  std::optional<Socket> advance(TimePoint now) {
    if (addresses_.empty() && !resolved(now)) return std::nullopt;
    for (;;) {
      if (!socket_) begin(now);
      if (socket_ && is_writable()) break;
      if (now < address_deadline_) return std::nullopt;
      failed(errc::timed_out, "connect: no answer");
    }
    try {
      socket_.connected();
    } catch (const ConnectionError& error) {
      failed(errc::connect_failed, plain_text(error));
      return advance(now);
    }
    if (look_up_) endpoint_->remember(addresses_);
    return std::move(socket_);
  }

  int descriptor() const noexcept { return addresses_.empty() ? look_up_->file() : socket_.descriptor(); }
  short events() const noexcept { return addresses_.empty() ? POLLIN : POLLOUT; }

  // When to advance() even if nothing happens.
  TimePoint wake() const noexcept {
    if (!addresses_.empty()) return socket_ ? address_deadline_ : (std::min)(retry_, address_deadline_);
    return overdue_ ? deadline_ : look_up_->started() + overtake;
  }

 private:
  static constexpr std::chrono::milliseconds overtake{50};

  bool resolved(TimePoint now) {
    if (look_up_->done()) {
      Addresses answer = look_up_->result();
      addresses_ = answer.found.empty() ? endpoint_->last_good() : std::move(answer.found);
      if (addresses_.empty())
        throw ConnectionError(errc::connect_failed, "host '" + endpoint_->settings().uri.host() + "': " + answer.error);
    } else if (now >= look_up_->started() + overtake) {
      overdue_ = true;
      addresses_ = endpoint_->last_good();
    }
    if (addresses_.empty() && now >= deadline_) {
      throw ConnectionError(errc::timed_out,
                            "host '" + endpoint_->settings().uri.host() + "': the look-up takes too long");
    }
    return !addresses_.empty();
  }

  // Starts with the next address that does not fail at once.
  void begin(TimePoint now) {
    for (;;) {
      const auto left = static_cast<std::chrono::nanoseconds::rep>(addresses_.size() - next_);
      if (address_deadline_ <= now) {
        address_deadline_ = now + (std::max)(deadline_ - now, std::chrono::nanoseconds(0)) / left;
      }
      try {
        socket_ = Socket::start(addresses_[next_]);
        if (!socket_) retry_ = now + std::chrono::milliseconds(5);
        return;
      } catch (const ConnectionError& error) {
        failed(errc::connect_failed, plain_text(error));
      }
    }
  }

  void failed(errc code, const std::string& why) {
    socket_ = Socket();
    address_deadline_ = TimePoint();
    if (++next_ == addresses_.size()) throw ConnectionError(code, why);
  }

  bool is_writable() const noexcept {
    pollfd file{socket_.descriptor(), POLLOUT, 0};
    return ::poll(&file, 1, 0) > 0;
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  TimePoint deadline_;
  std::shared_ptr<LookUp> look_up_;  // nullptr where the address is fixed
  // What is under way.
  std::vector<Address> addresses_;
  bool overdue_ = false;  // the look-up
  std::size_t next_ = 0;
  TimePoint address_deadline_, retry_;
  Socket socket_;
};

}  // namespace redlock::detail
