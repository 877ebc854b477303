// The ways in which people write a lock on Redis, and redlock, in the accidents that happen to locks: real servers, real
// processes, each run on its own, with a ttl of a second. Every worker tells what it does and when; from that alone comes the
// verdict.
//
//   accident_lab [--html FILE]
#include <sysexits.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "page.hpp"
#include "result.hpp"
#include "support/folder.hpp"
#include "support/process.hpp"
#include "terminal.hpp"

namespace {

constexpr std::size_t side_by_side = 6;  // they wait for the most part

struct Running {
  std::size_t way, accident;
  std::filesystem::path folder;
  Process process;
};

struct Failed {
  int status;
};

std::vector<Result> run_all(const Folder& folder) {
  std::vector<Result> results;
  std::deque<Running> running;
  const auto finish_one = [&] {
    Running& each = running.front();
    if (const int status = each.process.wait(); status != EXIT_SUCCESS) throw Failed{status};
    results.push_back(read_result(each.way, each.accident, each.folder));
    running.pop_front();
    std::fprintf(stderr, ".");
  };
  for (std::size_t way = 0; way < ways.size(); ++way) {
    for (std::size_t accident = 0; accident < accidents.size(); ++accident) {
      if (running.size() == side_by_side) finish_one();
      const std::filesystem::path own = folder.file(std::to_string(way) + "-" + std::to_string(accident));
      std::filesystem::create_directory(own);
      running.push_back({way, accident, own, Process([&] { return run_cell(ways[way], accidents[accident], own); })});
    }
  }
  while (!running.empty()) finish_one();
  std::fprintf(stderr, "\n");
  return results;
}

int run(const Folder& folder, const char* html) try {
  const std::vector<Result> results = run_all(folder);
  Terminal().print(results);
  if (html == nullptr) return EXIT_SUCCESS;
  std::ofstream file(html);
  file << Page(results).text();
  if (file.flush()) return EXIT_SUCCESS;
  std::fprintf(stderr, "cannot write %s\n", html);
  return EX_CANTCREAT;
} catch (const Failed& failed) {
  return failed.status;
}

// The lab is a process of its own, so that the folder goes however it ends.
volatile std::sig_atomic_t lab = 0;
void end_lab(int /*number*/) {
  if (lab > 0) ::kill(static_cast<pid_t>(lab), SIGKILL);
}

}  // namespace

int main(int count, char** words) {
  const bool has_file = count == 3 && std::strcmp(words[1], "--html") == 0;
  if (count != 1 && !has_file) {
    std::fprintf(stderr, "usage: accident_lab [--html FILE]\n");
    return EX_USAGE;
  }
  const Folder folder;
  Process process([&] { return run(folder, has_file ? words[2] : nullptr); });
  lab = process.id();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) std::signal(number, end_lab);
  return process.wait();
}
