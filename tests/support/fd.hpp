#pragma once

#include <unistd.h>

#include <utility>

namespace redlock::testing {

/// A file descriptor, closed at the end of its life.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_{fd} {}
  Fd(Fd&& other) noexcept : fd_{std::exchange(other.fd_, -1)} {}
  Fd& operator=(Fd&& other) noexcept {
    Fd old{std::exchange(fd_, std::exchange(other.fd_, -1))};
    return *this;
  }
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }

  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace redlock::testing
