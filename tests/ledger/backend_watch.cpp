#include "tests/ledger/backend_watch.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <pqxx/pqxx>
#include <utility>

#include "tests/ledger/ledger_worker.hpp"

namespace leasehold::testing {
namespace {

constexpr std::chrono::milliseconds between_looks{100};
// A backend whose connection was closed needs a moment to end. One that waits for a lock that
// somebody holds for seconds is there for longer.
constexpr int looks_that_count = 10;

std::size_t allowed(const std::string& name) {
  return name.starts_with("queue-") ? ledger_queue_backends : ledger_threads;
}

}  // namespace

BackendWatch::BackendWatch(std::string uri)
    : uri_(std::move(uri)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void BackendWatch::run(const std::stop_token& stop) {
  std::unique_ptr<pqxx::connection> connection;
  while (!stop.stop_requested()) {
    std::map<std::string, std::size_t> backends;
    try {
      if (!connection) connection = std::make_unique<pqxx::connection>(uri_);
      pqxx::nontransaction look{*connection};
      for (const auto& row : look.exec("SELECT application_name, count(*) FROM pg_stat_activity "
                                       "WHERE application_name ~ '^(queue|handlers)-' GROUP BY 1"))
        backends[row[0].as<std::string>()] = row[1].as<std::size_t>();
    } catch (const std::exception&) {  // of libpqxx: there is no server now, and so no backend
      connection.reset();
    }
    note(backends);
    std::this_thread::sleep_for(between_looks);
  }
}

void BackendWatch::note(const std::map<std::string, std::size_t>& backends) {
  const std::lock_guard guard(mutex_);
  std::map<std::string, int> looks;
  for (const auto& [name, number] : backends) {
    most_ = std::max(most_, number);
    if (number <= allowed(name)) continue;
    looks[name] = looks_in_a_row_[name] + 1;
    if (looks[name] >= looks_that_count) too_many_[name] = std::max(too_many_[name], number);
  }
  looks_in_a_row_ = std::move(looks);
}

std::size_t BackendWatch::most() const {
  const std::lock_guard guard(mutex_);
  return most_;
}

std::string BackendWatch::violations() const {
  const std::lock_guard guard(mutex_);
  std::string text;
  for (const auto& [name, number] : too_many_) {
    text += name + " had " + std::to_string(number) + " backends, but its pools allow " +
            std::to_string(allowed(name)) + "\n";
  }
  return text;
}

}  // namespace leasehold::testing
