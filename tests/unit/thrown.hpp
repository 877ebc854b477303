#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace redlock::testing {

/// What the Exception that `callable` throws says. The test fails if nothing or something else is thrown.
template <class Exception, class Callable>
std::string thrown(Callable&& callable) {
  try {
    callable();
  } catch (const Exception& exception) {
    return exception.what();
  } catch (const std::exception& exception) {
    ADD_FAILURE() << "something else is thrown: " << exception.what();
    return {};
  }
  ADD_FAILURE() << "nothing is thrown";
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace redlock::testing
