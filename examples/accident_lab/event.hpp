#pragma once

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;  // one for all processes of a machine

inline constexpr std::chrono::milliseconds ttl{1000};

// What a worker did, or what was done to it.
enum class What {
  asks,
  holds,
  gives_up,  // it did not get the lock in its time
  enters,    // the critical section: it reads the number
  stops,     // is made to stand still
  goes_on,
  writes,          // the number; the store took it
  refused,         // the store did not take it
  leaves,          // the critical section
  deletes,         // the key: its way of releasing removed one
  finds_nothing,   // to release
  cannot_release,  // the server is gone
  dies,
};

struct Event {
  int worker;  // 0: A
  What what;
  Clock::time_point when;
};

// What a cell's processes tell, in the order in which it arrives: one pipe, written to by all of them.
class Record {
 public:
  Record() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;
  ~Record() {
    for (const int end : ends_) ::close(end);
  }

  // By a worker. Smaller than PIPE_BUF, hence in one piece.
  void tell(int worker, What what) const {
    const Event event{worker, what, Clock::now()};
    if (::write(ends_[1], &event, sizeof event) != sizeof event)
      throw std::system_error(errno, std::generic_category(), "pipe");
  }

  // By the one that looks on: the first of these that this worker tells; asked after it has told it, at once. nullptr: not
  // in time.
  const Event* await(int worker, std::vector<What> whats, std::chrono::milliseconds limit) {
    const Clock::time_point end = Clock::now() + limit;
    do {
      for (const Event& each : events_) {
        if (each.worker != worker) continue;
        for (const What what : whats) {
          if (each.what == what) return &each;
        }
      }
    } while (read_until(end));
    return nullptr;
  }

  const std::vector<Event>& events() {
    while (read_until(Clock::now())) continue;
    return events_;
  }

 private:
  bool read_until(Clock::time_point end) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd file{ends_[0], POLLIN, 0};
    if (::poll(&file, 1, left > 0 ? static_cast<int>(left) : 0) <= 0) return left > 0;
    Event event{};
    if (::read(ends_[0], &event, sizeof event) != sizeof event)
      throw std::system_error(errno, std::generic_category(), "pipe");
    events_.push_back(event);
    return true;
  }

  std::array<int, 2> ends_{-1, -1};
  std::vector<Event> events_;
};
