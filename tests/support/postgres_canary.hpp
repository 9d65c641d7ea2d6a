#pragma once

#include <chrono>
#include <pqxx/pqxx>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// Tells how long the machine or PostgreSQL stood still: writes the database's time into a table,
/// twenty times a second. Where there is a gap, nobody else can be blamed for being late.
class PostgresCanary {
 public:
  explicit PostgresCanary(std::string uri) : uri_(std::move(uri)) {
    pqxx::connection connection{uri_};
    pqxx::nontransaction{connection}.exec(
        "SET client_min_messages = warning; DROP TABLE IF EXISTS public.canary;"
        "CREATE TABLE public.canary (since timestamptz, until timestamptz);"
        "INSERT INTO public.canary VALUES (clock_timestamp(), clock_timestamp())");
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  /// What is going on now is known then, too. Before the questions.
  void stop() {
    thread_.request_stop();
    thread_.join();
  }

  /// In SQL: the seconds of standstill between two moments.
  static std::string standstill(const std::string& from, const std::string& to) {
    const std::string time =
        "extract(epoch FROM least(until, " + to + ") - greatest(since, " + from + "))";
    return "(SELECT coalesce(sum(" + time + " - " + ordinary + "), 0) FROM public.canary WHERE " +
           time + " > " + ordinary + ")";
  }

 private:
  static inline const std::string ordinary = "0.1";

  void run(const std::stop_token& stop) {
    for (bool last = false; !last;) {
      try {
        pqxx::connection connection{uri_};
        while (!last) {
          last = stop.stop_requested();
          std::this_thread::sleep_for(std::chrono::milliseconds{50});
          pqxx::nontransaction{connection}.exec(
              "INSERT INTO public.canary SELECT max(until), clock_timestamp() FROM public.canary");
        }
      } catch (const std::exception&) {  // it is restarted
        last = stop.stop_requested();
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
      }
    }
  }

  const std::string uri_;
  std::jthread thread_;
};

}  // namespace leasehold::testing
