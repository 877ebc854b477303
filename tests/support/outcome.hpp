#pragma once

#include <redlock/error.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>

#include "eventually.hpp"

namespace redlock::testing {

/// What a call came to.
struct Outcome {
  bool acquired = false;  // of a call that says so
  std::optional<errc> error = {};
  bool is_server_error = false;
  std::string what = {};
  std::chrono::milliseconds took{0};
};

template <class Call>
Outcome outcome_of(Call&& call) {
  Outcome outcome;
  outcome.took = elapsed([&] {
    try {
      if constexpr (std::is_same_v<std::invoke_result_t<Call>, bool>) {
        outcome.acquired = call();
      } else {
        call();
      }
    } catch (const Error& error) {
      outcome.error = static_cast<errc>(error.code().value());
      outcome.is_server_error = dynamic_cast<const ServerError*>(&error) != nullptr;
      outcome.what = error.what();
    }
  });
  return outcome;
}

/// What a use that is none is refused with.
template <class Call>
std::errc misuse_of(Call&& call) {
  try {
    call();
  } catch (const std::system_error& error) {
    return static_cast<std::errc>(error.code().value());
  }
  return {};
}

}  // namespace redlock::testing
