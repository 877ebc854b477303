#pragma once

#include <string_view>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// What the service thread does for the calling ones.
//
// Thread safety: all members.
class Background {
 public:
  virtual ~Background() = default;

  // Takes back a command that may still land. Never throws: it may be a destructor that hands it over.
  virtual void chase(Leftover leftover) noexcept = 0;

  // A release that nobody waited for was answered: the lock was ours, or it was not any more.
  virtual void release_answered(std::string_view name, bool was_ours) noexcept = 0;

  // The store has something to do in the background.
  virtual void attend() noexcept = 0;

  // A server is another one by now, which may not have what was held there.
  virtual void moved() noexcept = 0;

  // It chases a command itself.
  virtual void chased() noexcept = 0;

  // A node of a quorum failed at a request about `name`, which may have succeeded without it.
  virtual void node_failed(std::string_view name, const Failure& failure, bool is_news) noexcept = 0;

  // Hears for a while what becomes of `name`, and rings the bell.
  virtual void listen(std::string_view name, TimePoint now) noexcept = 0;
};

}  // namespace redlock::detail
