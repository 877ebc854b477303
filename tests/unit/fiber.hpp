#pragma once

#include <cxxabi.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

// Known where a sanitizer is linked, null elsewhere.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* saved, const void** bottom, std::size_t* size);
__attribute__((weak)) void __tsan_init();
}

namespace redlock::simulation {

// Something like a thread, of which one runs at a time and only for as long as it wants: a simulation decides which is
// next, and is ten times as fast as with threads.
//
// Lifetime: it has to be done before it is destroyed.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body) : body_(std::move(body)) {
    if (spare().empty()) {
      stack_ = std::make_unique<Stack>();
    } else {
      stack_ = std::move(spare().back());
      spare().pop_back();
    }
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack_->data();
    context_.uc_stack.ss_size = stack_->size();
    context_.uc_link = &main_;
    ::makecontext(&context_, &Fiber::run, 0);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber() { spare().push_back(std::move(stack_)); }

  // Not with the thread sanitizer, which does not know them, and finds nothing in a single thread.
  static bool are_possible() noexcept { return __tsan_init == nullptr; }

  bool is_done() const noexcept { return body_ == nullptr; }

  // Runs it until it suspends or ends.
  void resume() {
    Fiber* const before = std::exchange(current_, this);
    swap_exceptions();
    void* fake = nullptr;
    if (__sanitizer_start_switch_fiber != nullptr)
      __sanitizer_start_switch_fiber(&fake, stack_->data(), stack_->size());
    ::swapcontext(&main_, &context_);
    if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
    swap_exceptions();
    current_ = before;
  }

  // From inside of one.
  static void suspend() {
    Fiber& self = *current_;
    void* fake = nullptr;
    self.leave(&fake);
    ::swapcontext(&self.context_, &self.main_);
    self.arrive(fake);
  }

 private:
  using Stack = std::array<std::byte, 256 * 1024>;

  static std::vector<std::unique_ptr<Stack>>& spare() {
    static std::vector<std::unique_ptr<Stack>> stacks;
    return stacks;
  }

  static void run() {
    Fiber& self = *current_;
    self.arrive(nullptr);
    self.body_();
    self.body_ = nullptr;
    self.leave(nullptr);
  }
  void arrive(void* fake) {
    if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(fake, &main_bottom_, &main_size_);
  }
  void leave(void** fake) {
    if (__sanitizer_start_switch_fiber != nullptr) __sanitizer_start_switch_fiber(fake, main_bottom_, main_size_);
  }

  // The exceptions that are being handled belong to the thread otherwise.
  void swap_exceptions() {
    std::array<std::byte, sizeof(void*) + sizeof(unsigned)> mine = exceptions_;
    void* const globals = abi::__cxa_get_globals();
    std::memcpy(exceptions_.data(), globals, mine.size());
    std::memcpy(globals, mine.data(), mine.size());
  }

  static inline Fiber* current_ = nullptr;

  std::function<void()> body_;
  std::unique_ptr<Stack> stack_;
  ucontext_t context_{}, main_{};
  std::array<std::byte, sizeof(void*) + sizeof(unsigned)> exceptions_{};
  const void* main_bottom_ = nullptr;
  std::size_t main_size_ = 0;
};

}  // namespace redlock::simulation
