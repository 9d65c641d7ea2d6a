#include "lock_cases/pairs.hpp"

#include <stdexcept>

#include "lock_cases/pair_cost.hpp"

namespace leasehold::bench {
namespace {

constexpr std::size_t locks_a_thread = 16;

}  // namespace

std::vector<std::string> lock_names(std::size_t thread) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < locks_a_thread; ++i) {
    names.push_back("bench:" + std::to_string(thread) + ":" + std::to_string(i));
  }
  return names;
}

std::vector<Step> pairs(LockClient& client, std::size_t threads) {
  std::vector<Step> steps;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    steps.emplace_back([&client, names = lock_names(thread), next = std::size_t{0}]() mutable {
      auto lock = client.acquire(names[next++ % names.size()]);
      if (!lock || lock->release() != Release::done) throw std::runtime_error("lock not released");
      return std::size_t{1};
    });
  }
  return steps;
}

Result compare_pairs(LockBench& bench, const std::string& name, std::vector<Step> ours,
                     std::vector<Step> reference, std::optional<pid_t> server) {
  Crew our_crew(std::move(ours));
  Crew reference_crew(std::move(reference));
  CostMeter our_cost(server.value_or(0));
  CostMeter reference_cost(server.value_or(0));
  const auto run = [&](Crew& crew, CostMeter& cost, std::chrono::milliseconds slice) {
    return server ? cost.run(crew, slice) : crew.run(slice);
  };
  const Duel duel = fight(
      bench.options, name, bench.progress,
      [&](auto slice) { return run(our_crew, our_cost, slice); },
      [&](auto slice) { return run(reference_crew, reference_cost, slice); });
  Result result{.name = name,
                .unit = "acquire+release pairs/s",
                .ours = duel.ours.rate(),
                .reference = duel.reference.rate(),
                .ratio = duel.ratio};
  if (server) {
    result.extra = our_cost.fields("");
    for (auto& field : reference_cost.fields("reference_")) result.extra.push_back(field);
    result.extra.emplace_back("cpu_ratio", our_cost.us() / reference_cost.us());
  }
  return result;
}

}  // namespace leasehold::bench
