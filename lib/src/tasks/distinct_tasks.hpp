#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "leasehold/task_queue.hpp"

namespace leasehold::inline v0 {

/// Tasks to be added, without those whose unique key occurs earlier in the same call: stores take
/// each key once. The tasks must live as long as this object.
class DistinctTasks {
 public:
  explicit DistinctTasks(std::span<const NewTask> tasks) : given_(tasks) {
    std::unordered_map<std::string_view, std::size_t> first_with_key;
    sent_as_.reserve(tasks.size());
    for (const NewTask& task : tasks) {
      if (!task.unique_key.empty()) {
        const auto [known, is_new] = first_with_key.emplace(task.unique_key, number_);
        if (!is_new) {
          if (copies_.empty()) {
            copies_.assign(tasks.begin(), tasks.begin() + std::ptrdiff_t(sent_as_.size()));
          }
          sent_as_.push_back(known->second);
          continue;
        }
      }
      if (!copies_.empty()) copies_.push_back(task);
      sent_as_.push_back(number_++);
    }
  }

  /// For the store.
  std::span<const NewTask> tasks() const { return copies_.empty() ? given_ : copies_; }

  /// One answer for each task that was given, from the store's answers. A repeated key exists.
  std::vector<Enqueued> answers(std::span<const Enqueued> stored) const {
    std::vector<Enqueued> answers;
    answers.reserve(sent_as_.size());
    std::size_t next = 0;
    for (const std::size_t sent : sent_as_) {
      answers.push_back(stored[sent]);
      if (sent == next) {
        ++next;
      } else {
        answers.back().outcome = Enqueued::Outcome::exists;
      }
    }
    return answers;
  }

 private:
  const std::span<const NewTask> given_;
  std::vector<NewTask> copies_;       // empty while no key was repeated
  std::vector<std::size_t> sent_as_;  // for each given task, its place in tasks()
  std::size_t number_ = 0;            // of tasks in tasks()
};

}  // namespace leasehold::inline v0
