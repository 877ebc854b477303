#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/holding.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/subject.hpp"
#include "redlock/detail/unlock.hpp"
#include "redlock/error.hpp"
#include "redlock/options.hpp"

namespace redlock::detail {

// One name that the threads of a process hold by way of one object: each thread that holds it, or tries to, has a seat
// with a Holding of its own. A thread whose lease was lost keeps its seat until it unlocks, beside the next holder's.
//
// The seats stand in a list that only grows and has no mutex: after fork() the child's one thread finds its own, whatever
// the others were doing.
//
// Thread safety: all members.
class Seats {
 public:
  Seats(std::shared_ptr<Handle> handle, std::string_view name, Mode mode, LockOptions options)
      : handle_(std::move(handle)), name_(name), options_(std::move(options)) {
    check({.name = name_, .mode = mode}, options_, handle_->state().store());
  }
  Seats(const Seats&) = delete;
  Seats& operator=(const Seats&) = delete;
  ~Seats() {
    if (process_ != ::getpid()) return;  // the parent's, and its other threads' seats may be half-written
    for (const Seat* seat = first_; seat != nullptr;) delete std::exchange(seat, seat->next);
  }

  // For the calling thread. `again`: once more where it holds it already, without asking anybody; else that is an error,
  // as it is to ask for more than one holds. False: somebody else holds it.
  bool acquire(Mode mode, std::chrono::nanoseconds wait, bool again = false) {
    Seat* seat = find();
    if (seat != nullptr && seat->depth > 0 && (again || seat->mode != mode || seat->is_held())) {
      if (!again) misuse(std::errc::resource_deadlock_would_occur, "lock, which this thread holds already,");
      if (!seat->is_held()) throw seat->holding.loss();
      ++seat->depth;
      return true;
    }
    if (seat == nullptr) seat = &take();
    try {
      if (seat->depth == 0) {
        seat->holding.close();
        seat->holding = Holding(handle_, {.name = name_, .mode = mode}, options_);
      }
      seat->mode = mode;
      seat->depth = 1;
      if (seat->holding.acquire(Patience::of(wait, handle_->state().retry_for()), {})) return true;
    } catch (...) {
      leave(*seat);
      throw;
    }
    leave(*seat);
    return false;
  }

  // A lost one is told of, which may lock again.
  UnlockResult unlock(Mode mode) {
    Seat& seat = mine(mode, "unlock");
    if (seat.depth > 1) {
      --seat.depth;
      return seat.is_held() ? UnlockResult::released : UnlockResult::lost;
    }
    seat.depth = 0;
    const UnlockResult result = seat.holding.unlock();
    if (result != UnlockResult::unconfirmed && find() == &seat && seat.depth == 0) leave(seat);
    return result;
  }

  // From a writer to a reader, which the thread is then in any case. False: it was lost.
  bool downgrade() {
    Seat& seat = mine(Mode::writer, "downgrade");
    seat.mode = Mode::reader;
    return seat.holding.downgrade();
  }

  // The calling thread's; nullptr: it holds nothing.
  const Holding* holding() const noexcept {
    const Seat* seat = find();
    return seat != nullptr ? &seat->holding : nullptr;
  }

 private:
  struct Seat {
    std::atomic<std::thread::id> owner;
    Seat* next = nullptr;
    // The owner's own.
    Holding holding;
    Mode mode = Mode::owner;
    std::size_t depth = 0;  // how often it was locked; 0: not, but perhaps its last unlock was not answered

    ~Seat() { holding.close(); }
    bool is_held() const noexcept { return holding.remaining() > std::chrono::nanoseconds(0); }
  };

  Seat* find() const noexcept {
    const std::thread::id self = std::this_thread::get_id();
    Seat* seat = first_.load(std::memory_order_acquire);
    while (seat != nullptr && seat->owner.load(std::memory_order_acquire) != self) seat = seat->next;
    return seat;
  }

  Seat& take() {
    const std::thread::id self = std::this_thread::get_id();
    for (Seat* seat = first_.load(std::memory_order_acquire); seat != nullptr; seat = seat->next) {
      std::thread::id nobody;
      if (seat->owner.compare_exchange_strong(nobody, self, std::memory_order_acq_rel)) return *seat;
    }
    auto seat = std::make_unique<Seat>();
    seat->owner = self;
    seat->next = first_.load(std::memory_order_relaxed);
    while (!first_.compare_exchange_weak(seat->next, seat.get(), std::memory_order_acq_rel)) {
    }
    return *seat.release();
  }

  void leave(Seat& seat) noexcept {
    seat.depth = 0;
    seat.holding.close();
    seat.owner.store(std::thread::id(), std::memory_order_release);
  }

  Seat& mine(Mode mode, const char* operation) const {
    Seat* seat = find();
    if (seat == nullptr || seat->mode != mode) misuse(std::errc::operation_not_permitted, operation);
    return *seat;
  }

  [[noreturn]] void misuse(std::errc code, const char* operation) const {
    throw std::system_error(std::make_error_code(code), std::string("redlock: ") + operation + " of '" + name_ + "'");
  }

  // Constant after construction.
  std::shared_ptr<Handle> handle_;
  std::string name_;
  LockOptions options_;
  pid_t process_ = ::getpid();
  // Synchronised by itself.
  std::atomic<Seat*> first_ = nullptr;
};

}  // namespace redlock::detail
