#include "simulator/executors/timeline/sm.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace flashsim::timeline {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
constexpr double rounding = 1e-7;  ///< clocks; far below any operation's, far above what doubles lose here
constexpr std::ptrdiff_t nothing = -1;

/// Work on one unit, from its issue to its end.
struct Job {
  std::size_t run = 0, role = 0;  ///< the thread block and warpgroup it belongs to
  const Step* step = nullptr;
  Unit unit = Unit::count;
  double left = 0, begin = -1;
  int ring_load = -1;  ///< of a prefetch: which load of its ring
  bool done = false;   ///< the result can be used
};

/// A ring of stages while its thread block runs.
struct Ring {
  std::size_t loads = 0;   ///< issued
  std::vector<bool> full;  ///< by load: has arrived
  std::vector<int> freed;  ///< by load: how many consumers gave it back
};

/// A warpgroup while its thread block runs.
struct Warpgroup {
  std::size_t at = 0;                         ///< its next step
  std::size_t stage = 0;                      ///< of that step's work
  std::ptrdiff_t waits_for = nothing;         ///< a job
  std::map<std::uint16_t, std::size_t> last;  ///< by slot: the last asynchronous job on that tile
  std::vector<std::size_t> taken;             ///< by ring
  std::map<std::uint16_t, std::size_t> held;  ///< by slot: which load of its ring
};

/// A resident thread block.
struct Resident {
  const BlockStreams* streams = nullptr;
  std::size_t run = 0;  ///< index into KernelTimeline::blocks
  std::vector<Warpgroup> warpgroups;
  std::vector<Ring> rings;
  int unfinished_jobs = 0;
};

class Sm {
 public:
  Sm(const KernelStreams& kernel, const Request& request, int resident)
      : kernel_(kernel), request_(request), most_(static_cast<std::size_t>(resident)) {
    out_.name = kernel.name;
    out_.resident = resident;
    out_.texts = kernel.texts;
  }

  KernelTimeline run() {
    for (;;) {
      issue();
      if (residents_.empty()) break;
      const double step = time_to_next();
      if (step == never) throw ScheduleError(deadlock());
      pass(step);
    }
    out_.clocks = now_;
    return std::move(out_);
  }

 private:
  void start_blocks();
  void issue();
  bool advance(Resident& b, std::size_t role);
  bool prefetch(Resident& b, std::size_t role, const Step& s);
  void begin(Resident& b, std::size_t role, const Step& s, Unit u);
  bool next_stage(const Step& s, Warpgroup& w) const;
  template <class Visit>
  void each_running(Visit visit) const;
  double time_to_next() const;
  void pass(double clocks);
  void finish(std::size_t job);
  void arrive(std::size_t job);
  std::string deadlock() const;
  Resident& resident(std::size_t run) {
    return *std::find_if(residents_.begin(), residents_.end(),
                         [&](const Resident& b) { return b.run == run; });
  }

  const KernelStreams& kernel_;
  const Request& request_;
  std::size_t most_;
  KernelTimeline out_;
  double now_ = 0;
  std::vector<Resident> residents_;
  std::deque<Job> jobs_;
  std::array<std::vector<std::size_t>, unit_count> queues_;  ///< jobs by their arrival
  using Arrival = std::pair<double, std::size_t>;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;  ///< loads on their way
};

void Sm::start_blocks() {
  while (residents_.size() < most_ && out_.blocks.size() < kernel_.chosen.size()) {
    const std::int64_t index = kernel_.chosen[out_.blocks.size()];
    const BlockStreams& streams = kernel_.blocks.at(index % kernel_.blocks_per_head);
    Resident b;
    b.streams = &streams;
    b.run = out_.blocks.size();
    b.warpgroups.resize(streams.roles.size());
    for (Warpgroup& w : b.warpgroups) w.taken.resize(streams.rings.size());
    b.rings.resize(streams.rings.size());
    out_.blocks.push_back({index, streams.block.row.index, streams.block.col.index, now_, now_});
    out_.has_producer = out_.has_producer || (!streams.roles.empty() && !streams.roles[0].empty());
    out_.roles = std::max(out_.roles, static_cast<int>(streams.roles.size()));
    residents_.push_back(std::move(b));
  }
}

/// Every warpgroup issues what it can at this moment, consumers before the producer, so that Q is not queued
/// behind all of K and V that fits a ring; finished thread blocks make room for the next.
void Sm::issue() {
  start_blocks();
  for (bool moved = true; moved;) {
    moved = false;
    for (Resident& b : residents_)
      for (std::size_t r = 1; r <= b.warpgroups.size(); ++r)
        while (advance(b, r % b.warpgroups.size())) moved = true;
    const auto finished = [&](const Resident& b) {
      bool all = b.unfinished_jobs == 0;
      for (std::size_t role = 0; role < b.warpgroups.size(); ++role)
        all = all && b.warpgroups[role].at == b.streams->roles[role].size();
      if (all) out_.blocks[b.run].end = now_;
      return all;
    };
    const auto kept = std::remove_if(residents_.begin(), residents_.end(), finished);
    if (kept == residents_.end()) continue;
    residents_.erase(kept, residents_.end());
    start_blocks();
    moved = true;
  }
}

/// The next unit that the step needs; false where its work is all issued.
bool Sm::next_stage(const Step& s, Warpgroup& w) const {
  while (w.stage < stages_of_work.size() && s.clocks[static_cast<std::size_t>(stages_of_work[w.stage])] == 0)
    ++w.stage;
  return w.stage < stages_of_work.size();
}

void Sm::begin(Resident& b, std::size_t role, const Step& s, Unit u) {
  queues_[static_cast<std::size_t>(u)].push_back(jobs_.size());
  Job j;
  j.run = b.run;
  j.role = role;
  j.step = &s;
  j.unit = u;
  j.left = s.clocks[static_cast<std::size_t>(u)];
  jobs_.push_back(j);
  ++b.unfinished_jobs;
}

bool Sm::prefetch(Resident& b, std::size_t role, const Step& s) {
  const auto g = static_cast<std::size_t>(s.ring);
  Ring& ring = b.rings[g];
  const RingStreams& streams = b.streams->rings[g];
  const auto stages = static_cast<std::size_t>(streams.stages);
  if (ring.loads >= stages) {
    const std::size_t before = ring.loads - stages;  // the load whose stage is wanted
    const int takers = before < streams.takers.size() ? streams.takers[before] : 0;
    if (ring.freed[before] < takers) return false;
  }
  begin(b, role, s, Unit::copies);
  jobs_.back().ring_load = static_cast<int>(ring.loads++);
  ring.full.push_back(false);
  ring.freed.push_back(0);
  return true;
}

/// Issues the warpgroup's next step, if nothing holds it back.
bool Sm::advance(Resident& b, std::size_t role) {
  const std::vector<Step>& steps = b.streams->roles[role];
  Warpgroup& w = b.warpgroups[role];
  if (w.at == steps.size()) return false;
  const Step& s = steps[w.at];
  if (w.waits_for != nothing) {
    if (!jobs_[static_cast<std::size_t>(w.waits_for)].done) return false;
    w.waits_for = nothing;
    ++w.stage;
  }
  switch (s.what) {
    case Step::What::work:
      if (next_stage(s, w)) {
        begin(b, role, s, stages_of_work[w.stage]);
        if (!s.async) {
          w.waits_for = static_cast<std::ptrdiff_t>(jobs_.size()) - 1;
          return true;
        }
        w.last[s.slot] = jobs_.size() - 1;
      }
      break;
    case Step::What::prefetch:
      if (!prefetch(b, role, s)) return false;
      break;
    case Step::What::take: {
      const auto g = static_cast<std::size_t>(s.ring);
      const std::size_t load = w.taken[g];
      if (load >= b.rings[g].full.size() || !b.rings[g].full[load]) return false;
      ++w.taken[g];
      w.held[s.slot] = load;
      break;
    }
    case Step::What::free: {
      const auto held = w.held.find(s.slot);
      if (held != w.held.end()) ++b.rings[static_cast<std::size_t>(s.ring)].freed[held->second];
      break;
    }
    case Step::What::wait: {
      const auto job = w.last.find(s.slot);
      if (job != w.last.end() && !jobs_[job->second].done) return false;
      break;
    }
  }
  ++w.at;
  w.stage = 0;
  return true;
}

/// Visits the jobs that units work on now, with each one's share of its unit. A warpgroup's jobs on a unit
/// run in their order.
template <class Visit>
void Sm::each_running(Visit visit) const {
  for (const std::vector<std::size_t>& queue : queues_) {
    if (queue.empty()) continue;
    if (request_.sharing == Sharing::turns) {
      visit(queue.front(), 1.0);
      continue;
    }
    std::vector<std::size_t> first;
    for (const std::size_t job : queue)
      if (std::none_of(first.begin(), first.end(), [&](std::size_t other) {
            return jobs_[other].run == jobs_[job].run && jobs_[other].role == jobs_[job].role;
          }))
        first.push_back(job);
    for (const std::size_t job : first) visit(job, 1.0 / static_cast<double>(first.size()));
  }
}

double Sm::time_to_next() const {
  double soonest = arrivals_.empty() ? never : arrivals_.top().first - now_;
  each_running([&](std::size_t job, double share) { soonest = std::min(soonest, jobs_[job].left / share); });
  return soonest;
}

void Sm::pass(double clocks) {
  std::vector<std::size_t> ended;
  each_running([&](std::size_t index, double share) {
    Job& job = jobs_[index];
    if (job.begin < 0) job.begin = now_;
    job.left -= clocks * share;
    out_.busy[static_cast<std::size_t>(job.unit)] += clocks * share;
    if (job.left <= rounding) ended.push_back(index);
  });
  now_ += clocks;
  for (const std::size_t job : ended) finish(job);
  while (!arrivals_.empty() && arrivals_.top().first <= now_ + rounding) {
    const std::size_t job = arrivals_.top().second;
    arrivals_.pop();
    arrive(job);
  }
}

/// The unit is free again; what was loaded still has its latency before it.
void Sm::finish(std::size_t index) {
  const Job& job = jobs_[index];
  std::vector<std::size_t>& queue = queues_[static_cast<std::size_t>(job.unit)];
  queue.erase(std::find(queue.begin(), queue.end(), index));
  Event e;
  e.begin = job.begin;
  e.end = now_;
  e.block = static_cast<std::int32_t>(job.run);
  e.text = job.step->text;
  e.role = static_cast<std::uint8_t>(job.role);
  e.unit = job.unit;
  e.op = job.step->op;
  e.tensor = job.step->tensor;
  e.async = job.step->async;
  out_.events.push_back(e);
  if (job.step->op == Op::load && request_.latency > 0) {
    arrivals_.emplace(now_ + request_.latency, index);
  } else {
    arrive(index);
  }
}

void Sm::arrive(std::size_t index) {
  Job& job = jobs_[index];
  job.done = true;
  Resident& b = resident(job.run);
  --b.unfinished_jobs;
  if (job.ring_load >= 0)
    b.rings[static_cast<std::size_t>(job.step->ring)].full[static_cast<std::size_t>(job.ring_load)] = true;
}

std::string Sm::deadlock() const {
  const Resident& b = residents_.front();
  std::string waiting;
  for (std::size_t role = 0; role < b.warpgroups.size(); ++role) {
    const std::size_t at = b.warpgroups[role].at;
    if (at == b.streams->roles[role].size()) continue;
    const Step& s = b.streams->roles[role][at];
    waiting += (waiting.empty() ? "" : ", ") +
               (role == 0 ? std::string("the producer") : "warpgroup " + std::to_string(role)) +
               (s.what == Step::What::prefetch ? " for a free stage of " : " for ") +
               std::string(flashsim::name_of(s.tensor));
  }
  return kernel_.name + ": deadlock, every warpgroup waits for another (" + waiting +
         "); release tiles sooner or add stages";
}

}  // namespace

KernelTimeline replay(const KernelStreams& kernel, const Request& request, int resident) {
  return Sm(kernel, request, resident).run();
}

}  // namespace flashsim::timeline
