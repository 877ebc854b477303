#pragma once

#include <poll.h>

#include <vector>

#include "redlock/detail/clock.hpp"

namespace redlock::detail {

// Something that the service thread does whenever it is due.
class Chore {
 public:
  Chore() = default;
  Chore(const Chore&) = delete;
  Chore& operator=(const Chore&) = delete;
  virtual ~Chore() = default;

  // Makes what progress there is, without blocking. Never throws: the service survives everything.
  virtual void run(TimePoint now) noexcept = 0;

  // Adds what to poll for; returns when to run even if nothing happens.
  virtual TimePoint watch(PollSet& files) = 0;

  // Whether the last handle may go: nothing is left that deserves one attempt more.
  virtual bool is_done() = 0;
};

}  // namespace redlock::detail
