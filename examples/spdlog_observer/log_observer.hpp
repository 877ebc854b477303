#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <memory>
#include <redlock/observer.hpp>
#include <string_view>
#include <utility>

// Logs through spdlog what happens inside of a redlock::Client:
//
//   redlock::Client client{uri, {.observer = std::make_shared<LogObserver>(spdlog::default_logger())}};
//
// Thread safety: that of the logger, which must be one for several threads (its sinks are …_mt).
// On failure: spdlog hands what a sink throws to the logger's error handler, and throws nothing that is a std::exception.
//
// acquired() must not block: give it a logger whose sinks do not, or one of spdlog::async_factory_nonblock.
class LogObserver final : public redlock::Observer {
 public:
  explicit LogObserver(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}

  void acquired(std::string_view name, std::chrono::nanoseconds waited) noexcept override {
    logger_->debug("acquired {} after {} us", name,
                   std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  }

  void released(std::string_view name, redlock::UnlockResult result) noexcept override {
    switch (result) {
      case redlock::UnlockResult::released: logger_->debug("released {}", name); break;
      case redlock::UnlockResult::lost: logger_->warn("released {}, which was lost before", name); break;
      case redlock::UnlockResult::unconfirmed: logger_->info("released {}, not yet confirmed", name); break;
    }
  }

  // Somebody else may be at work on what the lock was for.
  void lost(const redlock::LeaseLost& loss) noexcept override { logger_->error("lost {}", loss.what()); }

  void failed(std::string_view name, const std::exception& error) noexcept override {
    logger_->warn("failed {}: {}", name, error.what());
  }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};
