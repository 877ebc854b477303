#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <stop_token>
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
#include "redlock/observer.hpp"
#include "redlock/options.hpp"

namespace redlock::detail {

// One name that the threads of a process hold by way of one object: each thread that holds it, or tries to, has a seat
// with a Holding of its own. A thread whose lease was lost keeps its seat until it unlocks, beside the next holder's. One
// whose unlock was not answered keeps it until it locks or unlocks again.
//
// The seats stand in a list that only grows and has no mutex: a child of fork() can walk it whatever the others were
// doing. It leaves its parent's seats alone; to unlock what it held as the parent's thread says `lost`.
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
    for (Seat* seat = first_; seat != nullptr;) {
      Seat* each = std::exchange(seat, seat->next);
      if (is_own(*each)) delete each;  // else the parent's, and perhaps half-written
    }
  }

  // For the calling thread. `again`: once more where it holds it already, without asking anybody; else that is an error.
  // False: somebody else holds it.
  bool acquire(Mode mode, std::chrono::nanoseconds wait, const std::stop_token& stop, bool again = false) {
    Seat* seat = find();
    if (seat != nullptr && seat->depth > 0) {
      if (!again) misuse(std::errc::resource_deadlock_would_occur, "lock, which this thread holds already,");
      if (!seat->is_held()) throw seat->holding.loss();
      ++seat->depth;
      return true;
    }
    if (seat == nullptr) seat = &take();
    try {
      seat->holding.close();
      seat->holding = Holding(handle_, {.name = name_, .mode = mode}, options_);
      if (seat->holding.acquire(Patience::of(wait, handle_->state().retry_for()), stop)) {
        seat->mode = seat->locked_as = mode;
        seat->depth = 1;
        return true;
      }
    } catch (...) {
      leave(*seat);
      throw;
    }
    leave(*seat);
    return false;
  }

  // on_lost may run inside of it, lock again, and destroy this object.
  UnlockResult unlock(Mode mode) {
    Seat* seat = find();
    if (seat == nullptr && inherited() != nullptr) return UnlockResult::lost;
    if (seat == nullptr || (seat->mode != mode && seat->locked_as != mode))
      misuse(std::errc::operation_not_permitted, "unlock");
    if (seat->depth > 1) {
      --seat->depth;
      return seat->is_held() ? UnlockResult::released : UnlockResult::lost;
    }
    Holding holding = std::move(seat->holding);
    const bool may_ask_again = options_.await_release;
    leave(*seat);
    const UnlockResult result = holding.unlock();
    if (result == UnlockResult::unconfirmed && may_ask_again) {
      keep(holding, mode);
    } else {
      holding.close();
    }
    return result;
  }

  // From a writer to a reader, which the thread is then in any case. False: it was lost.
  bool downgrade() {
    Seat* seat = find();
    if (seat == nullptr || seat->depth == 0 || seat->mode != Mode::writer)
      misuse(std::errc::operation_not_permitted, "downgrade");
    seat->mode = Mode::reader;
    return seat->holding.downgrade();
  }

  // What the calling thread has locked and not unlocked; nullptr: nothing.
  const Holding* holding() const noexcept {
    const Seat* seat = find();
    return seat != nullptr && seat->depth > 0 ? &seat->holding : nullptr;
  }

 private:
  struct Seat {
    explicit Seat(const State& state) : home(&state), owner(std::this_thread::get_id()) {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() { holding.close(); }
    bool is_held() const noexcept { return holding.remaining() > std::chrono::nanoseconds(0); }

    // Constant once it is in the list.
    const State* home;  // of the process that made it
    Seat* next = nullptr;
    // Synchronised by itself.
    std::atomic<std::thread::id> owner;
    // The owner's own.
    Holding holding;
    Mode mode = Mode::owner, locked_as = Mode::owner;  // they differ where a writer became a reader
    std::size_t depth = 0;  // how often it was locked; 0: not, but perhaps its last unlock was not answered
  };

  bool is_own(const Seat& seat) const noexcept { return handle_->is_current(seat.home); }

  Seat* find() const noexcept { return find(true); }
  Seat* inherited() const noexcept { return find(false); }
  Seat* find(bool own) const noexcept {
    const std::thread::id self = std::this_thread::get_id();
    Seat* seat = first_.load(std::memory_order_acquire);
    while (seat != nullptr && (seat->owner.load(std::memory_order_acquire) != self || is_own(*seat) != own))
      seat = seat->next;
    return seat;
  }

  Seat& take() {
    const std::thread::id self = std::this_thread::get_id();
    for (Seat* seat = first_.load(std::memory_order_acquire); seat != nullptr; seat = seat->next) {
      std::thread::id nobody;
      if (is_own(*seat) && seat->owner.compare_exchange_strong(nobody, self, std::memory_order_acq_rel)) return *seat;
    }
    auto seat = std::make_unique<Seat>(handle_->state());
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

  void keep(Holding& holding, Mode mode) noexcept {
    try {
      Seat& seat = take();
      seat.holding = std::move(holding);
      seat.mode = seat.locked_as = mode;
    } catch (const std::bad_alloc&) {  // it cannot be asked again
      holding.close();
    }
  }

  [[noreturn]] void misuse(std::errc code, const char* operation) const {
    throw std::system_error(std::make_error_code(code), std::string("redlock: ") + operation + " of '" + name_ + "'");
  }

  // Constant after construction.
  std::shared_ptr<Handle> handle_;
  std::string name_;
  LockOptions options_;
  // Synchronised by itself.
  std::atomic<Seat*> first_ = nullptr;
};

}  // namespace redlock::detail
