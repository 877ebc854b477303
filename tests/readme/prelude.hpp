#pragma once

// What the README's examples use without declaring it. Nothing here is ever linked.

#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <redlock/redlock.hpp>
#include <shared_mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

struct Order {
  std::string id;
};

extern redlock::Client client;
extern Order order;

void busy();
void ship(const Order&);
void ship(const Order&, redlock::FencingToken);
