#include "redlock/detail/acquisition.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "fakes.hpp"

namespace redlock::detail::acquisition_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeClock;
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

// The machine was suspended, or the process stopped, while the attempt was under way.
TEST_F(AcquisitionTest, a_standstill_is_not_the_length_of_a_round_trip) {
  Acquisition acquisition = bounded(60s);
  answer(acquisition, held());
  Answer late = held(1h);
  late.sent = start;
  acquisition.answered(late, TimePoint(), start + 30s, 0);
  EXPECT_LE(acquisition.pause_until(), start + 31s);
  acquisition.answered(late, TimePoint(), start + 59s, 0);
  EXPECT_EQ(acquisition.pause_until(), start + 60s) << "no time for one more";
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

TEST_F(AcquisitionTest, pauses_between_failures_grow_to_a_quarter_of_a_second_and_begin_anew_after_an_answer) {
  Acquisition acquisition = endless(1h);
  for (const nanoseconds full : {10ms, 20ms, 40ms, 80ms, 160ms, 250ms, 250ms}) {
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

// ---------------------------------------------------------------------------------------------------------------------
// being rung

Answer held_by(std::string holder, std::optional<std::chrono::milliseconds> holder_ttl, bool registered = true) {
  Answer answer = held(holder_ttl);
  answer.holder = std::move(holder);
  answer.registered = registered;
  return answer;
}

struct RingTest : AcquisitionTest {
  // Waits for a lock that "a" holds for `left`.
  Acquisition waiting(std::chrono::milliseconds left = 1h) {
    Acquisition acquisition = endless(10s);
    answer(acquisition, held());
    answer(acquisition, held_by("a", left));
    return acquisition;
  }

  TimePoint rung_at(Acquisition& acquisition, TimePoint now, double fraction = 0.5) {
    acquisition.rung(now, fraction);
    return acquisition.pause_until();
  }
};

TEST_F(RingTest, where_the_server_tells_of_changes_the_timer_is_slow) {
  Acquisition acquisition = waiting();
  EXPECT_EQ(acquisition.pause_until(), start + 1s);
  answer(acquisition, held_by("a", 1h), start + 1s, 0.5);
  EXPECT_EQ(acquisition.pause_until(), start + 2s + 25ms) << "clients that were woken together come apart";
  answer(acquisition, held_by("a", 30ms), start + 2s, 0.5);
  EXPECT_EQ(acquisition.pause_until(), start + 2s + 31ms) << "the holder's end is known";
  answer(acquisition, held_by("a", {}), start + 3s);
  EXPECT_EQ(acquisition.pause_until(), start + 4s) << "it has none";
}

TEST_F(RingTest, ends_a_pause_at_once) {
  Acquisition acquisition = waiting();
  EXPECT_EQ(rung_at(acquisition, start + 300ms), start + 300ms);
  EXPECT_EQ(acquisition.next(start + 300ms), Next::attempt);
  EXPECT_EQ(acquisition.verb(), Verb::acquire);
}

TEST_F(RingTest, does_not_lengthen_a_pause) {
  Acquisition acquisition = waiting(10ms);
  EXPECT_EQ(rung_at(acquisition, start + 20ms), start + 11ms);
}

TEST_F(RingTest, does_not_hurry_what_follows_a_failure) {
  Acquisition acquisition = endless(10s);
  answer(acquisition, failure(errc::connect_failed), start, 0);
  EXPECT_EQ(rung_at(acquisition, start + 1ms), start + 5ms);
}

TEST_F(RingTest, for_nothing_doubles_the_shortest_pause) {
  Acquisition acquisition = waiting();
  TimePoint now = start;
  for (const nanoseconds shortest : {0ms, 1ms, 2ms, 4ms, 8ms, 16ms, 32ms, 64ms, 128ms, 256ms, 512ms, 1000ms, 1000ms}) {
    const TimePoint due = rung_at(acquisition, now);
    EXPECT_EQ(due, now + shortest);
    now = due;
    answer(acquisition, held_by("a", std::chrono::ceil<std::chrono::milliseconds>(start + 1h - now)), now);
  }
}

TEST_F(RingTest, for_a_renewal_leaves_the_shortest_pause_as_it_is) {
  Acquisition acquisition = waiting();
  for (int i = 1; i < 5; ++i) {
    const TimePoint now = start + i * 100ms;
    EXPECT_EQ(rung_at(acquisition, now), now);
    answer(acquisition, held_by("a", 1h), now);
  }
}

TEST_F(RingTest, another_holder_begins_the_shortest_pause_anew) {
  Acquisition acquisition = waiting();
  for (int i = 0; i < 5; ++i) {
    rung_at(acquisition, start);
    answer(acquisition, held_by("a", 1h), start);
  }
  EXPECT_EQ(rung_at(acquisition, start, 0), start + 16ms);
  answer(acquisition, held_by("b", 1h), start + 16ms);
  EXPECT_EQ(rung_at(acquisition, start + 16ms, 0), start + 16ms);
}

TEST_F(RingTest, who_was_beaten_lets_a_moment_pass_the_next_time) {
  Acquisition acquisition = waiting();
  EXPECT_EQ(rung_at(acquisition, start + 1ms, 0.5), start + 1ms);
  answer(acquisition, held_by("b", 1h), start + 1ms);
  EXPECT_EQ(rung_at(acquisition, start + 2ms, 0.5), start + 2500us);
}

TEST_F(RingTest, another_holder_that_nobody_rang_for_beat_nobody) {
  Acquisition acquisition = waiting();
  answer(acquisition, held_by("b", 1h), start + 1s);
  EXPECT_EQ(rung_at(acquisition, start + 2s, 0.5), start + 2s);
}

TEST_F(RingTest, a_name_that_is_free_by_the_time_of_the_look_is_asked_for_at_once) {
  Acquisition acquisition = waiting();
  Answer gone = held(0ms);
  gone.vanished = gone.registered = true;
  answer(acquisition, std::move(gone), start + 5ms);
  EXPECT_EQ(acquisition.next(start + 5ms), Next::attempt);
}

TEST_F(RingTest, in_the_queue_of_a_fair_lock_it_looks_again_when_the_server_says_or_to_make_itself_heard) {
  const auto in_line = [](std::optional<std::chrono::milliseconds> wait) {
    Answer answer = held(wait);
    answer.rank = 2;
    answer.registered = true;
    return answer;
  };
  Acquisition acquisition = endless(10s);
  answer(acquisition, in_line({}));
  EXPECT_EQ(acquisition.next(start), Next::pause) << "it is in the queue by now, and told of its turn";
  EXPECT_EQ(acquisition.pause_until(), start + 1s);
  EXPECT_EQ(acquisition.pace().rank, 2);
  answer(acquisition, in_line(30ms));
  EXPECT_EQ(acquisition.pause_until(), start + 31ms);
  Answer told = in_line(30ms);
  told.vanished = true;
  answer(acquisition, std::move(told));
  EXPECT_EQ(acquisition.next(start), Next::attempt) << "it is its turn";
}

TEST_F(RingTest, in_the_queue_of_a_fair_lock_the_pause_after_rings_for_nothing_grows_until_it_moves_up) {
  Acquisition acquisition = endless(10s);
  const auto rung = [&](std::int64_t rank) {
    acquisition.rung(start, 0);
    Answer answer = held_by("", 30s);
    answer.rank = rank;
    RingTest::answer(acquisition, std::move(answer));
    acquisition.rung(start, 0);
    return acquisition.pause_until() - start;
  };
  EXPECT_EQ(rung(3), 0ms);
  EXPECT_EQ(rung(3), 1ms);
  EXPECT_EQ(rung(3), 2ms);
  EXPECT_EQ(rung(3), 4ms);
  EXPECT_EQ(rung(2), 1ms);
}

// Else those that shared the votes would meet again.
TEST_F(RingTest, after_a_split_vote_no_bell_cuts_the_pause_short) {
  Acquisition acquisition = endless(10s);
  const auto split = [&](TimePoint now, double fraction) {
    Answer answer = held_by("a", 1h);
    answer.split = true;
    RingTest::answer(acquisition, std::move(answer), now, fraction);
    return acquisition.pause_until() - now;
  };
  EXPECT_EQ(split(start, 0), 1ms);
  EXPECT_EQ(rung_at(acquisition, start), start + 1ms);
  EXPECT_EQ(split(start + 1ms, 0.5), 3ms) << "random, and longer each time";
  answer(acquisition, held_by("a", 1h), start + 10ms);
  EXPECT_EQ(split(start + 20ms, 0), 1ms);
  EXPECT_EQ(rung_at(acquisition, start + 25ms), start + 21ms);
}

TEST_F(RingTest, a_rest_is_over_when_it_is_over) {
  Acquisition acquisition = waiting();
  acquisition.rung(start + 1ms, 0);
  acquisition.rest(start + 3ms);
  EXPECT_EQ(acquisition.pause_until(), start + 3ms);
  acquisition.rest(start + 2ms);
  EXPECT_EQ(acquisition.pause_until(), start + 3ms);
}

TEST_F(RingTest, there_is_no_rest_where_there_is_no_time_for_it) {
  Acquisition acquisition = bounded(500us);
  acquisition.rest(start + 2ms);
  EXPECT_EQ(acquisition.next(start), Next::attempt);
  acquisition.rest(start + 100us);
  EXPECT_EQ(acquisition.pause_until(), start + 100us);
}

TEST_F(RingTest, who_follows_goes_on_where_another_stood) {
  const Acquisition first = waiting(500ms);
  Acquisition second{{.wait = 300ms, .retry_for = 0s}, attempt_time, start + 100ms};
  second.follow(first.pace());
  EXPECT_EQ(second.next(start + 200ms), Next::pause);
  EXPECT_EQ(second.pause_until(), start + 400ms) << "its own wait ends before";
  EXPECT_EQ(second.next(start + 400ms), Next::held);
  EXPECT_EQ(second.verb(), Verb::acquire);
}

TEST_F(RingTest, an_outage_that_others_saw_counts_from_ones_own_beginning) {
  Acquisition first = endless(10s);
  answer(first, failure(errc::connect_failed));
  Acquisition second{{.wait = forever, .retry_for = 10s}, attempt_time, start + 4s};
  second.follow(first.pace());
  EXPECT_EQ(second.give_up(), start + 14s);
  EXPECT_EQ(first.give_up(), start + 10s);
}

}  // namespace
}  // namespace redlock::detail::acquisition_test
