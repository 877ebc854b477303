#include "redlock/detail/acquire.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fakes.hpp"
#include "redlock/detail/file.hpp"
#include "thrown.hpp"

namespace redlock::detail::acquire_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeBackground;
using testing::FakeClock;
using testing::FakeStore;
using testing::Sent;
using testing::thrown;

constexpr TimePoint start = FakeClock::start;

struct AcquirerTest : ::testing::Test {
  std::optional<Grant> acquire(nanoseconds wait, std::chrono::milliseconds ttl = 30s, int stop = -1,
                               nanoseconds retry_for = 10s) {
    const Wanted wanted{.name = "job", .fence_key = fence_key, .ttl = ttl};
    std::optional<Turnstile::Place> place(std::in_place);
    if (wait > 0s) place.emplace(turnstile, wanted, start);
    return Acquirer{store, clock, chaser, counters, token_source}.acquire(
        wanted, {.wait = wait, .retry_for = retry_for}, stop, *place);
  }

  std::vector<nanoseconds> submission_times() const {
    std::vector<nanoseconds> times;
    for (const auto& each : store.submissions) times.push_back(each.at);
    return times;
  }

  std::string fence_key;
  FakeClock clock;
  FakeStore store{clock};
  FakeBackground chaser;
  Turnstile turnstile{chaser};
  Counters counters;
  TokenSource token_source;
};

TEST_F(AcquirerTest, a_free_lock_costs_one_request) {
  fence_key = "{job}:fence";
  store.script = [](const Sent&) {
    testing::Scripted scripted = testing::yes().in(300ms);
    scripted.answer.fence = FencingToken(77);
    scripted.answer.server.fill('r');
    return scripted;
  };
  const auto grant = acquire(0s);
  ASSERT_TRUE(grant);
  ASSERT_EQ(store.requests().size(), 1U);
  const Sent sent = store.requests().front();
  EXPECT_EQ(sent.verb, Verb::try_acquire);
  EXPECT_EQ(sent.name, "job");
  EXPECT_EQ(sent.fence_key, "{job}:fence");
  EXPECT_EQ(sent.ttl, 30s);
  EXPECT_EQ(sent.token, grant->token.text());
  EXPECT_FALSE(grant->token.is_nil());
  EXPECT_EQ(store.submissions[0].lane, Lane::foreground);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(grant->fence, FencingToken(77));
  EXPECT_EQ(grant->server.front(), 'r');
  EXPECT_EQ(grant->sent, start);
  EXPECT_EQ(grant->until, start + 29'698ms) << "from before it was sent";
  EXPECT_TRUE(chaser.leftovers.empty());
  EXPECT_EQ(counters.contended.value() + counters.snapshot().failed, 0U);
}

TEST_F(AcquirerTest, a_try_that_finds_it_held_asks_no_more) {
  store.script = [](const Sent&) { return testing::no(); };
  EXPECT_FALSE(acquire(0s));
  EXPECT_EQ(store.requests().size(), 1U);
  EXPECT_EQ(counters.contended.value(), 1U);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(AcquirerTest, a_wait_ends_exactly_at_its_end) {
  store.script = [](const Sent&) { return testing::no(30s); };
  EXPECT_FALSE(acquire(1s));
  EXPECT_EQ(clock.elapsed(), 1s);
  const auto times = submission_times();
  ASSERT_GE(times.size(), 14U);
  EXPECT_EQ(times[1], 0ns) << "the second attempt follows the first";
  for (std::size_t i = 1; i < times.size(); ++i) EXPECT_LE(times[i] - times[i - 1], 100ms);
  EXPECT_GE(times.back(), 1s - 2ms) << "a last look shortly before";
  EXPECT_EQ(counters.contended.value(), times.size());
  EXPECT_EQ(counters.snapshot().failed, 0U);
  EXPECT_EQ(counters.polled.value(), times.size() - 2) << "no timer ran for the first two";
  EXPECT_EQ(counters.woken.value(), 0U);
}

TEST_F(AcquirerTest, the_first_attempt_asks_for_less_than_the_others) {
  store.script = [](const Sent&) { return testing::no(30s); };
  EXPECT_FALSE(acquire(50ms));
  const std::vector<Sent> requests = store.requests();
  std::set<std::string> tokens;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].verb, i == 0 ? Verb::try_acquire : Verb::acquire);
    tokens.insert(requests[i].token);
  }
  EXPECT_EQ(tokens.size(), requests.size()) << "each attempt has a token of its own";
}

TEST_F(AcquirerTest, takes_the_lock_just_after_its_holder_expires) {
  store.script = [this](const Sent&) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(30ms - clock.elapsed());
    return left > 0ms ? testing::no(left) : testing::yes();
  };
  ASSERT_TRUE(acquire(1h));
  EXPECT_GE(clock.elapsed(), 30ms);
  EXPECT_LE(clock.elapsed(), 32ms);
}

TEST_F(AcquirerTest, a_grant_after_its_own_validity_is_taken_back) {
  store.script = [](const Sent&) { return testing::yes().in(7'900us); };
  EXPECT_FALSE(acquire(0s, 10ms));
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].name, "job");
  EXPECT_EQ(chaser.leftovers[0].token, store.requests()[0].token);
  EXPECT_EQ(chaser.leftovers[0].client_id, 0) << "the command has ended: no connection need be killed";
  EXPECT_EQ(chaser.leftovers[0].until, start + 7'900us + 10ms);
  EXPECT_EQ(counters.contended.value(), 0U);
}

TEST_F(AcquirerTest, a_grant_in_the_last_nanosecond_of_its_validity_is_one) {
  store.script = [](const Sent&) { return testing::yes().in(7'900us - 1ns); };
  EXPECT_TRUE(acquire(0s, 10ms));
  EXPECT_TRUE(chaser.leftovers.empty());
}

TEST_F(AcquirerTest, after_a_late_grant_a_wait_goes_on) {
  int asked = 0;
  store.script = [&](const Sent&) { return ++asked == 1 ? testing::yes().in(9ms) : testing::yes(); };
  const auto grant = acquire(1s, 10ms);
  ASSERT_TRUE(grant);
  ASSERT_EQ(store.requests().size(), 2U);
  EXPECT_EQ(grant->token.text(), store.requests()[1].token);
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].token, store.requests()[0].token);
}

TEST_F(AcquirerTest, a_try_that_fails_throws) {
  store.script = [](const Sent&) { return testing::failed(errc::loading, "LOADING wait"); };
  EXPECT_EQ(thrown<ServerError>([&] { acquire(0s); }),
            "redlock: lock 'job': redis://fake: LOADING wait: the server is loading its data");
  EXPECT_EQ(store.requests().size(), 1U);
  EXPECT_EQ(counters.snapshot().failed, 1U);
}

TEST_F(AcquirerTest, an_outage_throws_when_the_wait_ends) {
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "connect: refused"); };
  EXPECT_EQ(thrown<ConnectionError>([&] { acquire(3s); }),
            "redlock: lock 'job': redis://fake: connect: refused: cannot connect");
  EXPECT_EQ(clock.elapsed(), 3s);
  EXPECT_GE(store.requests().size(), 8U);
  EXPECT_EQ(counters.snapshot().failed, store.requests().size());
}

TEST_F(AcquirerTest, silence_throws_when_the_wait_ends) {
  store.script = [](const Sent&) { return testing::silence(); };
  EXPECT_EQ(thrown<ConnectionError>([&] { acquire(500ms); }),
            "redlock: lock 'job': redis://fake: no answer in time: timed out");
  EXPECT_EQ(clock.elapsed(), 500ms);
  EXPECT_EQ(store.requests().size(), 1U);
  ASSERT_EQ(chaser.leftovers.size(), 1U) << "it may still land";
  EXPECT_EQ(chaser.leftovers[0].token, store.requests()[0].token);
  EXPECT_EQ(chaser.leftovers[0].client_id, 7);
}

TEST_F(AcquirerTest, an_outage_shorter_than_the_wait_is_outlasted) {
  store.script = [this](const Sent&) {
    return clock.elapsed() < 2s ? testing::failed(errc::cluster_down, "CLUSTERDOWN") : testing::yes();
  };
  EXPECT_TRUE(acquire(10s));
  EXPECT_LE(clock.elapsed(), 3s) << "the last pause is a second at most";
}

TEST_F(AcquirerTest, without_an_end_an_outage_throws_after_retry_for) {
  store.script = [](const Sent&) { return testing::failed(errc::master_down, "MASTERDOWN"); };
  EXPECT_EQ(thrown<ServerError>([&] { acquire(forever); }),
            "redlock: lock 'job': redis://fake: MASTERDOWN: the replica has lost its master");
  EXPECT_GE(clock.elapsed(), 10s);
  EXPECT_LE(clock.elapsed(), 11s);
}

TEST_F(AcquirerTest, without_an_end_an_outage_throws_no_later_than_retry_for) {
  store.script = [](const Sent&) { return testing::failed(errc::master_down, "MASTERDOWN"); };
  thrown<ServerError>([&] { acquire(forever); });
  EXPECT_LE(clock.elapsed(), 10s) << "no attempt follows the last pause";
}

TEST_F(AcquirerTest, a_refusal_throws_at_once_though_the_wait_is_endless) {
  store.script = [](const Sent&) { return testing::failed(errc::wrong_type, "WRONGTYPE Operation"); };
  EXPECT_EQ(thrown<ServerError>([&] { acquire(forever); }),
            "redlock: lock 'job': redis://fake: WRONGTYPE Operation: the key is not a lock");
  EXPECT_EQ(store.requests().size(), 1U);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(AcquirerTest, contended_at_the_end_is_no_failure_though_there_were_some) {
  store.script = [this](const Sent&) {
    return clock.elapsed() < 100ms ? testing::failed(errc::busy, "BUSY") : testing::no(30s);
  };
  EXPECT_FALSE(acquire(1s));
  EXPECT_EQ(clock.elapsed(), 1s);
}

TEST_F(AcquirerTest, unreachable_at_the_end_is_a_failure_though_it_was_contended) {
  store.script = [this](const Sent&) {
    return clock.elapsed() < 100ms ? testing::no(30s) : testing::failed(errc::connection_lost, "closed");
  };
  EXPECT_EQ(thrown<ConnectionError>([&] { acquire(1s); }),
            "redlock: lock 'job': redis://fake: closed: connection lost");
}

TEST_F(AcquirerTest, a_wait_whose_last_look_has_no_time_for_its_answer_is_contended_and_no_failure) {
  store.script = [](const Sent&) { return testing::no(30s).in(3ms); };  // a server that is 3 ms away
  EXPECT_NO_THROW(EXPECT_FALSE(acquire(100ms)));
  EXPECT_LE(clock.elapsed(), 100ms);
  EXPECT_EQ(counters.snapshot().failed, 0U);
}

TEST_F(AcquirerTest, a_stale_connection_is_replaced_by_a_new_one_at_once) {
  int asked = 0;
  store.script = [&](const Sent& sent) { return ++asked == 1 ? testing::broken(sent) : testing::yes(); };
  const auto grant = acquire(0s, 30s, -1, 0s);
  ASSERT_TRUE(grant);
  const std::vector<Sent> requests = store.requests();
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].verb, Verb::try_acquire);
  EXPECT_EQ(requests[1].verb, Verb::take_back) << "first, what the old one may have left";
  EXPECT_EQ(requests[1].name, "job");
  EXPECT_EQ(requests[1].token, requests[0].token);
  EXPECT_EQ(requests[1].client_id, 7);
  EXPECT_EQ(requests[2].verb, Verb::try_acquire);
  EXPECT_NE(requests[2].token, requests[0].token);
  EXPECT_EQ(grant->token.text(), requests[2].token);
  EXPECT_TRUE(chaser.leftovers.empty());
  EXPECT_EQ(clock.elapsed(), 0ns);
  EXPECT_EQ(counters.snapshot().failed, 1U);
}

TEST_F(AcquirerTest, what_cannot_be_taken_back_at_once_is_chased) {
  for (const bool refused : {true, false}) {
    int asked = 0;
    store.script = [&](const Sent& sent) {
      if (sent.verb == Verb::take_back) return refused ? testing::failed(errc::no_permission, "NOPERM") : testing::no();
      return ++asked == 1 ? testing::broken(sent, 9) : testing::yes();
    };
    chaser.leftovers.clear();
    store.submissions.clear();
    ASSERT_TRUE(acquire(0s));
    ASSERT_EQ(chaser.leftovers.size(), 1U);
    EXPECT_EQ(chaser.leftovers[0].token, store.requests()[0].token);
    EXPECT_EQ(chaser.leftovers[0].client_id, 9);
  }
}

TEST_F(AcquirerTest, a_second_stale_connection_is_a_failure_and_chased) {
  store.script = [](const Sent& sent) { return sent.verb == Verb::take_back ? testing::yes() : testing::broken(sent); };
  EXPECT_EQ(thrown<ConnectionError>([&] { acquire(0s); }),
            "redlock: lock 'job': redis://fake: the server closed the connection: connection lost");
  const std::vector<Sent> requests = store.requests();
  ASSERT_EQ(requests.size(), 3U);
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].token, requests[2].token);
}

TEST_F(AcquirerTest, what_timed_out_is_chased_and_the_next_attempt_has_another_token) {
  int asked = 0;
  store.script = [&](const Sent&) { return ++asked == 1 ? testing::silence() : testing::yes(); };
  const auto grant = acquire(10s);
  ASSERT_TRUE(grant);
  const std::vector<Sent> requests = store.requests();
  ASSERT_EQ(requests.size(), 2U) << "nothing is taken back in the calling thread after a pause";
  EXPECT_NE(requests[1].token, requests[0].token);
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].token, requests[0].token);
  EXPECT_GE(clock.elapsed(), 2s + 5ms);
  EXPECT_LE(clock.elapsed(), 2s + 10ms);
}

TEST_F(AcquirerTest, a_stop_ends_a_pause) {
  const EventFile stop = EventFile::create();
  clock.at(777ms, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::no(30s); };
  EXPECT_FALSE(acquire(forever, 30s, stop.descriptor()));
  EXPECT_EQ(clock.elapsed(), 777ms);
}

TEST_F(AcquirerTest, a_stop_ends_an_attempt_whose_effect_is_chased) {
  const EventFile stop = EventFile::create();
  clock.at(100ms, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::silence(); };
  EXPECT_FALSE(acquire(forever, 30s, stop.descriptor()));
  EXPECT_EQ(clock.elapsed(), 100ms);
  EXPECT_EQ(store.abandoned, 1);
  EXPECT_EQ(store.requests().size(), 1U);
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].token, store.requests()[0].token);
}

TEST_F(AcquirerTest, a_stop_ends_an_outage_without_throwing) {
  const EventFile stop = EventFile::create();
  clock.at(3s, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "refused"); };
  EXPECT_FALSE(acquire(forever, 30s, stop.descriptor()));
  EXPECT_EQ(clock.elapsed(), 3s);
}

TEST_F(AcquirerTest, a_grant_that_is_there_when_it_is_stopped_is_given) {
  const EventFile stop = EventFile::create();
  clock.at(100ms, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::yes().in(100ms); };
  EXPECT_TRUE(acquire(forever, 30s, stop.descriptor()));
  EXPECT_TRUE(chaser.leftovers.empty());
}

// Only what may be passed on reserves fencing tokens for it.
TEST_F(AcquirerTest, a_block_of_fencing_tokens_is_reserved_where_somebody_may_follow) {
  const auto block = [this](bool passable, bool followed) {
    const Wanted wanted{.name = "job", .fence_key = fence_key, .ttl = 30s, .passable = passable};
    Turnstile::Place place(turnstile, wanted, start);
    std::optional<Turnstile::Place> behind;
    if (followed) behind.emplace(turnstile, wanted, start);
    const auto grant =
        Acquirer{store, clock, chaser, counters, token_source}.acquire(wanted, {.wait = forever}, -1, place);
    EXPECT_EQ(store.requests().back().fence_block, grant->spare_fences + 1);
    EXPECT_EQ(store.requests().back().fence_floor, fence_key.empty() ? 0U : clock.wall_us);
    return store.requests().back().fence_block;
  };
  EXPECT_EQ(block(true, true), 1U) << "without fencing";
  fence_key = "{job}:fence";
  EXPECT_EQ(block(true, true), 65U);
  EXPECT_EQ(block(true, false), 1U);
  EXPECT_EQ(block(false, true), 1U);
}

// Behind a holder of this process, who has it for 20 s.
struct PassedOnTest : AcquirerTest {
  PassedOnTest() {
    lease->terms.name = "job";
    lease->begin(start + 20s);
    turnstile.hold(lease, start);
  }
  void pass_on() { EXPECT_TRUE(turnstile.pass(wanted, *lease, theirs, start + 20s, clock.now())); }

  const Wanted wanted{.name = "job", .ttl = 30s};
  const std::shared_ptr<Lease> lease = std::make_shared<Lease>();
  const Grant theirs{.token = OwnerToken::generate(), .sent = start, .until = start + 20s};
};

TEST_F(PassedOnTest, what_was_passed_on_is_taken_without_asking) {
  clock.at(5ms, [&] { pass_on(); });
  const auto grant = acquire(1s);
  ASSERT_TRUE(grant);
  EXPECT_EQ(grant->token, theirs.token);
  EXPECT_EQ(grant->until, start + 20s);
  EXPECT_EQ(clock.elapsed(), 5ms);
  EXPECT_TRUE(store.requests().empty());
}

TEST_F(PassedOnTest, what_was_passed_on_too_late_is_given_back_and_asked_for_anew) {
  clock.at(5ms, [&] {
    pass_on();
    clock.advance(20s);
  });
  const auto grant = acquire(1h);
  ASSERT_TRUE(grant);
  EXPECT_NE(grant->token, theirs.token);
  ASSERT_EQ(chaser.leftovers.size(), 1U);
  EXPECT_EQ(chaser.leftovers[0].token, theirs.token.text());
  EXPECT_EQ(store.requests().size(), 1U);
}

}  // namespace
}  // namespace redlock::detail::acquire_test
