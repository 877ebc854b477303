#pragma once

#include <sysexits.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "accidents.hpp"
#include "event.hpp"
#include "timeline.hpp"
#include "verdict.hpp"
#include "ways.hpp"

// What became of a way in an accident.
struct Result {
  std::size_t way, accident;
  std::vector<Event> events;  // in the order of their times
  Verdict verdict = Verdict::fine;
  Timeline timeline;
};

// Runs in a process of its own and leaves its events in a file.
inline int run_cell(const WayKind& way, const Accident& accident, const std::filesystem::path& folder) try {
  Cell cell(way, folder);
  accident.happen(cell);
  const std::vector<Event>& events = cell.record().events();
  std::ofstream file(folder / "events", std::ios::binary);
  file.write(reinterpret_cast<const char*>(events.data()), static_cast<std::streamsize>(events.size() * sizeof(Event)));
  return file.flush() ? EXIT_SUCCESS : EX_IOERR;
} catch (const NoServer& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EX_UNAVAILABLE;
}

inline Result read_result(std::size_t way, std::size_t accident, const std::filesystem::path& folder) {
  Result result{.way = way, .accident = accident, .events = {}, .timeline = {}};
  std::ifstream file(folder / "events", std::ios::binary);
  Event event{};
  while (file.read(reinterpret_cast<char*>(&event), sizeof event)) result.events.push_back(event);
  if (result.events.empty()) throw std::runtime_error("a cell has told nothing");
  std::stable_sort(result.events.begin(), result.events.end(),
                   [](const Event& one, const Event& other) { return one.when < other.when; });
  result.verdict = judge(result.events);
  result.timeline = draw(result.events);
  return result;
}
