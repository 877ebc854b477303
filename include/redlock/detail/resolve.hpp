#pragma once

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/file.hpp"

namespace redlock::detail {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  int family() const noexcept { return storage.ss_family; }
  const sockaddr* raw() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }  // NOLINT(*-reinterpret-cast)

  static Address from(const void* bytes, socklen_t length) noexcept {
    Address address;
    address.length = std::min<socklen_t>(length, sizeof address.storage);
    std::memcpy(&address.storage, bytes, address.length);
    return address;
  }

  static Address of_unix_socket(const std::string& path) noexcept {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(static_cast<char*>(address.sun_path), sizeof address.sun_path - 1);
    return from(&address, sizeof address);
  }
};

// getaddrinfo(). `error` says why the answer is empty.
struct Addresses {
  std::vector<Address> found;
  std::string error;

  static Addresses look_up(const std::string& host, int port, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo* list = nullptr;
    const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    if (error != 0) return {{}, error == EAI_SYSTEM ? std::generic_category().message(errno) : ::gai_strerror(error)};
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
    Addresses result;
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
      result.found.push_back(Address::from(each->ai_addr, each->ai_addrlen));
    }
    return result;
  }
};

// One look-up on a thread of its own, because getaddrinfo() knows no timeout: it may hang for longer than any lease.
// The thread shares nothing but this object, so whoever waits may leave.
//
// Thread safety: all members.
class LookUp {
 public:
  static std::shared_ptr<LookUp> start(const std::string& host, int port, TimePoint now) {
    auto look_up = std::make_shared<LookUp>(now);
    std::thread([look_up, host, port] { look_up->finish(Addresses::look_up(host, port, 0)); }).detach();
    return look_up;
  }

  explicit LookUp(TimePoint started) : started_(started), done_(EventFile::create()) {}

  TimePoint started() const noexcept { return started_; }
  int file() const noexcept { return done_.descriptor(); }  // readable from the end of the look-up on
  bool done() const {
    const std::lock_guard guard(mutex_);
    return finished_;
  }
  Addresses result() const {
    const std::lock_guard guard(mutex_);
    return result_;
  }

 private:
  void finish(Addresses result) {
    const std::lock_guard guard(mutex_);
    result_ = std::move(result);
    finished_ = true;
    done_.signal();
  }

  // Constant after construction.
  const TimePoint started_;
  const EventFile done_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  bool finished_ = false;
  Addresses result_;
};

}  // namespace redlock::detail
