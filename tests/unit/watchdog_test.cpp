#include "redlock/detail/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "fakes.hpp"

namespace redlock::detail::watchdog_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeClock;
using testing::FakeStore;
using testing::Scripted;
using testing::Sent;
using Reason = LeaseLost::Reason;

constexpr auto start = FakeClock::start;

struct Event {
  nanoseconds at;
  std::string what;
  bool operator==(const Event&) const = default;
};

void PrintTo(const Event& event, std::ostream* out) { *out << event.at.count() << " ns: " << event.what; }

using Events = std::vector<Event>;

class RecordingListener final : public Watchdog::Listener {
 public:
  explicit RecordingListener(FakeClock& clock) : clock_(clock) {}

  void renewed(std::size_t count) noexcept override { add("renewed " + std::to_string(count)); }
  void renewal_failed(const std::shared_ptr<Lease>& lease, const Failure& failure) noexcept override {
    add("failed " + lease->terms.name + ": " + failure.what);
  }
  void lost(const std::shared_ptr<Lease>& lease, Reason reason) noexcept override {
    lease->lose(reason);
    add((reason == Reason::taken ? "taken " : "expired ") + lease->terms.name);
    on_lost(lease);
  }

  Events events;
  std::function<void(const std::shared_ptr<Lease>&)> on_lost = [](const std::shared_ptr<Lease>&) {};

 private:
  void add(std::string what) { events.push_back({clock_.elapsed(), std::move(what)}); }

  FakeClock& clock_;
};

struct WatchdogTest : ::testing::Test {
  std::shared_ptr<Lease> lease(const std::string& name, std::chrono::milliseconds ttl = 30s, bool renewing = true) {
    auto lease = std::make_shared<Lease>();
    lease->terms = {.name = name,
                    .fence_key = {},
                    .token = OwnerToken::generate(),
                    .ttl = ttl,
                    .renewing = renewing,
                    .on_lost = {}};
    lease->begin(valid_until(clock.now(), ttl));
    return lease;
  }

  std::shared_ptr<Lease> watched(const std::string& name, std::chrono::milliseconds ttl = 30s, bool renewing = true) {
    std::shared_ptr<Lease> fresh = lease(name, ttl, renewing);
    static_cast<void>(watchdog.add(fresh, clock.now()));
    return fresh;
  }

  TimePoint wake() {
    PollSet files;
    return watchdog.watch(files);
  }

  // What the service thread does until then.
  void run_until(nanoseconds time) {
    watchdog.run(clock.now());
    for (int idle = 0; wake() <= start + time;) {
      idle = wake() <= clock.now() ? idle + 1 : 0;
      ASSERT_LT(idle, 100) << "the service thread spins";
      clock.move_to(wake());
      watchdog.run(clock.now());
    }
    clock.move_to(start + time);
  }

  std::vector<nanoseconds> submission_times() const {
    std::vector<nanoseconds> times;
    for (const auto& each : store.submissions) times.push_back(each.at);
    return times;
  }

  FakeClock clock;
  FakeStore store{clock};
  RecordingListener listener{clock};
  Watchdog watchdog{store, clock, listener};
};

TEST_F(WatchdogTest, with_nothing_to_watch_sleeps) {
  watchdog.run(clock.now());
  EXPECT_EQ(wake(), TimePoint::max());
  EXPECT_TRUE(watchdog.is_done());
}

TEST_F(WatchdogTest, wakes_the_service_only_for_what_is_due_before_it_comes_by_itself) {
  EXPECT_TRUE(watchdog.add(lease("a", 30s), start));
  EXPECT_FALSE(watchdog.add(lease("b", 60s), start));
  EXPECT_TRUE(watchdog.add(lease("c", 3s), start));
  EXPECT_EQ(wake(), start + 1s);
}

TEST_F(WatchdogTest, takes_no_notice_of_a_lease_that_it_watches) {
  const auto job = watched("job");
  EXPECT_FALSE(watchdog.add(job, start + 5s));
  EXPECT_EQ(wake(), start + 10s);
  EXPECT_TRUE(watchdog.remove(*job));
  EXPECT_EQ(wake(), start + 10s) << "it was there once; the service comes as it was told to";
  clock.move_to(start + 10s);
  EXPECT_EQ(wake(), TimePoint::max());
}

// Else a lock that is taken again and again would wake the service each time.
TEST_F(WatchdogTest, a_lease_that_is_due_later_than_the_service_comes_anyway_does_not_wake_it) {
  const auto job = watched("job");
  EXPECT_EQ(wake(), start + 10s);
  EXPECT_TRUE(watchdog.remove(*job));
  EXPECT_EQ(wake(), start + 10s);
  EXPECT_FALSE(watchdog.add(job, start + 1s));
}

TEST_F(WatchdogTest, renews_every_third_of_the_ttl) {
  const auto job = watched("job");
  run_until(65s);
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 20s, 30s, 40s, 50s, 60s}));
  EXPECT_EQ(job->deadline(), start + 60s + 29'698ms);
  EXPECT_EQ(listener.events.size(), 6U);
  EXPECT_EQ(listener.events.front(), (Event{10s, "renewed 1"}));
}

TEST_F(WatchdogTest, a_renewal_names_the_lease_and_has_a_quarter_of_its_ttl) {
  const auto job = watched("job");
  run_until(10s);
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(store.submissions[0].lane, Lane::service);
  EXPECT_EQ(store.submissions[0].deadline, 17'500ms);
  ASSERT_EQ(store.submissions[0].requests.size(), 1U);
  const Sent& sent = store.submissions[0].requests[0];
  EXPECT_EQ(sent.verb, Verb::renew);
  EXPECT_EQ(sent.name, "job");
  EXPECT_EQ(sent.token, job->terms.token.text());
  EXPECT_EQ(sent.ttl, 30s);
}

TEST_F(WatchdogTest, the_shortest_ttl_of_a_batch_bounds_it) {
  const auto a = watched("a", 30s);
  clock.move_to(start + 9s);
  const auto b = watched("b", 3s);
  run_until(10s);
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(store.submissions[0].requests.size(), 2U);
  EXPECT_EQ(store.submissions[0].deadline, 10'750ms);
}

TEST_F(WatchdogTest, validity_counts_from_when_the_renewal_was_sent) {
  const auto job = watched("job");
  store.script = [](const Sent&) { return testing::yes().in(4s); };
  run_until(14s);
  EXPECT_EQ(job->deadline(), start + 10s + 29'698ms);
  EXPECT_EQ(listener.events, (Events{{14s, "renewed 1"}}));
  EXPECT_EQ(wake(), start + 20s) << "and so does the next renewal";
}

TEST_F(WatchdogTest, a_no_is_a_loss_and_the_last_renewal) {
  const auto job = watched("job");
  store.script = [](const Sent&) { return testing::no(); };
  run_until(100s);
  EXPECT_EQ(listener.events, (Events{{10s, "taken job"}}));
  EXPECT_FALSE(job->is_valid(start));
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(wake(), TimePoint::max());
}

TEST_F(WatchdogTest, a_failure_is_tried_again_ever_more_slowly_until_the_deadline) {
  const auto job = watched("job");
  store.script = [](const Sent&) { return testing::failed(errc::loading, "LOADING"); };
  run_until(100s);
  const std::vector<nanoseconds> expected = {10s,      10'300ms, 10'900ms, 12'100ms, 14'500ms,
                                             17'500ms, 20'500ms, 23'500ms, 26'500ms, 29'500ms};
  EXPECT_EQ(submission_times(), expected);
  ASSERT_EQ(listener.events.size(), 11U);
  EXPECT_EQ(listener.events[0], (Event{10s, "failed job: redis://fake: LOADING"}));
  EXPECT_EQ(listener.events[9], (Event{29'500ms, "failed job: redis://fake: LOADING"}));
  EXPECT_EQ(listener.events[10], (Event{29'698ms, "expired job"}));
  EXPECT_TRUE(job->is_lost());
}

TEST_F(WatchdogTest, whatever_redis_refuses_a_renewal_with_is_no_loss_before_the_deadline) {
  for (const errc code : {errc::unauthenticated, errc::no_permission, errc::wrong_type, errc::out_of_memory,
                          errc::misconfigured, errc::no_replicas, errc::server_error, errc::protocol_error}) {
    const auto job = watched("job");
    store.script = [code](const Sent&) { return testing::failed(code, "refused"); };
    const nanoseconds begun = clock.elapsed();
    run_until(begun + 29'698ms - 1ns);
    EXPECT_TRUE(job->is_valid(clock.now()));
    run_until(begun + 29'698ms);
    EXPECT_EQ(listener.events.back(), (Event{begun + 29'698ms, "expired job"}));
  }
}

TEST_F(WatchdogTest, an_answer_after_failures_starts_the_pauses_anew) {
  const auto job = watched("job");
  int asked = 0;
  store.script = [&](const Sent&) {
    return ++asked % 4 != 0 ? testing::failed(errc::connection_lost, "gone") : testing::yes();
  };
  run_until(23s);
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 10'300ms, 10'900ms, 12'100ms, 22'100ms, 22'400ms, 23s}));
  EXPECT_EQ(job->deadline(), start + 12'100ms + 29'698ms);
}

TEST_F(WatchdogTest, a_short_ttl_is_tried_again_every_millisecond) {
  const auto job = watched("job", 10ms);
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "refused"); };
  run_until(1s);
  EXPECT_EQ(submission_times(),
            (std::vector<nanoseconds>{3'333'333ns, 4'333'333ns, 5'333'333ns, 6'333'333ns, 7'333'333ns}));
  EXPECT_EQ(listener.events.back(), (Event{7'900us, "expired job"}));
}

TEST_F(WatchdogTest, silence_is_a_failure_at_the_end_of_the_operation) {
  const auto job = watched("job");
  store.script = [](const Sent&) { return testing::silence(); };
  run_until(100s);
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 17'800ms, 25'900ms}));
  EXPECT_EQ(listener.events, (Events{{17'500ms, "failed job: redis://fake: no answer in time"},
                                     {25'300ms, "failed job: redis://fake: no answer in time"},
                                     {29'698ms, "expired job"}}));
}

TEST_F(WatchdogTest, a_yes_in_the_last_nanosecond_counts) {
  const auto job = watched("job");
  store.punctual = false;
  store.script = [](const Sent&) { return testing::yes().in(19'698ms - 1ns); };
  run_until(29'698ms);
  EXPECT_EQ(listener.events, (Events{{29'698ms - 1ns, "renewed 1"}}));
  EXPECT_EQ(job->deadline(), start + 39'698ms);
}

TEST_F(WatchdogTest, a_yes_at_the_deadline_is_too_late) {
  const auto job = watched("job");
  store.punctual = false;
  store.script = [](const Sent&) { return testing::yes().in(19'698ms); };
  run_until(100s);
  EXPECT_EQ(listener.events, (Events{{29'698ms, "expired job"}}));
  EXPECT_FALSE(job->is_valid(start));
}

TEST_F(WatchdogTest, a_late_yes_does_not_revive) {
  const auto job = watched("job");
  store.punctual = false;
  store.script = [](const Sent&) { return testing::yes().in(30s); };
  run_until(100s);
  EXPECT_EQ(listener.events, (Events{{29'698ms, "expired job"}}));
  EXPECT_EQ(job->deadline(), TimePoint::min());
  EXPECT_EQ(store.submissions.size(), 1U);
}

TEST_F(WatchdogTest, a_yes_for_a_renewal_that_was_sent_too_long_ago_moves_nothing) {
  const auto job = watched("job");
  store.punctual = false;
  store.script = [this](const Sent&) {
    Scripted scripted = testing::yes().in(10s);
    scripted.answer.sent = clock.now() - 20s;
    return scripted;
  };
  run_until(20s);
  EXPECT_EQ(job->deadline(), start + 29'698ms) << "it never shortens";
}

TEST_F(WatchdogTest, a_lease_that_nobody_renews_is_watched_to_its_deadline) {
  const auto job = watched("job", 30s, false);
  EXPECT_EQ(wake(), start + 29'698ms);
  run_until(100s);
  EXPECT_TRUE(store.submissions.empty());
  EXPECT_EQ(listener.events, (Events{{29'698ms, "expired job"}}));
}

TEST_F(WatchdogTest, a_lease_that_its_holder_renews_is_watched_to_its_new_deadline) {
  const auto job = watched("job", 30s, false);
  run_until(20s);
  EXPECT_TRUE(job->extend(start + 45s, clock.now()));
  run_until(100s);
  EXPECT_TRUE(store.submissions.empty());
  EXPECT_EQ(listener.events, (Events{{45s, "expired job"}}));
}

TEST_F(WatchdogTest, a_lease_that_is_over_when_it_is_added_is_lost_at_once) {
  const auto job = lease("job");
  clock.move_to(start + 30s);
  EXPECT_FALSE(job->is_valid(clock.now()));
  EXPECT_TRUE(watchdog.add(job, clock.now()));
  run_until(30s);
  EXPECT_EQ(listener.events, (Events{{30s, "expired job"}}));
}

// One that was passed on, or adopted.
TEST_F(WatchdogTest, a_lease_that_was_granted_long_ago_is_renewed_at_once) {
  const auto job = lease("job");
  clock.move_to(start + 25s);
  EXPECT_TRUE(watchdog.add(job, clock.now()));
  EXPECT_EQ(wake(), start + 25s);
}

TEST_F(WatchdogTest, a_removed_lease_is_left_alone) {
  const auto job = watched("job");
  EXPECT_TRUE(watchdog.remove(*job));
  EXPECT_TRUE(watchdog.remove(*job)) << "again does no harm";
  run_until(100s);
  EXPECT_TRUE(listener.events.empty());
  EXPECT_TRUE(store.submissions.empty());
  EXPECT_EQ(job.use_count(), 1);
}

TEST_F(WatchdogTest, what_a_renewal_says_of_a_lease_removed_meanwhile_is_ignored) {
  for (const bool granted : {false, true}) {
    store.script = [granted](const Sent&) { return (granted ? testing::yes() : testing::no()).in(1s); };
    const auto job = watched("job");
    const nanoseconds begun = clock.elapsed();
    run_until(begun + 10s);
    EXPECT_FALSE(watchdog.remove(*job)) << "its renewal is under way: not to be used again";
    job->end();
    run_until(begun + 50s);
    EXPECT_TRUE(listener.events.empty());
    EXPECT_FALSE(job->is_lost());
    EXPECT_EQ(job->deadline(), TimePoint::min());
    EXPECT_TRUE(watchdog.remove(*job)) << "it is over";
    EXPECT_EQ(job.use_count(), 1);
  }
  EXPECT_EQ(store.submissions.size(), 2U);
}

TEST_F(WatchdogTest, what_is_due_together_goes_together_up_to_256) {
  std::vector<std::shared_ptr<Lease>> leases;
  for (int i = 0; i < 600; ++i) leases.push_back(watched(std::to_string(i)));
  run_until(10s);
  ASSERT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[0].requests.size(), 256U);
  EXPECT_EQ(store.submissions[1].requests.size(), 256U);
  EXPECT_EQ(store.submissions[2].requests.size(), 88U);
  EXPECT_EQ(listener.events, (Events{{10s, "renewed 256"}, {10s, "renewed 256"}, {10s, "renewed 88"}}));
  for (const auto& each : leases) EXPECT_EQ(each->deadline(), start + 39'698ms);
}

TEST_F(WatchdogTest, each_lease_of_a_batch_has_its_own_answer) {
  const auto yes = watched("yes"), no = watched("no"), failed = watched("failed");
  store.script = [](const Sent& sent) {
    if (sent.name == "yes") return testing::yes();
    return sent.name == "no" ? testing::no() : testing::failed(errc::no_permission, "NOPERM");
  };
  run_until(10s);
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(yes->deadline(), start + 39'698ms);
  EXPECT_TRUE(no->is_lost());
  EXPECT_EQ(failed->deadline(), start + 29'698ms);
  EXPECT_EQ(listener.events.size(), 3U);
}

TEST_F(WatchdogTest, one_batch_that_is_stuck_does_not_stop_the_next) {
  const auto stuck = watched("stuck");
  clock.move_to(start + 2s);
  const auto other = watched("other");
  store.script = [](const Sent& sent) { return sent.name == "stuck" ? testing::silence() : testing::yes(); };
  run_until(12s);
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 12s}));
  EXPECT_EQ(listener.events, (Events{{12s, "renewed 1"}}));
  EXPECT_EQ(other->deadline(), start + 12s + 29'698ms);
}

TEST_F(WatchdogTest, a_lease_whose_renewal_is_stuck_is_not_renewed_twice_at_once_and_is_lost_at_its_deadline) {
  const auto job = watched("job");
  store.punctual = false;
  store.script = [](const Sent&) { return testing::yes().in(1h); };
  run_until(100s);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(listener.events, (Events{{29'698ms, "expired job"}}));
}

TEST_F(WatchdogTest, four_renewals_at_most_are_under_way) {
  std::vector<std::shared_ptr<Lease>> leases;
  for (int i = 0; i < 6; ++i) leases.push_back(watched(std::to_string(i), 30s + i * 1200ms));
  store.script = [](const Sent&) { return testing::silence(); };
  for (int i = 0; i < 6; ++i) {
    clock.move_to(start + 10s + i * 400ms);
    watchdog.run(clock.now());
  }
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 10'400ms, 10'800ms, 11'200ms}));
}

TEST_F(WatchdogTest, the_holder_that_looks_first_finds_the_loss_before_the_watchdog_does) {
  const auto job = watched("job", 30s, false);
  clock.move_to(start + 29'698ms);
  EXPECT_FALSE(job->is_valid(clock.now()));
  run_until(30s);
  EXPECT_EQ(listener.events, (Events{{29'698ms, "expired job"}}));
}

// Four renewals of leases with a long ttl hang, as they do while a server stands still.
struct WatchdogInAnOutage : WatchdogTest {
  WatchdogInAnOutage() {
    store.script = [](const Sent&) { return testing::silence(); };
    for (int i = 0; i < 4; ++i) leases.push_back(watched("long " + std::to_string(i), 300s + i * 12s));
    for (int i = 0; i < 4; ++i) {
      clock.move_to(start + 100s + i * 4s);
      watchdog.run(clock.now());
    }
    leases.push_back(watched("short", 3s));
  }
  std::vector<std::shared_ptr<Lease>> leases;
};

TEST_F(WatchdogInAnOutage, four_renewals_hang) {
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{100s, 104s, 108s, 112s}));
}

TEST_F(WatchdogInAnOutage, a_lease_is_lost_at_its_deadline_all_the_same) {
  clock.move_to(start + 112s + 2'968ms);
  watchdog.run(clock.now());
  EXPECT_EQ(listener.events, (Events{{112s + 2'968ms, "expired short"}}));
}

TEST_F(WatchdogInAnOutage, the_service_thread_sleeps_though_a_fifth_is_due) {
  clock.move_to(start + 113s);
  watchdog.run(clock.now());
  EXPECT_GT(wake(), clock.now());
}

TEST_F(WatchdogTest, what_is_due_soon_goes_along_with_what_is_due) {
  const auto first = watched("first");
  clock.move_to(start + 300ms);
  const auto soon = watched("soon");
  clock.move_to(start + 301ms);
  const auto later = watched("later");
  run_until(10'301ms);
  ASSERT_EQ(store.submissions.size(), 2U);
  EXPECT_EQ(store.submissions[0].requests.size(), 2U) << "up to a hundredth of the ttl early";
  EXPECT_EQ(submission_times(), (std::vector<nanoseconds>{10s, 10'301ms}));
}

TEST_F(WatchdogTest, a_renewal_that_could_not_be_submitted_stays_due) {
  const auto job = watched("job");
  bool short_of_memory = true;
  store.before_submit = [&] {
    if (std::exchange(short_of_memory, false)) throw std::bad_alloc();
  };
  run_until(29'697ms);
  EXPECT_FALSE(store.submissions.empty()) << "it was never asked for again";
}

TEST_F(WatchdogTest, a_lease_whose_loss_is_on_its_way_to_the_listener_is_not_free_for_another_tenure) {
  const auto a = watched("a", 30s, false), b = watched("b", 30s, false);
  bool first = true, reusable = false;
  listener.on_lost = [&](const std::shared_ptr<Lease>& lost) {
    if (std::exchange(first, false)) reusable = watchdog.remove(lost == a ? *b : *a);
  };
  run_until(30s);
  EXPECT_EQ(listener.events.size(), 2U) << "the other one is told of all the same";
  EXPECT_FALSE(reusable);
}

}  // namespace
}  // namespace redlock::detail::watchdog_test
