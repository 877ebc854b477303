#pragma once

#include <array>

namespace redlock::torture {

// What is wrong with a worker, so that the checkers can be seen to find it.
enum class Broken { nothing, no_fence, plain_del, late_validity, no_grace, re_create, no_ttl, leak };

inline constexpr std::array broken_names{"nothing",  "no-fence",  "plain-del", "late-validity",
                                         "no-grace", "re-create", "no-ttl",    "leak"};

}  // namespace redlock::torture
