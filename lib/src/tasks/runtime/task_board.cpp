#include "tasks/runtime/task_board.hpp"

#include <algorithm>
#include <utility>

#include "support/random.hpp"

namespace leasehold::inline v0 {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// As many tasks are leased ahead as will probably start within this time.
constexpr microseconds ahead{100'000};
// A task that was not started within this time is given back: another worker may have a free
// thread.
constexpr milliseconds longest_in_queue{1'000};
// Outcomes are written together: at most this many, and none waits longer than this for others.
constexpr std::ptrdiff_t most_outcomes = 1'000;
constexpr milliseconds longest_wait{2};
// Results that wait to be written, in addition to what is leased ahead: while there are more bytes
// of them, nothing is started.
constexpr std::size_t most_result_bytes = 16 * 1024 * 1024;
// The weight of the last run in the mean.
constexpr double weight = 1.0 / 16;

/// When a worker looks for `tasks` that it has heard of.
LookPace::Clock::time_point when(LookPace::Clock::time_point heard, auto wait, std::size_t tasks) {
  return heard +
         std::chrono::duration_cast<LookPace::Clock::duration>(wait / static_cast<double>(tasks));
}

}  // namespace

TaskBoard::TaskBoard(std::span<const TaskKind> kinds, std::size_t concurrency, std::size_t prefetch,
                     std::size_t prefetch_bytes, int max_crashes)
    : concurrency_(concurrency),
      prefetch_(prefetch),
      prefetch_bytes_(prefetch_bytes),
      max_crashes_(max_crashes) {
  for (const TaskKind& kind : kinds) lanes_.push_back({&kind, {}});
}

std::size_t TaskBoard::prefetch_now() const {
  if (mean_run_us_ < 0 || cautious_) return 0;
  const double likely = static_cast<double>(concurrency_) * static_cast<double>(ahead.count()) /
                        std::max(mean_run_us_, 1.0);
  return std::min(prefetch_, static_cast<std::size_t>(likely));
}

std::size_t TaskBoard::places() const {
  if (alone_ != nullptr || results_pile_up()) return 0;
  const std::size_t taken = running_ + queued_ + settling_;
  const std::size_t all = concurrency_ + prefetch_now();
  return all > taken ? all - taken : 0;
}

std::size_t TaskBoard::idle() const {
  const std::size_t busy = running_ + queued_;
  return concurrency_ > busy ? concurrency_ - busy : 0;
}

std::size_t TaskBoard::bytes_left() const {
  return prefetch_bytes_ > queued_bytes_ ? prefetch_bytes_ - queued_bytes_ : 0;
}

/// The store is away, or slower than the handlers.
bool TaskBoard::results_pile_up() const {
  return result_bytes_ > prefetch_bytes_ + most_result_bytes;
}

bool TaskBoard::at_its_limit(const Lane& lane) {
  return lane.kind->options.limit && lane.held >= *lane.kind->options.limit;
}

/// It has crashed its worker more than once, or another task has that ran beside it. Or it would
/// be dead after one more crash, and so might be those that run beside it.
bool TaskBoard::is_dangerous(const TaskRun& run) const {
  const int crashes = run.task.crash_count;
  return crashes > 1 || (crashes > 0 && crashes + 1 >= max_crashes_);
}

/// A single free place is not enough: a thread must be without work, or half of what was leased
/// ahead must be used up, in number and in bytes.
bool TaskBoard::worth_a_lease() const {
  const std::size_t free = places();
  if (free == 0) return false;
  const bool used_up = free >= (prefetch_now() + 1) / 2 &&
                       bytes_left() >= std::max<std::size_t>(prefetch_bytes_ / 2, 1);
  if (idle() == 0 && !used_up) return false;
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return !at_its_limit(lane); });
}

bool TaskBoard::wait_for_room(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  if (!room_.wait(lock, stop, [this]() LEASEHOLD_REQUIRES(mutex_) { return worth_a_lease(); })) {
    return false;
  }
  at_once_ = 0;
  limit_left_ = false;
  return true;
}

TaskBoard::Room TaskBoard::room() const {
  const ThreadLock lock(mutex_);
  Room room{.places = places(), .idle = idle(), .bytes = bytes_left()};
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (at_its_limit(lanes_[i])) continue;
    if (const auto limit = lanes_[i].kind->options.limit) {
      room.limited.push_back({i, *limit - lanes_[i].held});
    } else {
      room.open.push_back(i);
    }
  }
  return room;
}

LookPace::Reason TaskBoard::wait_to_look(const std::stop_token& stop, milliseconds pause,
                                         LookPace& pace) {
  ThreadLock lock(mutex_);
  const auto end = LookPace::Clock::now() + pause;
  room_.wait_until(lock, stop, end,
                   [this]() LEASEHOLD_REQUIRES(mutex_) { return at_once_ > 0 || limit_left_; });
  if (at_once_ == 0) return LookPace::Reason::pause;

  // The more tasks were announced at once, the sooner: there may be one for each worker. Tasks that
  // were announced one by one are probably taken one by one, too.
  const auto heard = LookPace::Clock::now();
  const auto part = pace.heard(heard) * random_share();
  std::size_t seen = 0;
  const auto changed = [&]() LEASEHOLD_REQUIRES(mutex_) { return at_once_ > seen || limit_left_; };
  do {
    seen = at_once_;
  } while (!limit_left_ &&
           room_.wait_until(lock, stop, std::min(end, when(heard, part, seen)), changed));
  return LookPace::Reason::news;
}

void TaskBoard::announce(const News& news) {
  const ThreadLock lock(mutex_);
  std::size_t number = news.added.empty() ? 1 : 0;
  for (const Lane& lane : lanes_) {
    const auto added = news.added.find(lane.kind->type);
    if (added != news.added.end() && !at_its_limit(lane)) number += added->second;
  }
  at_once_ = std::max(at_once_, number);
  if (number > 0) room_.notify_all();
}

void TaskBoard::add(std::vector<TaskRunPtr> runs) {
  if (runs.empty()) return;
  const ThreadLock lock(mutex_);
  const auto now = Clock::now();
  cautious_ = std::any_of(runs.begin(), runs.end(), [](auto& run) { return run->task.suspect; });
  const auto dangerous =
      std::find_if(runs.begin(), runs.end(), [&](auto& run) { return is_dangerous(*run); });
  if (dangerous != runs.end() && alone_ == nullptr) {
    give_back_queued();
    alone_ = dangerous->get();
  }
  for (TaskRunPtr& run : runs) {
    ++lanes_[run->lane].held;
    run->granted = now;
    run->queued_at = now;
    runs_.emplace(run.get(), run);
    alarm_at(run->valid_until);
    const bool has_thread = running_ + first_.size() < concurrency_;
    const bool fits = alone_ != nullptr ? run.get() == alone_ : has_thread || !run->started;
    if (closed_ || !fits) {
      give_back(run);
    } else {
      queue(std::move(run));
    }
  }
  alarm_at(now + longest_in_queue);
  leases_.notify_all();
  work_.notify_all();
  changed();
}

TaskRunPtr TaskBoard::next(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  TaskRunPtr run;
  while (!run) {
    const auto ready = [this]() LEASEHOLD_REQUIRES(mutex_) { return may_start(); };
    if (!work_.wait(lock, stop, ready)) return nullptr;
    run = take_next();
    if (run->valid_until.load() > Clock::now()) break;
    give_up_unstarted(std::exchange(run, nullptr));
  }
  ++running_;
  run->stage = LeaseStage::held;
  run->in_handler = true;
  run->started = true;
  run->started_at = Clock::now();
  if (const auto& limit = run->kind.options.deadline) {
    run->deadline = *run->started_at + *limit;
    alarm_at(*run->deadline);
  }
  if (run.get() == alone_) alarm_at(*run->started_at + longest_alone);
  changed();
  return run;
}

TaskBoard::Return TaskBoard::returned(const TaskRunPtr& run, TaskOutcome outcome) {
  const ThreadLock lock(mutex_);
  run->in_handler = false;
  --running_;
  const auto run_time = std::chrono::duration_cast<microseconds>(Clock::now() - *run->started_at);
  const auto taken = static_cast<double>(run_time.count());
  mean_run_us_ = mean_run_us_ < 0 ? taken : mean_run_us_ + weight * (taken - mean_run_us_);

  auto result = Return::too_late;
  switch (run->stage) {
    case LeaseStage::handed_over:
      run->run_time = run_time;
      if (outcome.kind == TaskOutcome::Kind::complete) {
        run->stage = LeaseStage::ended;
        result = Return::completed;
        break;
      }
      [[fallthrough]];
    case LeaseStage::held:
      run->run_time = run_time;
      settle(run, std::move(outcome));
      result = Return::settling;
      break;
    default:
      if (run->lost) result = Return::refused;
  }
  forget_if_over(*run);
  changed();
  return result;
}

LeaseStage TaskBoard::stage(const TaskRun& run) const {
  const ThreadLock lock(mutex_);
  return run.stage;
}

bool TaskBoard::hand_over(TaskRun& run) {
  ThreadLock lock(mutex_);
  // A write that met the lock of the handler's transaction would wait for it, and hold up those of
  // all other tasks.
  renewed_.wait(lock, [&] { return !run.renewing && !run.saving; });
  if (run.stage != LeaseStage::held && run.stage != LeaseStage::handed_over) return false;
  run.stage = LeaseStage::handed_over;
  run.perhaps_completed = true;
  return true;
}

bool TaskBoard::has_unsaved(const TaskRun& run) const {
  const ThreadLock lock(mutex_);
  return run.unsaved || run.saving;
}

bool TaskBoard::keep_progress(const TaskRunPtr& run, std::string_view json) {
  const ThreadLock lock(mutex_);
  if (run->stage != LeaseStage::held) return false;
  if (!run->unsaved && !run->saving) unsaved_.push_back(run);
  run->unsaved = json;
  outcomes_.notify_all();
  return true;
}

void TaskBoard::wait_for_leases(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  leases_.wait(lock, stop, [this]() LEASEHOLD_REQUIRES(mutex_) { return !runs_.empty(); });
}

std::vector<TaskRunPtr> TaskBoard::begin_renewal(Clock::time_point granted_before) {
  const ThreadLock lock(mutex_);
  std::vector<TaskRunPtr> due;
  due.reserve(runs_.size());  // before the first is marked: hand_over() would wait forever
  for (const auto& [_, run] : runs_) {
    if (run->stage == LeaseStage::handed_over || run->stage == LeaseStage::ended) continue;
    if (run->granted > granted_before) continue;
    run->renewing = true;
    due.push_back(run);
  }
  return due;
}

std::vector<TaskRunPtr> TaskBoard::end_renewal(std::span<const TaskRunPtr> runs,
                                               const LeaseWrites::Renewal* renewal) {
  const ThreadLock lock(mutex_);
  for (const TaskRunPtr& run : runs) run->renewing = false;
  renewed_.notify_all();
  std::vector<TaskRunPtr> stale;
  if (renewal == nullptr) return stale;
  const auto now = Clock::now();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    TaskRun& run = *runs[i];
    if (renewal->each[i] == WriteResult::accepted) {
      run.granted = now;
      run.valid_until = renewal->valid_until;
    } else if (renewal->each[i] == WriteResult::stale && run.stage == LeaseStage::held) {
      stale.push_back(runs[i]);
    } else if (renewal->each[i] == WriteResult::stale && run.stage == LeaseStage::queued) {
      unqueue(run);
      give_up_unstarted(runs[i]);
    }  // else it is tried again, or its outcome was written meanwhile: the settler finds out
  }
  changed();
  return stale;
}

std::vector<TaskRunPtr> TaskBoard::take_outcomes(const std::stop_token& stop) {
  ThreadLock lock(mutex_);
  const auto any = [this]() LEASEHOLD_REQUIRES(mutex_) { return has_to_write(Clock::now()); };
  while (!any()) {
    const auto wake = sleep_until(next_retry());
    outcomes_.wait_until(lock, stop, wake, any);
    if (stop.stop_requested()) return {};
  }
  if (!unsettled_.empty()) {
    outcomes_.wait_until(lock, stop, to_steady(unsettled_since_ + longest_wait),
                         [this]() LEASEHOLD_REQUIRES(mutex_) {
                           return std::ssize(unsettled_) >= most_outcomes || nothing_under_way();
                         });
  }
  const auto end = unsettled_.begin() + std::min(std::ssize(unsettled_), most_outcomes);
  const auto due = std::partition_point(
      put_back_.begin(), put_back_.end(),
      [now = Clock::now()](const TaskRunPtr& run) { return run->retry_at <= now; });
  std::vector<TaskRunPtr> taken(unsettled_.begin(), end);
  taken.insert(taken.end(), put_back_.begin(), due);
  unsettled_.erase(unsettled_.begin(), end);
  put_back_.erase(put_back_.begin(), due);
  return taken;
}

bool TaskBoard::has_to_write(Clock::time_point now) const {
  return !unsettled_.empty() || next_retry() <= now;
}

/// When the first outcome that was put back, or the first progress, is to be written.
TaskBoard::Clock::time_point TaskBoard::next_retry() const {
  auto next = put_back_.empty() ? Clock::time_point::max() : put_back_.front()->retry_at;
  for (const TaskRunPtr& run : unsaved_) next = std::min(next, run->retry_at);
  return next;
}

void TaskBoard::put_back(std::vector<TaskRunPtr> runs) {
  const ThreadLock lock(mutex_);
  for (TaskRunPtr& run : runs) {
    if (run->stage == LeaseStage::settling) put_back_.push_back(std::move(run));
  }
  std::stable_sort(put_back_.begin(), put_back_.end(),
                   [](auto& a, auto& b) { return a->retry_at < b->retry_at; });
}

std::vector<TaskBoard::Unsaved> TaskBoard::take_unsaved() {
  const ThreadLock lock(mutex_);
  const auto now = Clock::now();
  std::vector<Unsaved> taken;
  taken.reserve(unsaved_.size());
  std::erase_if(unsaved_, [&](const TaskRunPtr& run) {
    // Once a task has an outcome, its progress is written with that.
    if (run->stage != LeaseStage::held || !run->unsaved) return true;
    if (run->retry_at > now) return false;
    run->saving = true;
    taken.push_back({run, *std::exchange(run->unsaved, std::nullopt)});
    return true;
  });
  return taken;
}

void TaskBoard::saved(Unsaved unsaved, Saved saved) {
  const ThreadLock lock(mutex_);
  TaskRun& run = *unsaved.run;
  run.saving = false;
  renewed_.notify_all();
  // The handler may have reported newer progress meanwhile.
  if (saved == Saved::not_yet && !run.unsaved) run.unsaved = std::move(unsaved.progress);
  if (run.unsaved && run.stage == LeaseStage::held) unsaved_.push_back(std::move(unsaved.run));
}

void TaskBoard::settled(std::span<const TaskRunPtr> runs) {
  const ThreadLock lock(mutex_);
  for (const TaskRunPtr& run : runs) {
    run->stage = LeaseStage::ended;
    --settling_;
    result_bytes_ -= run->outcome.text.size();
    forget_if_over(*run);
  }
  results_changed();
}

void TaskBoard::replace_outcome(TaskRun& run, TaskOutcome outcome) {
  const ThreadLock lock(mutex_);
  if (run.outcome.kind == TaskOutcome::Kind::complete && run.in_doubt) {
    // What is refused from now on is looked up: the task may be completed already.
    run.perhaps_completed = true;
    run.in_doubt = false;
  }
  result_bytes_ -= run.outcome.text.size();
  run.outcome = std::move(outcome);
  result_bytes_ += run.outcome.text.size();
  results_changed();
}

bool TaskBoard::lose(TaskRun& run) {
  const ThreadLock lock(mutex_);
  if (run.stage == LeaseStage::settling || run.stage == LeaseStage::ended) return false;
  if (run.stage == LeaseStage::queued) unqueue(run);
  give_up_lease(run);
  changed();
  return true;
}

TaskBoard::Alarms TaskBoard::ring(Clock::time_point now,
                                  const std::function<TaskOutcome(const TaskRun&)>& give_up) {
  const ThreadLock lock(mutex_);
  Alarms alarms{{}, Clock::time_point::max()};
  const auto later = [&](Clock::time_point when) { alarms.next = std::min(alarms.next, when); };
  for (TaskRunPtr& run : std::exchange(expired_, {})) {
    alarms.due.push_back({std::move(run), StopReason::lease_lost});
  }
  std::vector<TaskRunPtr> all;  // forget_if_over() changes runs_
  for (const auto& [_, run] : runs_) all.push_back(run);
  for (const TaskRunPtr& run : all) {
    const bool waits = run->stage == LeaseStage::queued;
    const bool works = run->stage == LeaseStage::held;
    if ((waits || works) && run->valid_until.load() <= now) {
      if (waits) unqueue(*run);
      give_up_lease(*run);
      alarms.due.push_back({run, StopReason::lease_lost});
      continue;
    }
    if (waits || works) later(run->valid_until);
    if (waits) {
      if (const auto end = run->queued_at + longest_in_queue; end > now) {
        later(end);
      } else if (run.get() == alone_ && running_ < concurrency_) {
        run->waited_enough = true;  // the others take long, and it cannot wait forever
        work_.notify_all();
      } else {
        unqueue(*run);
        give_back(run);
      }
    }
    // A handler that completes its task in its own transaction is only told: the transaction
    // decides the outcome.
    if (run->deadline && (works || run->stage == LeaseStage::handed_over)) {
      if (*run->deadline > now) {
        later(*run->deadline);
      } else {
        run->deadline.reset();
        if (works) settle(run, give_up(*run));
        alarms.due.push_back({run, StopReason::deadline});
      }
    }
  }
  if (alone_ != nullptr && alone_->started_at) {
    if (const auto end = *alone_->started_at + longest_alone; end > now) {
      later(end);
    } else {
      alone_ = nullptr;
    }
  }
  next_alarm_ = alarms.next;
  earlier_alarm_ = false;
  changed();
  return alarms;
}

void TaskBoard::close() {
  const ThreadLock lock(mutex_);
  closed_ = true;
  give_back_queued();
  changed();
}

std::vector<TaskBoard::Alarm> TaskBoard::call_off() {
  const ThreadLock lock(mutex_);
  std::vector<Alarm> told;
  for (const auto& [_, run] : runs_) {
    if (run->stage == LeaseStage::held) {
      settle(run, {.kind = TaskOutcome::Kind::release});
    } else if (run->stage != LeaseStage::handed_over) {
      continue;
    }
    told.push_back({run, StopReason::shutdown});
  }
  return told;
}

bool TaskBoard::wait(Clock::time_point until, const std::function<bool(const Load&)>& done) {
  ThreadLock lock(mutex_);
  watch_.wait_until(lock, sleep_until(until), [&]() LEASEHOLD_REQUIRES(mutex_) {
    return done(load_now()) || earlier_alarm_;
  });
  return done(load_now());
}

void TaskBoard::poke() {
  const ThreadLock lock(mutex_);
  watch_.notify_all();
}

TaskBoard::Load TaskBoard::load() const {
  const ThreadLock lock(mutex_);
  return load_now();
}

void TaskBoard::settle(const TaskRunPtr& run, TaskOutcome outcome) {
  run->stage = LeaseStage::settling;
  run->outcome = std::move(outcome);
  result_bytes_ += run->outcome.text.size();
  if (unsettled_.empty()) unsettled_since_ = Clock::now();
  unsettled_.push_back(run);
  ++settling_;
  if (unsettled_.size() == 1 || std::ssize(unsettled_) == most_outcomes) outcomes_.notify_all();
}

void TaskBoard::queue(TaskRunPtr run) {
  ++queued_;
  queued_bytes_ += run->bytes;
  auto& queue = run->started ? first_ : lanes_[run->lane].queued;
  queue.push_back(std::move(run));
}

bool TaskBoard::may_start() const {
  if (queued_ == 0 || results_pile_up()) return false;
  if (alone_ == nullptr) return true;
  // It is the only one in the queue.
  return runs_.size() == 1 || alone_->waited_enough;
}

TaskRunPtr TaskBoard::take_next() {
  while (first_.empty() && lanes_[turn_ % lanes_.size()].queued.empty()) ++turn_;
  auto& queue = first_.empty() ? lanes_[turn_++ % lanes_.size()].queued : first_;
  TaskRunPtr run = std::move(queue.front());
  queue.pop_front();
  --queued_;
  queued_bytes_ -= run->bytes;
  return run;
}

/// Gives back a task that was not started.
void TaskBoard::give_back(const TaskRunPtr& run) {
  if (run.get() == alone_) alone_ = nullptr;  // the others need not wait until that is written
  run->forget_payload();
  settle(run, {.kind = TaskOutcome::Kind::release, .when = GivenBack::unstarted});
}

void TaskBoard::give_back_queued() {
  while (queued_ > 0) give_back(take_next());
}

void TaskBoard::unqueue(const TaskRun& run) {
  const auto is_run = [&](const TaskRunPtr& other) { return other.get() == &run; };
  std::erase_if(run.started ? first_ : lanes_[run.lane].queued, is_run);
  --queued_;
  queued_bytes_ -= run.bytes;
}

/// Nobody has to be told why: ring() reports it.
void TaskBoard::give_up_unstarted(TaskRunPtr run) {
  give_up_lease(*run);
  expired_.push_back(std::move(run));
  alarm_at(Clock::now());
}

void TaskBoard::give_up_lease(TaskRun& run) {
  run.lost = true;
  run.stage = LeaseStage::ended;
  forget_if_over(run);
}

/// The caller must own a pointer to the run, because this can release the board's.
void TaskBoard::forget_if_over(TaskRun& run) {
  if (run.stage != LeaseStage::ended || run.in_handler) return;
  Lane& lane = lanes_[run.lane];
  if (at_its_limit(lane)) {  // there may be more tasks that could not be leased
    limit_left_ = true;
    room_.notify_all();
  }
  --lane.held;
  if (&run == alone_) alone_ = nullptr;
  runs_.erase(&run);
}

/// Must be called after every change of the numbers that others wait for.
void TaskBoard::changed() {
  if (worth_a_lease()) room_.notify_all();
  if (nothing_under_way() && !unsettled_.empty()) outcomes_.notify_all();
  if (alone_ != nullptr && may_start()) work_.notify_all();
  if (closed_) watch_.notify_all();
}

/// The same after a change of the results that wait to be written.
void TaskBoard::results_changed() {
  if (queued_ > 0 && !results_pile_up()) work_.notify_all();
  changed();
}

void TaskBoard::alarm_at(Clock::time_point when) {
  if (when >= next_alarm_) return;
  next_alarm_ = when;
  earlier_alarm_ = true;
  watch_.notify_all();
}

}  // namespace leasehold::inline v0
