#include "tasks/runtime/board.hpp"

#include <algorithm>
#include <utility>

namespace leasehold::inline v0 {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using Stage = TaskRun::Stage;

// As much is leased ahead as will probably be started within this time.
constexpr microseconds ahead{100'000};
// What was not started after this time is given back: somebody else may have a free thread.
constexpr milliseconds longest_in_queue{1'000};
// Outcomes are written together: at most so many, and none waits longer than this for others.
constexpr std::size_t most_outcomes = 1'000;
constexpr milliseconds longest_wait{2};
// Failures are written one by one, and completions should not wait for too many of them.
constexpr std::size_t most_failures = 16;
// How much the last run counts in the mean.
constexpr double weight = 1.0 / 16;

}  // namespace

Board::Board(std::span<const TaskKind> kinds, std::size_t concurrency, std::size_t prefetch)
    : concurrency_(concurrency), prefetch_(prefetch) {
  for (const TaskKind& kind : kinds) lanes_.push_back({&kind, {}});
}

Board::Caution Board::caution_about(std::span<const TaskRunPtr> runs) const {
  auto caution = Caution::none;
  for (const TaskRunPtr& run : runs) {
    if (run->suspect()) caution = std::max(caution, Caution::no_prefetch);
    if (run->dangerous()) caution = Caution::one_by_one;
  }
  return caution;
}

std::size_t Board::prefetch_now() const {
  if (mean_run_us_ < 0 || caution_ != Caution::none) return 0;
  const double likely = static_cast<double>(concurrency_) * static_cast<double>(ahead.count()) /
                        std::max(mean_run_us_, 1.0);
  return std::min(prefetch_, static_cast<std::size_t>(likely));
}

std::size_t Board::places() const {
  const std::size_t taken = running_ + queued_ + settling_;
  if (dangerous_ > 0) return 0;
  if (caution_ == Caution::one_by_one) {
    return queued_ + settling_ == 0 && running_ < concurrency_ ? 1 : 0;
  }
  const std::size_t all = concurrency_ + prefetch_now();
  return all > taken ? all - taken : 0;
}

bool Board::at_its_limit(const Lane& lane) const {
  return lane.kind->options.limit && lane.held >= *lane.kind->options.limit;
}

/// Not for each single place: a thread must be without work, or half of what is leased ahead used.
bool Board::worth_a_lease() const {
  const std::size_t free = places();
  if (free == 0) return false;
  if (running_ + queued_ >= concurrency_ && free < (prefetch_now() + 1) / 2) return false;
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return !at_its_limit(lane); });
}

bool Board::wait_for_room(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return room_.wait(lock, stop, [&] { return worth_a_lease(); });
}

Board::Room Board::room() const {
  const std::lock_guard guard(mutex_);
  Room room{.places = places()};
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

bool Board::rest(const std::stop_token& stop, milliseconds least, milliseconds pause) {
  std::unique_lock lock(mutex_);
  if (least > milliseconds{0}) room_.wait_for(lock, stop, least, [] { return false; });
  room_.wait_for(lock, stop, pause, [&] { return woken_; });
  return std::exchange(woken_, false);
}

void Board::wake() {
  const std::lock_guard guard(mutex_);
  woken_ = true;
  room_.notify_all();
}

void Board::add(std::vector<TaskRunPtr> runs) {
  if (runs.empty()) return;
  const std::lock_guard guard(mutex_);
  const auto now = Clock::now();
  caution_ = caution_about(runs);
  if (caution_ == Caution::one_by_one) {
    give_back_queued();
    std::partition(runs.begin(), runs.end(), [](const auto& run) { return run->dangerous(); });
  }
  for (TaskRunPtr& run : runs) {
    Lane& lane = lanes_[run->lane];
    ++lane.held;
    if (run->dangerous()) ++dangerous_;
    run->granted = now;
    run->queued_at = now;
    runs_.emplace(run.get(), run);
    alarm_at(run->valid_until);
    const bool too_many = (caution_ == Caution::one_by_one && queued_ > 0) ||
                          (caution_ == Caution::no_prefetch && running_ + queued_ >= concurrency_);
    if (closed_ || too_many) {
      settle(run, {.kind = TaskOutcome::Kind::release});
    } else {
      ++queued_;
      lane.queued.push_back(std::move(run));
    }
  }
  alarm_at(now + longest_in_queue);
  leases_.notify_all();
  work_.notify_all();
  changed();
}

TaskRunPtr Board::next(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  TaskRunPtr run;
  while (!run) {
    // A dangerous one is the only one in the queue.
    const auto ready = [&] { return queued_ > 0 && (dangerous_ == 0 || may_start_danger()); };
    if (!work_.wait(lock, stop, ready)) return nullptr;
    while (lanes_[turn_ % lanes_.size()].queued.empty()) ++turn_;
    Lane& lane = lanes_[turn_++ % lanes_.size()];
    run = std::move(lane.queued.front());
    lane.queued.pop_front();
    --queued_;
    if (run->valid_until > Clock::now()) break;
    give_up_lease(*run);
    expired_.push_back(std::exchange(run, nullptr));
    alarm_at(Clock::now());
  }
  ++running_;
  run->stage = Stage::running;
  run->in_handler = true;
  run->started_at = Clock::now();
  if (const auto& limit = run->kind.options.deadline) {
    run->deadline = run->started_at + *limit;
    alarm_at(*run->deadline);
  }
  changed();
  return run;
}

Board::Return Board::returned(const TaskRunPtr& run, TaskOutcome outcome) {
  const std::lock_guard guard(mutex_);
  run->in_handler = false;
  --running_;
  const auto run_time = std::chrono::duration_cast<microseconds>(Clock::now() - run->started_at);
  const auto taken = static_cast<double>(run_time.count());
  mean_run_us_ = mean_run_us_ < 0 ? taken : mean_run_us_ + weight * (taken - mean_run_us_);

  auto result = Return::too_late;
  switch (run->stage) {
    case Stage::handed_over:
      run->run_time = run_time;
      if (outcome.kind == TaskOutcome::Kind::complete) {
        run->stage = Stage::ended;
        result = Return::completed;
        break;
      }
      [[fallthrough]];
    case Stage::running:
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

TaskRun::Stage Board::stage(const TaskRun& run) const {
  const std::lock_guard guard(mutex_);
  return run.stage;
}

bool Board::hand_over(TaskRun& run) {
  std::unique_lock lock(mutex_);
  // A renewal that meets the lock of the handler's transaction would wait for it, and all other
  // leases with it.
  renewed_.wait(lock, [&] { return !run.renewing; });
  if (run.stage != Stage::running && run.stage != Stage::handed_over) return false;
  run.stage = Stage::handed_over;
  run.was_handed_over = true;
  return true;
}

void Board::wait_for_leases(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  leases_.wait(lock, stop, [&] { return !runs_.empty(); });
}

std::vector<TaskRunPtr> Board::begin_renewal(Clock::time_point granted_before) {
  const std::lock_guard guard(mutex_);
  std::vector<TaskRunPtr> due;
  for (const auto& [_, run] : runs_) {
    if (run->stage == Stage::handed_over || run->stage == Stage::ended) continue;
    if (run->granted > granted_before) continue;
    run->renewing = true;
    due.push_back(run);
  }
  std::sort(due.begin(), due.end(),
            [](const auto& a, const auto& b) { return a->task.key.id < b->task.key.id; });
  return due;
}

std::vector<TaskRunPtr> Board::end_renewal(std::span<const TaskRunPtr> runs,
                                           const Accepted* accepted,
                                           Clock::time_point valid_until) {
  const std::lock_guard guard(mutex_);
  const auto now = Clock::now();
  std::vector<TaskRunPtr> stale;
  for (const TaskRunPtr& run : runs) {
    run->renewing = false;
    if (accepted == nullptr) continue;
    if (accepted->contains(run->task.key)) {
      run->granted = now;
      run->valid_until = valid_until;
    } else if (run->stage == Stage::queued || run->stage == Stage::running) {
      stale.push_back(run);
    }  // else its outcome may have been written meanwhile, and who settles finds out
  }
  renewed_.notify_all();
  return stale;
}

Board::Clock::time_point Board::valid_until(const TaskRun& run) const {
  const std::lock_guard guard(mutex_);
  return run.valid_until;
}

std::vector<TaskRunPtr> Board::take_outcomes(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!outcomes_.wait(lock, stop, [&] { return !unsettled_.empty(); })) return {};
  outcomes_.wait_until(lock, stop, unsettled_since_ + longest_wait,
                       [&] { return unsettled_.size() >= most_outcomes || nothing_under_way(); });

  std::vector<TaskRunPtr> taken;
  std::vector<TaskRunPtr> left;
  std::size_t failures = 0;
  for (TaskRunPtr& run : unsettled_) {
    const bool failure = run->outcome.kind == TaskOutcome::Kind::fail;
    if (taken.size() < most_outcomes && (!failure || failures < most_failures)) {
      failures += failure ? 1 : 0;
      taken.push_back(std::move(run));
    } else {
      left.push_back(std::move(run));
    }
  }
  unsettled_ = std::move(left);
  return taken;
}

void Board::put_back(std::vector<TaskRunPtr> runs) {
  const std::lock_guard guard(mutex_);
  for (TaskRunPtr& run : runs) unsettled_.push_back(std::move(run));
}

void Board::settled(std::span<const TaskRunPtr> runs) {
  const std::lock_guard guard(mutex_);
  for (const TaskRunPtr& run : runs) {
    run->stage = Stage::ended;
    --settling_;
    forget_if_over(*run);
  }
  changed();
}

bool Board::lose(TaskRun& run) {
  const std::lock_guard guard(mutex_);
  if (run.stage == Stage::settling || run.stage == Stage::ended) return false;
  if (run.stage == Stage::queued) unqueue(run);
  give_up_lease(run);
  changed();
  return true;
}

Board::Alarms Board::ring(Clock::time_point now,
                          const std::function<TaskOutcome(const TaskRun&)>& give_up) {
  const std::lock_guard guard(mutex_);
  Alarms alarms{{}, Clock::time_point::max()};
  const auto later = [&](Clock::time_point when) { alarms.next = std::min(alarms.next, when); };
  for (TaskRunPtr& run : std::exchange(expired_, {})) {
    alarms.due.push_back({std::move(run), StopReason::lease_lost});
  }
  std::vector<TaskRunPtr> all;  // forget_if_over() changes runs_
  for (const auto& [_, run] : runs_) all.push_back(run);
  for (const TaskRunPtr& run : all) {
    const bool waits = run->stage == Stage::queued;
    const bool works = run->stage == Stage::running;
    if ((waits || works) && run->valid_until <= now) {
      if (waits) unqueue(*run);
      give_up_lease(*run);
      alarms.due.push_back({run, StopReason::lease_lost});
      continue;
    }
    if (waits || works) later(run->valid_until);
    if (waits) {
      if (const auto end = run->queued_at + longest_in_queue; end > now) {
        later(end);
      } else if (run->dangerous() && running_ < concurrency_) {
        run->waited_enough = true;  // others take long; it can not wait for ever
        work_.notify_all();
      } else {
        unqueue(*run);
        settle(run, {.kind = TaskOutcome::Kind::release});
      }
    }
    // A handler that completes its task in a transaction of its own is told, and that is all: the
    // transaction decides.
    if (run->deadline && (works || run->stage == Stage::handed_over)) {
      if (*run->deadline > now) {
        later(*run->deadline);
      } else {
        run->deadline.reset();
        if (works) settle(run, give_up(*run));
        alarms.due.push_back({run, StopReason::deadline});
      }
    }
  }
  next_alarm_ = alarms.next;
  earlier_alarm_ = false;
  changed();
  return alarms;
}

void Board::close() {
  const std::lock_guard guard(mutex_);
  closed_ = true;
  give_back_queued();
  changed();
}

std::vector<Board::Alarm> Board::call_off() {
  const std::lock_guard guard(mutex_);
  std::vector<Alarm> told;
  for (const auto& [_, run] : runs_) {
    if (run->stage == Stage::running) {
      settle(run, {.kind = TaskOutcome::Kind::release});
    } else if (run->stage != Stage::handed_over) {
      continue;
    }
    told.push_back({run, StopReason::shutdown});
  }
  return told;
}

bool Board::wait(Clock::time_point until, const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  watch_.wait_until(lock, until, [&] { return done() || earlier_alarm_; });
  return done();
}

void Board::poke() {
  const std::lock_guard guard(mutex_);
  watch_.notify_all();
}

Board::Load Board::load() const {
  const std::lock_guard guard(mutex_);
  return load_now();
}

void Board::settle(const TaskRunPtr& run, TaskOutcome outcome) {
  run->stage = Stage::settling;
  run->outcome = std::move(outcome);
  if (unsettled_.empty()) unsettled_since_ = Clock::now();
  unsettled_.push_back(run);
  ++settling_;
  if (unsettled_.size() == 1 || unsettled_.size() == most_outcomes) outcomes_.notify_all();
}

void Board::give_back_queued() {
  for (Lane& lane : lanes_) {
    for (const TaskRunPtr& run : std::exchange(lane.queued, {})) {
      --queued_;
      settle(run, {.kind = TaskOutcome::Kind::release});
    }
  }
}

/// Alone, or after it has waited for that long enough.
bool Board::may_start_danger() const {
  if (running_ == 0) return true;
  return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) {
    return std::all_of(lane.queued.begin(), lane.queued.end(),
                       [](const TaskRunPtr& run) { return run->waited_enough; });
  });
}

void Board::unqueue(const TaskRun& run) {
  std::erase_if(lanes_[run.lane].queued, [&](const auto& other) { return other.get() == &run; });
  --queued_;
}

void Board::give_up_lease(TaskRun& run) {
  run.lost = true;
  run.stage = Stage::ended;
  forget_if_over(run);
}

/// Who calls it has a pointer of its own to the run.
void Board::forget_if_over(TaskRun& run) {
  if (run.stage != Stage::ended || run.in_handler) return;
  Lane& lane = lanes_[run.lane];
  if (at_its_limit(lane)) {  // there may be more that could not be leased
    woken_ = true;
    room_.notify_all();
  }
  --lane.held;
  if (run.dangerous()) --dangerous_;
  runs_.erase(&run);
}

/// After every change of the numbers that others wait for.
void Board::changed() {
  if (worth_a_lease()) room_.notify_all();
  if (nothing_under_way() && !unsettled_.empty()) outcomes_.notify_all();
  if (dangerous_ > 0 && running_ == 0) work_.notify_all();
  if (closed_) watch_.notify_all();
}

void Board::alarm_at(Clock::time_point when) {
  if (when >= next_alarm_) return;
  next_alarm_ = when;
  earlier_alarm_ = true;
  watch_.notify_all();
}

}  // namespace leasehold::inline v0
