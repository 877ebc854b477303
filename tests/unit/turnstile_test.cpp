#include "redlock/detail/turnstile.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "fakes.hpp"
#include "redlock/detail/place.hpp"

namespace redlock::detail::turnstile_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeBackground;
using testing::FakeClock;
using Next = Acquisition::Next;
using Place = Turnstile::Place;
using Role = Turnstile::Role;

constexpr TimePoint start = FakeClock::start;

struct TurnstileTest : ::testing::Test {
  std::shared_ptr<Lease> lease(TimePoint until = start + 30s, const std::string& name = "job") {
    auto lease = std::make_shared<Lease>();
    lease->terms.name = name;
    lease->terms.token = OwnerToken::generate();
    lease->begin(until);
    return lease;
  }
  static Acquisition acquisition(std::chrono::nanoseconds wait = forever) {
    return {{.wait = wait, .retry_for = 10s}, 2s, start};
  }
  // Makes it a head that found the name held by "a".
  void find_held(Place& place, Acquisition& mine) {
    ASSERT_EQ(place.look(mine, start), Role::head);
    for (int i = 0; i < 2; ++i) mine.answered(held_by("a"), start, start, 0.5);
    place.report(mine, {}, false);
  }
  Role look(Place& place, TimePoint now = start) {
    Acquisition unused = acquisition();
    return place.look(unused, now);
  }
  static std::optional<Failure> outcome(const Place& place) {
    Acquisition bounded = acquisition(1s);
    return place.outcome(bounded, start);
  }
  static Answer held_by(std::string holder) {
    Answer answer = std::move(testing::no(1h).answer);
    answer.holder = std::move(holder);
    answer.sent = start;
    return answer;
  }

  FakeBackground background;
  Turnstile turnstile{background};
  const Wanted wanted{.name = "job", .ttl = 30s};
};

TEST_F(TurnstileTest, the_first_is_head_and_the_others_queue) {
  Place first(turnstile, wanted, start), second(turnstile, wanted, start),
      other(turnstile, {.name = "other", .ttl = 30s}, start);
  EXPECT_EQ(look(first), Role::head);
  EXPECT_EQ(look(second), Role::queued);
  EXPECT_EQ(look(other), Role::head);
}

TEST_F(TurnstileTest, a_head_that_leaves_calls_the_next_one) {
  FakeClock clock;
  std::optional<Place> first(std::in_place, turnstile, wanted, start), second(std::in_place, turnstile, wanted, start);
  Place third(turnstile, wanted, start);
  ASSERT_EQ(look(*first), Role::head);
  first.reset();
  EXPECT_FALSE(second->wait(clock, never, -1)) << "called";
  EXPECT_EQ(clock.elapsed(), 0ns);
  EXPECT_EQ(look(*second), Role::head);
  EXPECT_EQ(look(third), Role::queued);
}

TEST_F(TurnstileTest, one_that_leaves_from_the_middle_changes_nothing_for_the_others) {
  Place first(turnstile, wanted, start);
  std::optional<Place> second(std::in_place, turnstile, wanted, start);
  std::optional<Place> third(std::in_place, turnstile, wanted, start);
  second.reset();
  EXPECT_EQ(look(first), Role::head);
  EXPECT_EQ(look(*third), Role::queued);
}

TEST_F(TurnstileTest, a_name_that_nobody_wants_has_no_entry) {
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "name " + std::to_string(i);
    const std::shared_ptr<Lease> held = lease(start + 30s, name);
    Place place(turnstile, {.name = name, .ttl = 30s}, start);
    ASSERT_EQ(look(place), Role::head);
    place.hold(turnstile, held, start);
    EXPECT_LE(turnstile.size(), 2U) << "one rests at most";
    turnstile.release(*held, i % 2 == 0, start + i * 10ms);
  }
  turnstile.release(*lease(), false, start + 1h);
  EXPECT_EQ(turnstile.size(), 0U);
}

TEST_F(TurnstileTest, is_taken_by_a_valid_holder) {
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start));
  const auto held = lease();
  turnstile.hold(held, start);
  EXPECT_TRUE(turnstile.is_taken({.name = "job"}, start));
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start + 30s)) << "the lease is over";
  EXPECT_FALSE(turnstile.is_taken({.name = "another"}, start));
  turnstile.release(*held, false, start);
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start));
}

TEST_F(TurnstileTest, who_comes_behind_a_holder_of_this_process_asks_redis_only_when_that_must_be_over) {
  turnstile.hold(lease(start + 300ms), start);
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  EXPECT_EQ(mine.next(start), Next::pause);
  EXPECT_EQ(mine.pause_until(), start + 301ms);
  EXPECT_EQ(mine.next(start + 301ms), Next::attempt);
}

TEST_F(TurnstileTest, a_holder_with_a_long_lease_is_doubted_every_second) {
  turnstile.hold(lease(), start);
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  EXPECT_EQ(mine.pause_until(), start + 1s);
}

TEST_F(TurnstileTest, a_release_rings_for_the_head) {
  FakeClock clock;
  const auto held = lease();
  turnstile.hold(held, start);
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  turnstile.release(*held, false, start + 5ms);
  EXPECT_FALSE(place.wait(clock, never, -1));
  ASSERT_EQ(place.look(mine, start + 5ms), Role::head);
  EXPECT_EQ(mine.next(start + 5ms), Next::attempt);
  EXPECT_EQ(mine.verb(), Verb::acquire) << "others may be waiting";
}

TEST_F(TurnstileTest, after_a_contended_tenure_this_client_rests) {
  const auto held = lease();
  turnstile.hold(held, start);
  std::optional<Place> place(std::in_place, turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place->look(mine, start), Role::head);
  turnstile.release(*held, true, start + 5ms);
  ASSERT_EQ(place->look(mine, start + 5ms), Role::head);
  EXPECT_GE(mine.pause_until(), start + 6ms);
  EXPECT_LE(mine.pause_until(), start + 7ms);
  place.reset();
  // Also who comes later.
  place.emplace(turnstile, wanted, start);
  Acquisition later = acquisition();
  ASSERT_EQ(place->look(later, start + 5500us), Role::head);
  EXPECT_GE(later.pause_until(), start + 6ms);
}

TEST_F(TurnstileTest, a_try_is_of_use_where_waiters_have_not_found_it_held) {
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start)) << "nothing is known yet";
  mine.answered(std::move(testing::failed(errc::connect_failed, "refused").answer), start, start, 0);
  place.report(mine, {errc::connect_failed, "refused"}, false);
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start)) << "an outage is to be told as one";
  mine.answered(held_by("a"), start, start, 0);
  place.report(mine, {}, false);
  EXPECT_TRUE(turnstile.is_taken({.name = "job"}, start));
}

// It has not unlocked yet, and nobody may spin until it does.
TEST_F(TurnstileTest, behind_a_holder_that_has_lost_its_lease_waiters_sleep) {
  const auto held = lease();
  turnstile.hold(held, start);
  Place first(turnstile, wanted, start), second(turnstile, wanted, start);
  held->lose(LeaseLost::Reason::taken);
  for (Place* each : {&first, &second}) {
    FakeClock clock;
    look(*each);
    EXPECT_FALSE(each->wait(clock, never, -1));
    EXPECT_EQ(clock.elapsed(), 1s);
  }
}

TEST_F(TurnstileTest, what_one_waiters_own_end_cut_short_is_no_failure_of_the_others) {
  Place first(turnstile, wanted, start);
  const Place second(turnstile, wanted, start);
  Acquisition mine{{.wait = 50us, .retry_for = 0s}, 2s, start};
  ASSERT_EQ(first.look(mine, start), Role::head);
  mine.answered(std::move(testing::failed(errc::timed_out, "abandoned").answer), start, start + 50us, 0);
  ASSERT_TRUE(mine.was_cut_short());
  first.report(mine, {errc::timed_out, "abandoned"}, true);
  ASSERT_TRUE(outcome(first));
  EXPECT_EQ(outcome(first)->what, "abandoned");
  EXPECT_NE(outcome(second)->what, "abandoned");
}

TEST_F(TurnstileTest, a_head_that_heard_the_bell_and_leaves_leaves_it_to_the_next) {
  std::optional<Place> first(std::in_place, turnstile, wanted, start);
  Place second(turnstile, wanted, start);
  Acquisition mine = acquisition(), next = acquisition();
  find_held(*first, mine);
  turnstile.ring("job");
  ASSERT_EQ(first->look(mine, start), Role::head);
  first.reset();
  ASSERT_EQ(second.look(next, start), Role::head);
  EXPECT_EQ(next.next(start), Next::attempt);
}

TEST_F(TurnstileTest, while_a_holder_of_this_process_is_there_the_bell_waits) {
  const auto held = lease();
  turnstile.hold(held, start);
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  turnstile.ring("job");
  ASSERT_EQ(place.look(mine, start), Role::head);
  EXPECT_EQ(mine.next(start), Next::pause);
  held->lose(LeaseLost::Reason::taken);
  ASSERT_EQ(place.look(mine, start), Role::head);
  EXPECT_EQ(mine.next(start), Next::attempt);
}

TEST_F(TurnstileTest, the_bell_rings_for_one_name_and_sticks) {
  Place job(turnstile, wanted, start), other(turnstile, {.name = "other", .ttl = 30s}, start);
  Acquisition mine = acquisition(), others = acquisition();
  ASSERT_EQ(job.look(mine, start), Role::head);
  ASSERT_EQ(other.look(others, start), Role::head);
  for (Acquisition* each : {&mine, &others}) {
    for (int i = 0; i < 2; ++i) each->answered(held_by("a"), start, start, 0.5);
    ASSERT_EQ(each->next(start + 1us), Next::pause);
  }
  turnstile.ring("job");
  turnstile.ring("nobody's");
  ASSERT_EQ(job.look(mine, start + 1us), Role::head);
  ASSERT_EQ(other.look(others, start + 1us), Role::head);
  EXPECT_EQ(mine.next(start + 1us), Next::attempt);
  EXPECT_EQ(others.next(start + 1us), Next::pause);
  turnstile.ring_all();
  ASSERT_EQ(other.look(others, start + 2us), Role::head);
  EXPECT_EQ(others.next(start + 2us), Next::attempt);
}

TEST_F(TurnstileTest, the_next_head_goes_on_where_the_last_one_stood) {
  std::optional<Place> first(std::in_place, turnstile, wanted, start);
  Place second(turnstile, wanted, start);
  Acquisition mine = acquisition(), next = acquisition();
  find_held(*first, mine);
  first.reset();
  ASSERT_EQ(second.look(next, start + 100us), Role::head);
  EXPECT_EQ(next.next(start + 100us), Next::pause) << "no attempt only because somebody else gave up";
  EXPECT_EQ(next.pause_until(), mine.pause_until());
}

TEST_F(TurnstileTest, after_a_refusal_the_next_one_tries_for_itself) {
  std::optional<Place> first(std::in_place, turnstile, wanted, start);
  Place second(turnstile, wanted, start);
  Acquisition mine = acquisition(), next = acquisition();
  ASSERT_EQ(first->look(mine, start), Role::head);
  mine.answered(std::move(testing::failed(errc::no_permission, "NOPERM").answer), start, start, 0);
  first->report(mine, {errc::no_permission, "NOPERM"}, false);
  first.reset();
  ASSERT_EQ(second.look(next, start), Role::head);
  EXPECT_EQ(next.next(start), Next::attempt);
}

TEST_F(TurnstileTest, who_never_was_head_reports_what_the_head_saw) {
  Place first(turnstile, wanted, start), second(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(first.look(mine, start), Role::head);
  ASSERT_TRUE(outcome(second));
  EXPECT_EQ(outcome(second)->code, errc::timed_out) << "nothing yet";
  mine.answered(std::move(testing::failed(errc::loading, "LOADING").answer), start, start, 0);
  first.report(mine, {errc::loading, "LOADING"}, false);
  ASSERT_TRUE(outcome(second));
  EXPECT_EQ(outcome(second)->what, "LOADING");
  mine.answered(held_by("a"), start, start, 0);
  first.report(mine, {}, false);
  EXPECT_FALSE(outcome(second));
}

// lock() has no other answer than that it holds the name.
TEST_F(TurnstileTest, a_wait_that_only_failures_end_ends_with_one_whoever_holds_the_name) {
  Place head(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(head.look(mine, start), Role::head);
  mine.answered(std::move(testing::failed(errc::loading, "LOADING").answer), start, start, 0);
  head.report(mine, {errc::loading, "LOADING"}, false);
  ASSERT_TRUE(head.outcome(mine, start + 20s));
  EXPECT_EQ(head.outcome(mine, start + 20s)->what, "LOADING");
  turnstile.hold(lease(), start);  // by a try beside the queue
  EXPECT_FALSE(head.outcome(mine, start + 20s));
  EXPECT_EQ(mine.next(start + 20s), Next::pause) << "it goes on, as one that found it held";
}

TEST_F(TurnstileTest, who_waits_behind_a_holder_of_this_process_found_it_held) {
  turnstile.hold(lease(), start);
  const Place place(turnstile, wanted, start);
  EXPECT_FALSE(outcome(place));
}

TEST_F(TurnstileTest, all_are_called_when_an_outage_begins_since_their_patience_runs) {
  FakeClock clock;
  Place first(turnstile, wanted, start), second(turnstile, wanted, start);
  Acquisition mine = acquisition(), theirs = acquisition();
  ASSERT_EQ(first.look(mine, start), Role::head);
  ASSERT_EQ(second.look(theirs, start), Role::queued);
  EXPECT_EQ(theirs.give_up(), never);
  mine.answered(std::move(testing::failed(errc::connect_failed, "refused").answer), start, start, 0);
  first.report(mine, {errc::connect_failed, "refused"}, false);
  EXPECT_FALSE(second.wait(clock, never, -1));
  EXPECT_EQ(clock.elapsed(), 0ns);
  ASSERT_EQ(second.look(theirs, start), Role::queued);
  EXPECT_EQ(theirs.give_up(), start + 10s);
}

TEST_F(TurnstileTest, another_clients_token_makes_a_tenure_contended_and_ones_own_does_not) {
  const auto held = lease();
  turnstile.hold(held, start);
  Place place(turnstile, wanted, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  mine.answered(held_by(std::string(held->terms.token.text())), start, start, 0);
  place.report(mine, {}, false);
  EXPECT_FALSE(place.is_contended());
  mine.answered(held_by("a stranger's"), start, start, 0);
  place.report(mine, {}, false);
  EXPECT_TRUE(place.is_contended());
  place.hold(turnstile, lease(), start);
  const Place next(turnstile, wanted, start);
  EXPECT_FALSE(next.is_contended()) << "it is the next tenure's to find out";
}

// ---------------------------------------------------------------------------------------------------------------------
// passing on

struct PassTest : TurnstileTest {
  PassTest() { turnstile.hold(held, start); }
  bool pass(TimePoint now = start) { return turnstile.pass(wanted, *held, grant, held->deadline(), now); }

  std::shared_ptr<Lease> held = lease();
  const Grant grant{
      .token = held->terms.token, .fence = FencingToken(7), .sent = start, .until = start + 1s, .spare_fences = 3};
};

TEST_F(PassTest, nobody_waits) { EXPECT_FALSE(pass()); }

TEST_F(PassTest, the_first_in_line_gets_the_same_token_and_the_next_fence) {
  Place first(turnstile, wanted, start), second(turnstile, wanted, start);
  ASSERT_EQ(look(first), Role::head);
  ASSERT_TRUE(pass());
  EXPECT_TRUE(turnstile.is_taken({.name = "job"}, start)) << "it is on its way";
  EXPECT_EQ(look(second), Role::queued);
  ASSERT_EQ(look(first), Role::passed);
  const Grant passed = first.take(start);
  EXPECT_EQ(passed.token, grant.token);
  EXPECT_EQ(passed.fence, FencingToken(8));
  EXPECT_EQ(passed.spare_fences, 2U);
  EXPECT_EQ(passed.passes, 1U);
  EXPECT_EQ(passed.sent, start) << "the window is counted from the acquisition";
  EXPECT_EQ(passed.until, start + 30s) << "as far as it was renewed";
  first.hold(turnstile, lease(), start);
  EXPECT_EQ(look(second), Role::head);
}

TEST_F(PassTest, comes_before_the_first_look) {
  Place place(turnstile, wanted, start);
  ASSERT_TRUE(pass());
  EXPECT_EQ(look(place), Role::passed);
}

TEST_F(PassTest, never_between_different_wishes_and_never_past_the_first_in_line) {
  for (const Wanted& other :
       {Wanted{.name = "job", .ttl = 20s}, Wanted{.name = "job", .ttl = 30s, .renewing = false},
        Wanted{.name = "job", .fence_key = "f", .ttl = 30s}, Wanted{.name = "job", .ttl = 30s, .passable = false}}) {
    Place first(turnstile, other, start), second(turnstile, wanted, start);
    EXPECT_FALSE(pass());
    EXPECT_EQ(look(first), Role::head);
  }
}

TEST_F(PassTest, never_what_somebody_else_holds) {
  const Place place(turnstile, wanted, start);
  const auto another = lease();
  EXPECT_FALSE(turnstile.pass(wanted, *another, grant, another->deadline(), start));
}

TEST_F(PassTest, what_came_too_late_leaves_one_first_in_the_queue) {
  Place place(turnstile, wanted, start);
  ASSERT_TRUE(pass());
  ASSERT_EQ(look(place), Role::passed);
  EXPECT_EQ(place.take(start + 30s).until, start + 30s);
  EXPECT_EQ(look(place), Role::head);
}

TEST_F(PassTest, one_that_leaves_hands_it_to_the_next) {
  std::optional<Place> first(std::in_place, turnstile, wanted, start);
  Place second(turnstile, wanted, start);
  ASSERT_TRUE(pass());
  first.reset();
  ASSERT_EQ(look(second), Role::passed);
  EXPECT_EQ(second.take(start).token, grant.token);
  EXPECT_TRUE(background.leftovers.empty());
}

TEST_F(PassTest, one_that_leaves_with_nobody_to_hand_it_to_gives_it_back_to_redis) {
  std::optional<Place> first(std::in_place, turnstile, wanted, start);
  Place second(turnstile, {.name = "job", .ttl = 20s}, start);
  ASSERT_TRUE(pass());
  first.reset();
  ASSERT_EQ(background.leftovers.size(), 1U);
  EXPECT_EQ(background.leftovers[0].name, "job");
  EXPECT_EQ(background.leftovers[0].token, grant.token.text());
  EXPECT_EQ(look(second), Role::head);
}

// Its attempt was granted by Redis at the same moment, because the key had vanished.
TEST_F(PassTest, one_that_Redis_grants_the_name_to_keeps_nothing_of_what_was_passed_to_it) {
  std::optional<Place> place(std::in_place, turnstile, wanted, start);
  ASSERT_EQ(look(*place), Role::head);
  ASSERT_TRUE(pass());
  place->hold(turnstile, lease(), start);
  place.emplace(turnstile, Wanted{.name = "another", .ttl = 30s}, start);
  EXPECT_EQ(look(*place), Role::head);
  EXPECT_TRUE(background.leftovers.empty());
}

TEST_F(PassTest, ends_the_lease_before_the_next_one_begins) {
  const Place place(turnstile, wanted, start);
  ASSERT_TRUE(turnstile.pass(wanted, *held, grant, held->deadline(), start));
  EXPECT_FALSE(held->is_valid(start));
}

TEST_F(PassTest, one_that_took_it_and_could_not_hold_it_gives_it_back) {
  std::optional<Place> place(std::in_place, turnstile, wanted, start);
  ASSERT_TRUE(pass());
  ASSERT_EQ(look(*place), Role::passed);
  EXPECT_EQ(place->take(start).token, grant.token);
  place.reset();
  ASSERT_EQ(background.leftovers.size(), 1U);
  EXPECT_FALSE(turnstile.is_taken({.name = "job"}, start));
}

TEST_F(PassTest, without_a_block_of_fences_there_is_none) {
  const Grant plain{.token = held->terms.token};
  EXPECT_EQ(plain.passed_on(start).fence, FencingToken());
}

TEST_F(PassTest, the_usual_length_of_a_tenure_is_an_average) {
  Gate gate;
  EXPECT_EQ(gate.usual_hold, Gate::longest_hold);
  gate.set_holder(held, start);
  gate.end_hold(start + 8us);
  EXPECT_EQ(gate.usual_hold, 8us);
  gate.set_holder(held, start);
  gate.end_hold(start + 16us);
  EXPECT_EQ(gate.usual_hold, 9us);
}

// ---------------------------------------------------------------------------------------------------------------------
// fair locks: the queue is in Redis

struct FairPlaceTest : TurnstileTest {
  const Wanted fair{.name = "job", .queue_key = "{job}:queue", .ttl = 30s, .passable = false};
};

TEST_F(FairPlaceTest, each_is_its_own_head_and_has_an_id) {
  Place first(turnstile, fair, start), second(turnstile, fair, start), other(turnstile, wanted, start);
  EXPECT_EQ(look(first), Role::head);
  EXPECT_EQ(look(second), Role::head);
  EXPECT_EQ(first.id().size(), OwnerToken::length);
  EXPECT_NE(first.id(), second.id());
  EXPECT_TRUE(other.id().empty());
  EXPECT_TRUE(Place().id().empty());
}

TEST_F(FairPlaceTest, hears_of_its_own_key_and_as_the_next_in_line_of_the_name) {
  Place place(turnstile, fair, start);
  Acquisition mine = acquisition();
  ASSERT_EQ(place.look(mine, start), Role::head);
  const auto stand_behind = [&](std::int64_t rank) {
    Answer answer = held_by("a");
    answer.rank = rank;
    mine.answered(answer, start, start, 0.5);
    place.report(mine, {}, false);
  };
  stand_behind(2);
  const auto rung_by = [&](const std::string& key) {
    turnstile.ring(key);
    Acquisition copy = mine;
    EXPECT_EQ(place.look(copy, start), Role::head);
    return copy.next(start) == Next::attempt;
  };
  EXPECT_FALSE(rung_by("job"));
  EXPECT_TRUE(rung_by("{job}:queue:" + std::string(place.id())));
  turnstile.ring("job");
  stand_behind(0);
  EXPECT_TRUE(rung_by("another")) << "it changed while the attempt was under way";
  EXPECT_FALSE(rung_by("another"));
  EXPECT_TRUE(rung_by("job"));
}

TEST_F(FairPlaceTest, one_that_leaves_takes_its_place_out_of_the_queue_and_leaves_no_entry) {
  std::optional<Place> place(std::in_place, turnstile, fair, start);
  EXPECT_EQ(turnstile.size(), 2U);
  const std::string id(place->id());
  place.reset();
  EXPECT_EQ(turnstile.size(), 0U);
  ASSERT_EQ(background.leftovers.size(), 1U);
  EXPECT_EQ(background.leftovers[0].name, "job");
  EXPECT_EQ(background.leftovers[0].queue_key, "{job}:queue");
  EXPECT_EQ(background.leftovers[0].place, id);
  turnstile.ring("job");
}

TEST_F(FairPlaceTest, one_that_holds_left_the_queue_by_that) {
  Place place(turnstile, fair, start);
  const auto held = lease();
  place.hold(turnstile, held, start);
  EXPECT_TRUE(background.leftovers.empty());
  EXPECT_TRUE(turnstile.is_taken({.name = "job"}, start));
  EXPECT_EQ(turnstile.size(), 1U);
  turnstile.release(*held, false, start);
  EXPECT_EQ(turnstile.size(), 0U);
}

// ---------------------------------------------------------------------------------------------------------------------
// staying awake

TEST_F(PassTest, who_is_next_behind_short_tenures_stays_awake_for_a_moment) {
  Gate gate;
  gate.waiters.emplace_back();
  gate.holder = held;
  EXPECT_EQ(gate.stay_awake(start), start) << "nothing is known yet";
  gate.usual_hold = 5us;
  EXPECT_EQ(gate.stay_awake(start), start + 250us);
  gate.usual_hold = 250us;
  EXPECT_EQ(gate.stay_awake(start), start) << "too long for that";
  gate.usual_hold = 5us;
  for (int i = 0; i < 16; ++i) gate.waiters.emplace_back();
  EXPECT_EQ(gate.stay_awake(start), start) << "too many for that";
  gate.waiters.resize(1);
  gate.holder = nullptr;
  EXPECT_EQ(gate.stay_awake(start), start) << "held elsewhere";
}

TEST_F(TurnstileTest, who_wants_several_names_hears_of_each_and_stands_in_nobodys_way) {
  FakeClock clock;
  Place both(turnstile, {.name = "a, b", .keys = "1:a1:b", .ttl = 30s}, start);
  Place alone(turnstile, {.name = "a", .ttl = 30s}, start);
  EXPECT_EQ(look(both), Role::head);
  EXPECT_EQ(look(alone), Role::head);
  for (const char* each : {"a", "b"}) {
    turnstile.ring(each);
    EXPECT_FALSE(both.wait(clock, never, -1));
    EXPECT_EQ(clock.elapsed(), 0ns) << "called";
  }
  both.leave();
  EXPECT_EQ(turnstile.size(), 1U) << "that of the other one";
}

TEST_F(TurnstileTest, several_names_are_taken_and_released_together) {
  const auto held = lease(start + 30s, "a, b");
  held->terms.keys = "1:a1:b";
  turnstile.hold(held, start);
  for (const char* each : {"a", "b"}) EXPECT_TRUE(turnstile.is_taken({.name = each}, start));
  EXPECT_TRUE(turnstile.is_taken({.name = "b, c", .keys = "1:b1:c"}, start));
  EXPECT_FALSE(turnstile.is_taken({.name = "c"}, start));
  turnstile.release(*held, false, start);
  EXPECT_FALSE(turnstile.is_taken({.name = "b, c", .keys = "1:b1:c"}, start));
  EXPECT_EQ(turnstile.size(), 0U);
}

TEST_F(TurnstileTest, readers_and_permits_keep_nobody_out) {
  for (const Mode mode : {Mode::reader, Mode::permit, Mode::writer}) {
    const auto held = lease();
    held->terms.mode = mode;
    turnstile.hold(held, start);
    EXPECT_EQ(turnstile.is_taken({.name = "job"}, start), mode == Mode::writer);
    turnstile.release(*held, false, start);
  }
}

}  // namespace
}  // namespace redlock::detail::turnstile_test
