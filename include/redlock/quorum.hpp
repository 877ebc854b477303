#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/text.hpp"
#include "redlock/uri.hpp"

namespace redlock {

// The addresses of independent Redis servers that keep locks together: what a majority of them grants is held. 1 to 9 of
// them; 3 or 5 make sense, each on a machine of its own, none the replica of another.
//
//   redlock::Client client{{"redis://a", "redis://b", "redis://c"}};
//
// Thread safety: a value.
// On failure: the constructors throw std::invalid_argument, which says what is wrong.
class Quorum {
 public:
  static constexpr std::size_t most_nodes = 9;

  template <StringLike... S>
  requires(sizeof...(S) > 0) Quorum(const S&... uris)
      : Quorum(std::vector<std::string>{std::string(detail::view(uris))...}) {}  // NOLINT(*-explicit-*)
  Quorum(const std::vector<std::string>& uris) {                                 // NOLINT(*-explicit-*)
    if (uris.empty() || uris.size() > most_nodes)
      throw std::invalid_argument("redlock: a quorum has 1 to 9 nodes, not " + std::to_string(uris.size()));
    for (const std::string& each : uris) nodes_.emplace_back(each);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (nodes_[i].text() == nodes_[j].text())
          throw std::invalid_argument("redlock: " + nodes_[i].text() + " is named twice in a quorum");
      }
    }
  }

  const std::vector<Uri>& nodes() const noexcept { return nodes_; }

 private:
  std::vector<Uri> nodes_;
};

}  // namespace redlock
