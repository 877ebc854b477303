#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace redlock::detail {

// Owns a file descriptor.
class File {
 public:
  File() noexcept = default;
  explicit File(int descriptor) noexcept : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// A flag that poll() can wait for.
//
// Thread safety: all members.
class EventFile {
 public:
  EventFile() noexcept = default;

  static EventFile create() {
    EventFile event;
    event.file_ = File(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event.file_.descriptor() < 0) throw std::system_error(errno, std::generic_category(), "redlock: eventfd");
    return event;
  }

  int descriptor() const noexcept { return file_.descriptor(); }

  void signal() const noexcept {
    const std::uint64_t one = 1;
    while (::write(descriptor(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }
  void clear() const noexcept {
    std::uint64_t count = 0;
    while (::read(descriptor(), &count, sizeof count) < 0 && errno == EINTR) {
    }
  }

 private:
  File file_;
};

}  // namespace redlock::detail
