#pragma once

#include <chrono>
#include <stop_token>
#include <utility>

#include "redlock/client.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/mutex.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"

namespace redlock {

// std::shared_timed_mutex, across machines: one writer, or many readers.
//
//   redlock::SharedMutex mutex{client, "lock:catalogue"};
//   std::shared_lock reading{mutex};
//   std::unique_lock writing{mutex};
//
// Those who wait do so in one queue in Redis: a reader waits for the writers that came before it, a writer for all that
// came before it. So neither can starve: each waits for no longer than those before it hold, and one that died loses its
// place within 2 s. Each reader is a lease of its own: one that died counts until its ttl is over, and no other keeps it
// alive. Leases end by the server's clock.
//
// What a SharedMutex has locked, a Lock or a Mutex of the same name finds taken, but does not know how to wait for: it
// throws ServerError. Use one kind for one name.
//
// Not with a quorum, nor with .hold_at_least. .fencing mints a token for a writer.
//
// Thread safety: all members. A thread holds it once: as the writer or as a reader.
// On failure: as a Mutex.
class SharedMutex : public Mutex {
 public:
  template <StringLike S>
  SharedMutex(Client client, const S& name, LockOptions options = {})
      : Mutex(std::move(client), detail::view(name), detail::Mode::writer, false, std::move(options)) {}

  // As lock() and its like, for a reader: one round trip where no writer holds it or waits. A thread that reads cannot become the writer, as two of them would wait for each
  // other: lock() and lock_shared() throw std::system_error (resource_deadlock_would_occur) where it holds it either way.
  void lock_shared() { (void)acquire_shared(detail::forever); }
  [[nodiscard]] bool try_lock_shared() { return acquire_shared({}); }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> wait, const std::stop_token& stop = {}) {
    return acquire_shared(detail::clamp(wait), stop);
  }
  template <class AnyClock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(std::chrono::time_point<AnyClock, Duration> when) {
    return try_lock_shared_for(detail::time_until(when));
  }
  UnlockResult unlock_shared() { return seats_.unlock(detail::Mode::reader); }

  // The writer becomes a reader and lets other readers in, but no writer in between. After it, also where
  // it throws, the thread counts as a reader: whether Redis has done it is not known then. Its unlock() serves as well as
  // unlock_shared(), so that the guard it was locked with may end it. False: the lease was lost. One round trip; outlasts an outage of ClientOptions::retry_for. Throws
  // std::system_error (operation_not_permitted) where this thread is not the writer.
  [[nodiscard]] bool downgrade() { return seats_.downgrade(); }

 private:
  bool acquire_shared(std::chrono::nanoseconds wait, const std::stop_token& stop = {}) {
    return seats_.acquire(detail::Mode::reader, wait, stop);
  }
};

}  // namespace redlock
