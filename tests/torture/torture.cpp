// Tortures locks of all kinds, and says whether anything was wrong: see --help.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "torture/broken.hpp"
#include "torture/crew.hpp"
#include "torture/nemesis.hpp"
#include "torture/setup.hpp"
#include "torture/verdict.hpp"

namespace redlock::torture {
namespace {

struct Options {
  double minutes = 3;
  std::uint64_t seed = 1;
  std::string setup = "all", broken = "nothing", folder = "torture";
};

constexpr Time second = 1'000'000;
constexpr Time faulty = 12 * second, settling = 6 * second, quiet = 10 * second;

// The keys of locks and, with `queues`, what stands beside them; counters of fencing tokens stay.
Findings keys_left(Setup& setup, bool queues) {
  Findings found;
  for (std::size_t i = 0; i < setup.servers(); ++i) {
    for (const testing::Value& key : setup.server(i).command({"KEYS", "*"}).elements) {
      if (!key.text.ends_with(":fence") && (queues || !key.text.starts_with('{'))) found.push_back(key.text);
    }
  }
  return found;
}

// After all workers are gone.
void judge_keys(Setup& setup, Judge& judge) {
  Findings endless;
  const Findings all = keys_left(setup, true);
  for (std::size_t i = 0; i < setup.servers(); ++i) {
    for (const std::string& key : all) {
      if (setup.server(i).pttl(key) == -1) endless.push_back(key);
    }
  }
  const auto left_after = [&](std::chrono::milliseconds limit, bool queues) {
    Findings left;
    (void)testing::eventually([&] { return (left = keys_left(setup, queues)).empty(); }, limit);
    return left;
  };
  Findings left = left_after(std::chrono::milliseconds(longest_ttl / 1000 + 2000), false);
  if (left.empty()) left = left_after(std::chrono::seconds(10), true);
  judge.judge_keys(endless, left);
}

// A run as its seed draws it.
struct Plan {
  std::string setup;
  std::uint64_t seed = 0;
  Nemesis::Licence licence;
  int workers = 0;
  std::uint64_t nemesis = 0;  // its seed
  bool is_broken = false;

  Plan(const Options& options, const std::string& setup_name, std::uint64_t number)
      : setup(setup_name), seed(number), is_broken(options.broken != "nothing") {
    const std::string words = setup + std::to_string(seed);
    std::seed_seq mixed(words.begin(), words.end());
    std::mt19937_64 random(mixed);
    const auto chance = [&](double probability) {
      return std::uniform_real_distribution<>(0, 1)(random) < probability;
    };
    licence.may_lose_data = setup == "sentinel" || (!is_broken && chance(0.3));
    licence.has_clocks = licence.may_lose_data && setup != "sentinel" && chance(0.5);
    licence.keeps_on_disk = !licence.may_lose_data && options.broken != "no-grace" && chance(0.5);
    licence.workers_only = options.broken == "no-fence" || options.broken == "re-create";  // there it shows
    workers = std::uniform_int_distribution<int>(4, 16)(random);
    nemesis = random();
  }

  std::string text() const {
    const char* data = licence.may_lose_data ? ", data lost" : licence.keeps_on_disk ? ", data on disk" : "";
    return setup + " seed " + std::to_string(seed) + ": " + std::to_string(workers) + " workers" + data;
  }
};

// Half a minute, with servers of its own.
Verdict run(const Options& options, const Plan& plan) {
  const std::string folder = options.folder + "/" + plan.setup + "." + std::to_string(plan.seed);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  Setup setup(plan.setup, plan.licence.keeps_on_disk, plan.licence.has_clocks);
  Crew crew(setup, {.program = std::string(REDLOCK_TEST_PROGRAMS) + "/torture_worker",
                    .folder = folder,
                    .broken = options.broken,
                    .seed = plan.seed});
  for (int i = 0; i < plan.workers; ++i) crew.hire();
  Nemesis nemesis(setup, crew, plan.nemesis, plan.licence);
  nemesis.run(now() + faulty);
  if (!testing::eventually([&] { return setup.has_master(); }, std::chrono::seconds(60)))
    throw std::runtime_error("sentinels do not agree upon a master");
  const Time end_of_faults = now();
  if (!plan.is_broken) std::this_thread::sleep_for(std::chrono::microseconds(settling + quiet));
  const Period calm{end_of_faults + settling, now()};

  const History history = crew.finish();
  Judge judge(history);
  judge.judge_fences();
  judge.judge_store(folder);
  judge.judge_failures(calm);
  judge.judge_times(calm, crew.stops());
  judge.judge_leftovers();
  if (!plan.licence.may_lose_data) judge.judge_overlaps();
  judge_keys(setup, judge);
  judge.add_faults(nemesis.counts());
  if (judge.verdict().findings.empty()) std::filesystem::remove_all(folder);
  return judge.verdict();
}

void print_findings(const Verdict& verdict) {
  for (std::size_t i = 0; i < std::min<std::size_t>(verdict.findings.size(), 10); ++i)
    std::printf("  %s\n", verdict.findings[i].c_str());
  if (verdict.findings.size() > 10) std::printf("  and %zu more\n", verdict.findings.size() - 10);
}

void print_table(const std::map<std::string, Verdict>& verdicts) {
  std::printf("\n%-8s %5s %9s %7s %12s %12s %9s %7s %6s %7s %5s %6s %11s\n", "", "runs", "locks", "faults",
              "longest idle", "latest", "overlaps", "tokens", "stale", "failed", "keys", "leaks", "bytes left");
  std::map<std::string, int> faults;
  for (const auto& [name, all] : verdicts) {
    int sum = 0;
    for (const auto& [fault, count] : all.faults) {
      faults[fault] += count;
      sum += count;
    }
    std::printf("%-8s %5zu %9zu %7d %9lld ms %9lld ms %9zu %7zu %6zu %7zu %5zu %6zu %11ld\n", name.c_str(), all.runs,
                all.granted, sum, static_cast<long long>(all.idle / 1000), static_cast<long long>(all.late / 1000),
                all.overlaps, all.wrong_fences, all.stale_writes, all.failures, all.keys, all.leaks, all.bytes);
  }
  std::printf("\nfaults:");
  const char* between = " ";
  for (const auto& [name, count] : faults) {
    std::printf("%s%s %d", between, name.c_str(), count);
    between = ", ";
  }
  std::printf("\n");
}

// Whether what was found is what is broken.
bool is_caught(const std::string& broken, const Verdict& verdict) {
  if (broken == "no-fence") return verdict.stale_writes > 0;
  if (broken == "no-ttl") return verdict.keys > 0;
  if (broken == "leak") return verdict.leaks > 0;
  return verdict.overlaps > 0;
}

// True: nothing is wrong, or what is broken was found as what it is.
bool run_all(const Options& options) {
  std::vector<std::string> setups(setup_names.begin(), setup_names.end());
  if (options.setup != "all") setups = {options.setup};
  const bool is_broken = options.broken != "nothing";
  const Time end = now() + static_cast<Time>(options.minutes * 60 * second);
  std::map<std::string, Verdict> verdicts;
  bool found = false;
  std::uint64_t seed = options.seed;
  do {
    for (const std::string& setup : setups) {
      const Plan plan(options, setup, seed);
      const Verdict verdict = run(options, plan);
      std::printf("%s, %zu locks, %s\n", plan.text().c_str(), verdict.granted,
                  verdict.findings.empty() ? "fine" : "WRONG");
      print_findings(verdict);
      std::fflush(stdout);
      found = found || (is_broken ? is_caught(options.broken, verdict) : !verdict.findings.empty());
      verdicts[setup].add(verdict);
    }
    ++seed;
  } while (now() < end && !(is_broken && found));
  print_table(verdicts);
  return found == is_broken;
}

}  // namespace
}  // namespace redlock::torture

int main(int count, char** words) {
  using namespace redlock::torture;
  Options options;
  CLI::App app{"Workers take locks while servers, workers and networks fail. Nothing may be wrong then."};
  app.add_option("--minutes", options.minutes, "for how long at least (3)");
  app.add_option("--seed", options.seed, "of the first run; each is a number higher (1)");
  app.add_option("--setup", options.setup, "all, or one")
      ->check(CLI::IsMember(std::vector<std::string>{"all", "single", "quorum3", "quorum5", "sentinel"}));
  app.add_option("--broken", options.broken, "make the workers wrong, and succeed where that is found")
      ->check(CLI::IsMember(std::vector<std::string>(broken_names.begin(), broken_names.end())));
  app.add_option("--folder", options.folder, "for what the workers write; that of a wrong run stays");
  CLI11_PARSE(app, count, words);
  return run_all(options) ? 0 : 1;
}
