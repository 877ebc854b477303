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

namespace redlock::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeChaser;
using testing::FakeClock;
using testing::FakeStore;
using testing::Sent;
using testing::thrown;
using Next = Acquisition::Next;

constexpr TimePoint start = FakeClock::start;
constexpr nanoseconds attempt_time = 2s;

Answer held(std::optional<std::chrono::milliseconds> holder_ttl = {}) {
  return std::move(testing::no(holder_ttl).answer);
}
Answer granted() { return std::move(testing::yes().answer); }
Answer failure(errc code, bool reused = false) {
  Answer answer = std::move(testing::failed(code, "words").answer);
  answer.reused = reused;
  return answer;
}

struct AcquisitionTest : ::testing::Test {
  static Acquisition once() { return {{.wait = 0s, .retry_for = 10s}, attempt_time, start}; }
  static Acquisition bounded(nanoseconds wait) { return {{.wait = wait, .retry_for = 10s}, attempt_time, start}; }
  static Acquisition endless(nanoseconds retry_for) {
    return {{.wait = forever, .retry_for = retry_for}, attempt_time, start};
  }

  // An answer that took no time.
  static void answer(Acquisition& acquisition, Answer answer, TimePoint now = start, double fraction = 0) {
    answer.sent = now;
    acquisition.answered(answer, TimePoint(), now, fraction);
  }
};

TEST_F(AcquisitionTest, begins_with_an_attempt_that_asks_for_the_lock_alone) {
  for (const Acquisition& each : {once(), bounded(1s), endless(1s)}) {
    EXPECT_EQ(each.next(start), Next::attempt);
    EXPECT_EQ(each.verb(), Verb::try_acquire);
  }
  EXPECT_EQ(bounded(1ms).next(start + 1h), Next::attempt) << "one attempt at least, however late";
}

TEST_F(AcquisitionTest, an_attempt_has_the_time_of_an_attempt_within_the_wait) {
  EXPECT_EQ(once().attempt_deadline(start), start + 2s);
  EXPECT_EQ(once().attempt_deadline(start + 500ms), start + 2s) << "a try is one attempt long, a replay included";
  EXPECT_EQ(bounded(1s).attempt_deadline(start), start + 1s);
  EXPECT_EQ(bounded(5s).attempt_deadline(start + 1s), start + 3s);
  EXPECT_EQ(bounded(5s).attempt_deadline(start + 4s), start + 5s);
  EXPECT_EQ(endless(0s).attempt_deadline(start + 1h), start + 1h + 2s);
}

TEST_F(AcquisitionTest, a_grant_within_its_validity_is_one) {
  Acquisition acquisition = once();
  acquisition.answered(granted(), start + 1s, start + 1s - 1ns, 0);
  EXPECT_EQ(acquisition.next(start + 1h), Next::granted);
}

TEST_F(AcquisitionTest, a_grant_after_its_validity_is_none) {
  Acquisition acquisition = once();
  acquisition.answered(granted(), start + 1s, start + 1s, 0);
  EXPECT_EQ(acquisition.next(start + 1s), Next::held);

  acquisition = bounded(5s);
  acquisition.answered(granted(), start + 1s, start + 1s, 0);
  EXPECT_EQ(acquisition.next(start + 1s), Next::attempt);
}

TEST_F(AcquisitionTest, once_is_over_after_its_answer) {
  Acquisition acquisition = once();
  answer(acquisition, held());
  EXPECT_EQ(acquisition.next(start), Next::held);
  acquisition = once();
  answer(acquisition, failure(errc::loading));
  EXPECT_EQ(acquisition.next(start), Next::failed);
}

TEST_F(AcquisitionTest, who_has_to_wait_asks_at_once_for_how_long) {
  Acquisition acquisition = bounded(1s);
  answer(acquisition, held());
  EXPECT_EQ(acquisition.next(start), Next::attempt);
  EXPECT_EQ(acquisition.verb(), Verb::acquire);
  answer(acquisition, held());
  EXPECT_EQ(acquisition.next(start), Next::pause);
  EXPECT_EQ(acquisition.verb(), Verb::acquire);
}

TEST_F(AcquisitionTest, pauses_grow_to_100_ms) {
  Acquisition acquisition = endless(10s);
  TimePoint now = start;
  answer(acquisition, held(), now);
  for (const nanoseconds full : {2ms, 4ms, 8ms, 16ms, 32ms, 64ms, 100ms, 100ms}) {
    answer(acquisition, held(1h), now, 0.5);
    EXPECT_EQ(acquisition.pause_until(), now + full * 3 / 4);
    EXPECT_EQ(acquisition.next(acquisition.pause_until() - 1ns), Next::pause);
    EXPECT_EQ(acquisition.next(acquisition.pause_until()), Next::attempt);
    now = acquisition.pause_until();
  }
}

TEST_F(AcquisitionTest, a_pause_ends_just_after_the_holder) {
  Acquisition acquisition = endless(10s);
  for (int i = 0; i < 10; ++i) answer(acquisition, held());
  answer(acquisition, held(3ms));
  EXPECT_EQ(acquisition.pause_until(), start + 4ms);
  answer(acquisition, held(0ms));
  EXPECT_EQ(acquisition.pause_until(), start + 1ms);
  answer(acquisition, held(1h));
  EXPECT_EQ(acquisition.pause_until(), start + 50ms);
  answer(acquisition, held());
  EXPECT_EQ(acquisition.pause_until(), start + 50ms) << "a holder that never ends";
}

TEST_F(AcquisitionTest, a_pause_leaves_time_for_another_look_before_the_end) {
  Acquisition acquisition = bounded(1s);
  for (int i = 0; i < 10; ++i) answer(acquisition, held());
  answer(acquisition, held(), start + 960ms);
  EXPECT_EQ(acquisition.pause_until(), start + 980ms);
  answer(acquisition, held(), start + 999ms);
  EXPECT_EQ(acquisition.pause_until(), start + 1s);
  answer(acquisition, held(), start + 999ms + 500us);
  EXPECT_EQ(acquisition.pause_until(), start + 1s) << "never beyond it";
  EXPECT_EQ(acquisition.next(start + 1s - 1ns), Next::pause);
  EXPECT_EQ(acquisition.next(start + 1s), Next::held);
}

TEST_F(AcquisitionTest, a_wait_goes_on_to_its_end) {
  Acquisition acquisition = bounded(1s);
  answer(acquisition, failure(errc::connect_failed));
  EXPECT_NE(acquisition.next(start + 1s - 1ns), Next::failed);
  EXPECT_EQ(acquisition.next(start + 1s), Next::failed);
}

TEST_F(AcquisitionTest, at_the_end_of_a_wait_the_last_answer_tells_contention_from_failure) {
  Acquisition acquisition = bounded(1s);
  answer(acquisition, failure(errc::loading));
  answer(acquisition, held());
  EXPECT_EQ(acquisition.next(start + 1s), Next::held);
  answer(acquisition, failure(errc::loading));
  EXPECT_EQ(acquisition.next(start + 1s), Next::failed);
}

TEST_F(AcquisitionTest, without_an_end_failures_are_borne_for_retry_for_from_the_first) {
  Acquisition acquisition = endless(10s);
  answer(acquisition, failure(errc::connect_failed), start + 5s);
  answer(acquisition, failure(errc::loading), start + 12s);
  EXPECT_NE(acquisition.next(start + 15s - 1ns), Next::failed);
  EXPECT_EQ(acquisition.next(start + 15s), Next::failed);
}

TEST_F(AcquisitionTest, an_answer_ends_a_row_of_failures) {
  Acquisition acquisition = endless(10s);
  answer(acquisition, failure(errc::connect_failed), start);
  answer(acquisition, held(), start + 9s);
  EXPECT_NE(acquisition.next(start + 30s), Next::failed);
  answer(acquisition, failure(errc::connect_failed), start + 30s);
  EXPECT_NE(acquisition.next(start + 40s - 1ns), Next::failed);
  EXPECT_EQ(acquisition.next(start + 40s), Next::failed);
}

TEST_F(AcquisitionTest, contention_without_an_end_is_never_over) {
  Acquisition acquisition = endless(0s);
  answer(acquisition, held());
  EXPECT_EQ(acquisition.next(start + std::chrono::hours(24 * 365)), Next::attempt);
}

TEST_F(AcquisitionTest, retry_for_0_is_over_at_the_first_failure) {
  Acquisition acquisition = endless(0s);
  answer(acquisition, failure(errc::connect_failed));
  EXPECT_EQ(acquisition.next(start), Next::failed);
}

TEST_F(AcquisitionTest, pauses_between_failures_grow_to_a_second_and_begin_anew_after_an_answer) {
  Acquisition acquisition = endless(1h);
  for (const nanoseconds full : {10ms, 20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 1000ms, 1000ms}) {
    answer(acquisition, failure(errc::connect_failed), start, 0.5);
    EXPECT_EQ(acquisition.pause_until(), start + full * 3 / 4);
  }
  answer(acquisition, held());
  answer(acquisition, failure(errc::connect_failed));
  EXPECT_EQ(acquisition.pause_until(), start + 5ms);
  EXPECT_EQ(acquisition.verb(), Verb::try_acquire);
}

TEST_F(AcquisitionTest, a_refusal_for_good_is_over_at_once_whatever_wait_is_left) {
  for (const errc code : {errc::unauthenticated, errc::no_permission, errc::wrong_type, errc::out_of_memory,
                          errc::misconfigured, errc::no_replicas, errc::server_error}) {
    for (Acquisition each : {once(), bounded(1h), endless(1h)}) {
      answer(each, failure(code));
      EXPECT_EQ(each.next(start), Next::failed);
    }
  }
}

TEST_F(AcquisitionTest, what_passes_is_tried_again) {
  for (const errc code :
       {errc::connect_failed, errc::connection_lost, errc::timed_out, errc::protocol_error, errc::read_only,
        errc::loading, errc::master_down, errc::cluster_down, errc::try_again, errc::busy}) {
    for (Acquisition each : {bounded(1h), endless(1h)}) {
      answer(each, failure(code));
      EXPECT_EQ(each.next(start), Next::pause);
      EXPECT_EQ(each.next(each.pause_until()), Next::attempt);
    }
  }
}

TEST_F(AcquisitionTest, a_stale_connection_costs_no_pause_once) {
  for (Acquisition each : {once(), bounded(1h), endless(0s)}) {
    answer(each, failure(errc::connection_lost, true));
    EXPECT_EQ(each.next(start), Next::attempt);
    answer(each, failure(errc::connection_lost, true));
    EXPECT_NE(each.next(start), Next::attempt);
  }
}

TEST_F(AcquisitionTest, only_a_broken_connection_that_was_used_before_is_stale) {
  for (const auto& [code, reused] :
       {std::pair(errc::connection_lost, false), std::pair(errc::timed_out, true), std::pair(errc::loading, true)}) {
    Acquisition acquisition = once();
    answer(acquisition, failure(code, reused));
    EXPECT_EQ(acquisition.next(start), Next::failed);
    acquisition = bounded(1s);
    answer(acquisition, failure(code, reused));
    EXPECT_EQ(acquisition.next(start), Next::pause);
  }
}

TEST_F(AcquisitionTest, an_answer_allows_for_another_stale_connection) {
  Acquisition acquisition = endless(10s);
  answer(acquisition, failure(errc::connection_lost, true));
  answer(acquisition, held());
  answer(acquisition, failure(errc::connection_lost, true));
  EXPECT_EQ(acquisition.next(start), Next::attempt);
}

struct AcquirerTest : ::testing::Test {
  std::optional<Acquirer::Grant> acquire(nanoseconds wait, std::chrono::milliseconds ttl = 30s, int stop = -1,
                                         nanoseconds retry_for = 10s) {
    return Acquirer{store, clock, chaser, counters, token_source}.acquire("job", fence_key, ttl,
                                                                          {.wait = wait, .retry_for = retry_for}, stop);
  }

  std::vector<nanoseconds> submission_times() const {
    std::vector<nanoseconds> times;
    for (const auto& each : store.submissions) times.push_back(each.at);
    return times;
  }

  std::string fence_key;
  FakeClock clock;
  FakeStore store{clock};
  FakeChaser chaser;
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
  EXPECT_EQ(counters.contended.value() + counters.failed.value(), 0U);
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
  EXPECT_EQ(counters.failed.value(), 0U);
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
  EXPECT_EQ(counters.failed.value(), 1U);
}

TEST_F(AcquirerTest, an_outage_throws_when_the_wait_ends) {
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "connect: refused"); };
  EXPECT_EQ(thrown<ConnectionError>([&] { acquire(3s); }),
            "redlock: lock 'job': redis://fake: connect: refused: cannot connect");
  EXPECT_EQ(clock.elapsed(), 3s);
  EXPECT_GE(store.requests().size(), 8U);
  EXPECT_EQ(counters.failed.value(), store.requests().size());
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
  EXPECT_EQ(counters.failed.value(), 0U);
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
  EXPECT_EQ(counters.failed.value(), 1U);
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

struct PersistTest : ::testing::Test {
  Answer persist(nanoseconds until, nanoseconds retry_for) {
    return detail::persist(store, clock, {.verb = Verb::renew, .name = "job", .token = "me", .ttl = 30s}, start + until,
                           retry_for);
  }

  FakeClock clock;
  FakeStore store{clock};
};

TEST_F(PersistTest, an_answer_is_an_answer) {
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  store.script = [](const Sent&) { return testing::no(); };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::no);
  store.script = [](const Sent&) { return testing::failed(errc::no_permission, "NOPERM"); };
  EXPECT_EQ(persist(1h, 10s).failure.code, errc::no_permission);
  EXPECT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(store.submissions[0].lane, Lane::foreground);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(PersistTest, a_failure_is_tried_again_after_a_growing_pause) {
  int asked = 0;
  store.script = [&](const Sent&) {
    return ++asked < 6 ? testing::failed(errc::read_only, "READONLY") : testing::yes();
  };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  ASSERT_EQ(store.submissions.size(), 6U);
  nanoseconds most = 10ms;
  for (std::size_t i = 1; i < 6; ++i, most *= 2) {
    const nanoseconds pause = store.submissions[i].at - store.submissions[i - 1].at;
    EXPECT_GE(pause, most / 2);
    EXPECT_LE(pause, most);
  }
}

TEST_F(PersistTest, ends_retry_for_after_the_first_failure) {
  store.script = [this](const Sent&) {
    return testing::failed(errc::connect_failed, "refused").in(clock.elapsed() == 0s ? 1s : 0s);
  };
  const Answer answer = persist(1h, 10s);
  EXPECT_EQ(answer.failure.code, errc::connect_failed);
  EXPECT_LE(clock.elapsed(), 11s) << "the first failure came after 1 s";
  EXPECT_GT(clock.elapsed(), 9s);
  for (const auto& each : store.submissions) EXPECT_LE(each.deadline, 11s);
}

TEST_F(PersistTest, ends_at_the_end_that_is_given) {
  store.script = [](const Sent&) { return testing::silence(); };
  EXPECT_EQ(persist(3s, 10s).failure.code, errc::timed_out);
  EXPECT_EQ(clock.elapsed(), 3s);
  ASSERT_EQ(store.submissions.size(), 2U);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(store.submissions[1].deadline, 3s);
}

TEST_F(PersistTest, retry_for_0_is_one_attempt) {
  store.script = [](const Sent&) { return testing::failed(errc::loading, "LOADING"); };
  EXPECT_EQ(persist(1h, 0s).failure.code, errc::loading);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(PersistTest, a_stale_connection_costs_no_pause_once) {
  int asked = 0;
  store.script = [&](const Sent& sent) { return ++asked < 3 ? testing::broken(sent) : testing::yes(); };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  ASSERT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[1].at, 0ns);
  EXPECT_GE(store.submissions[2].at, 5ms);
}

TEST_F(PersistTest, a_stale_connection_is_replaced_though_retry_for_is_0) {
  int asked = 0;
  store.script = [&](const Sent& sent) { return ++asked == 1 ? testing::broken(sent) : testing::yes().in(1ms); };
  EXPECT_EQ(persist(1h, 0s).kind, Answer::Kind::yes) << "the new connection gets no time to answer";
}

TEST_F(PersistTest, only_a_broken_connection_is_stale) {
  store.script = [](const Sent&) {
    testing::Scripted scripted = testing::failed(errc::loading, "LOADING");
    scripted.answer.reused = true;
    return scripted;
  };
  persist(1h, 20ms);
  ASSERT_GE(store.submissions.size(), 2U);
  EXPECT_GE(store.submissions[1].at, 5ms)
      << "the server answered: it is asked again after a pause, as an acquisition does";
}

}  // namespace
}  // namespace redlock::detail
