// MOVED and ASK name a slot and a place, or nothing; the answer to CLUSTER SLOTS names ranges of slots and places.

#include <redlock/detail/redirect.hpp>
#include <string>

#include "fuzz.hpp"

using redlock::HostPort;
using redlock::detail::Redirect;
using redlock::detail::slot_count;
using redlock::fuzz::expect;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(redlock::fuzz::text(data, size));
  if (const auto redirect = Redirect::parse(text)) {
    expect(redirect->slot < slot_count && redirect->to.port > 0 && redirect->to.port < 65536);
    const auto same = Redirect::parse((redirect->is_move ? "MOVED " : "ASK ") + std::to_string(redirect->slot) + " " +
                                      redirect->to.host + ":" + std::to_string(redirect->to.port));
    expect(same && same->is_move == redirect->is_move && same->slot == redirect->slot && same->to == redirect->to);
  }
  for (const auto& reply : redlock::fuzz::replies(text)) {
    bool any = false;
    const bool is_answer =
        redlock::detail::read_slots(*reply, "asked", [&](unsigned first, unsigned last, const HostPort& to) {
          any = true;
          expect(first <= last && last < slot_count && !to.host.empty() && to.port > 0 && to.port < 65536);
        });
    expect(any || !is_answer);
  }
  return 0;
}
