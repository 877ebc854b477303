#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/file.hpp"
#include "redlock/detail/session.hpp"

namespace redlock::detail {

// The connections to one server: idle ones are used again, the last one first, those in the making last; new ones are
// made up to a limit; beyond it users queue.
//
// Thread safety: all members; a Ticket belongs to one thread.
class Pool {
 public:
  // A user's place: its session, or its turn in the queue for one.
  class Ticket {
   public:
    int file() const noexcept { return granted_.descriptor(); }  // readable once a queued ticket has its session

   private:
    friend class Pool;
    std::unique_ptr<Session> session_;  // guarded by the pool's mutex while queued
    EventFile granted_;                 // made by the first wait, kept for the next
  };

  Pool(std::shared_ptr<Endpoint> endpoint, std::size_t limit) : endpoint_(std::move(endpoint)), limit_(limit) {
    idle_.reserve(8);
  }

  // A session, perhaps one that has yet to connect; nullptr: the ticket is queued.
  std::unique_ptr<Session> take(Ticket& ticket, TimePoint now) {
    std::unique_ptr<Session> session;
    {
      const std::lock_guard guard(mutex_);
      if (!idle_.empty()) {
        session = std::move(idle_.back());
        idle_.pop_back();
      } else if (count_ < limit_) {
        ++count_;
      } else {
        if (ticket.file() < 0) ticket.granted_ = EventFile::create();
        queue_.push_back(&ticket);
        return nullptr;
      }
    }
    const bool is_old = session && now - session->last_used() > fresh;
    if (session && (session->is_overdue(now) || (is_old && !session->is_quiet()))) session.reset();
    if (session) return session;
    try {
      return make();
    } catch (...) {
      give(nullptr);
      throw;
    }
  }

  // An idle session that is surely connected; nullptr: none.
  std::unique_ptr<Session> take_idle(TimePoint now) {
    const std::lock_guard guard(mutex_);
    if (idle_.empty() || !idle_.back()->is_ready() || !keeps(*idle_.back()) || now - idle_.back()->last_used() > fresh)
      return nullptr;
    std::unique_ptr<Session> session = std::move(idle_.back());
    idle_.pop_back();
    return session;
  }

  // The idle ones that owe answers since `since` or longer. `owing`: whether others owe any.
  std::vector<std::unique_ptr<Session>> take_indebted(TimePoint since, bool& owing) {
    std::vector<std::unique_ptr<Session>> taken;
    owing = false;
    const std::lock_guard guard(mutex_);
    taken.reserve(idle_.size());
    for (auto& session : idle_) {
      if (!session->is_indebted()) continue;
      if (session->last_used() <= since) {
        taken.push_back(std::move(session));
      } else {
        owing = true;
      }
    }
    std::erase(idle_, nullptr);
    return taken;
  }

  // The session of a queued ticket; nullptr: not yet.
  std::unique_ptr<Session> granted(Ticket& ticket) {
    const std::lock_guard guard(mutex_);
    if (ticket.session_) ticket.granted_.clear();
    return std::move(ticket.session_);
  }

  // Ends the wait of a queued ticket.
  void leave(Ticket& ticket) {
    const std::lock_guard guard(mutex_);
    if (ticket.session_) {
      ticket.granted_.clear();
      give_locked(std::move(ticket.session_));
    } else {
      std::erase(queue_, &ticket);
    }
  }

  // Whether it is one that would be kept.
  bool keeps(const Session& session) const noexcept {
    return session.generation() == generation_ && session.is_current();
  }

  // Gives a session back; nullptr for one that broke.
  void give(std::unique_ptr<Session> session) {
    const std::lock_guard guard(mutex_);
    give_locked(std::move(session));
  }

  // One idle connection was found broken: the others of that age are likely to be, too.
  void forget_idle() {
    std::vector<std::unique_ptr<Session>> closed;
    const std::lock_guard guard(mutex_);
    closed.swap(idle_);
    count_ -= closed.size();
  }

  // They are to the wrong server: the idle ones are closed now, the others when they are given back.
  void forget_all() {
    forget_idle();
    ++generation_;
  }

 private:
  // Servers close connections that are idle for long. Within a second that is too rare to ask for at the price of a
  // system call.
  static constexpr std::chrono::seconds fresh{1};

  std::unique_ptr<Session> make() const { return std::make_unique<Session>(endpoint_, generation_); }

  void give_locked(std::unique_ptr<Session> session) {
    if (session && !keeps(*session)) session.reset();
    if (!queue_.empty()) {
      Ticket& next = *queue_.front();
      queue_.erase(queue_.begin());
      next.session_ = session ? std::move(session) : make();
      next.granted_.signal();
    } else if (session) {
      idle_.insert(session->is_ready() ? idle_.end() : idle_.begin(), std::move(session));
    } else {
      --count_;
    }
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  std::size_t limit_;
  // Synchronised by itself.
  std::atomic<unsigned> generation_ = 0;  // of the sessions that are kept
  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<std::unique_ptr<Session>> idle_;
  std::size_t count_ = 0;  // idle and taken
  std::vector<Ticket*> queue_;
};

}  // namespace redlock::detail
