#include "gpu_kernels/check/check_run.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

namespace flashsim::gpu {
namespace {

struct Prepared {
  Case c;
  Inputs inputs;
  Reference reference;
  std::exception_ptr error;
};

Prepared prepare(const Case& c) {
  Prepared p;
  p.c = c;
  try {
    p.inputs = inputs_of(c);
    p.reference = reference_of(c.problem, p.inputs);
  } catch (...) {
    p.error = std::current_exception();
  }
  return p;
}

/// Prepares cases on several threads, at most `ahead` before the one that is taken next.
class Preparation {
 public:
  Preparation(const CheckPlan& plan, std::vector<int> numbers, int threads)
      : plan_(plan), numbers_(std::move(numbers)), ahead_(static_cast<std::size_t>(3 * threads)) {
    for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;
  ~Preparation() {
    {
      const std::lock_guard lock(mutex_);
      next_ = numbers_.size();
    }
    changed_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  /// The cases in order; rethrows what their preparation threw.
  Prepared take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_.count(taken_) > 0; });
    Prepared p = std::move(done_.extract(taken_++).mapped());
    lock.unlock();
    changed_.notify_all();
    if (p.error) std::rethrow_exception(p.error);
    return p;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return next_ >= numbers_.size() || next_ < taken_ + ahead_; });
      if (next_ >= numbers_.size()) return;
      const std::size_t at = next_++;
      lock.unlock();
      Prepared p = prepare(case_of(plan_, numbers_[at]));
      lock.lock();
      done_.emplace(at, std::move(p));
      changed_.notify_all();
    }
  }

  const CheckPlan& plan_;
  std::vector<int> numbers_;
  std::size_t ahead_, next_ = 0, taken_ = 0;
  std::map<std::size_t, Prepared> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::thread> workers_;
};

}  // namespace

int count_cases(const CheckPlan& plan) {
  return static_cast<int>(adversarial_cases().size()) + plan.random_cases;
}

Case case_of(const CheckPlan& plan, int number) {
  const int fixed = static_cast<int>(adversarial_cases().size());
  return number < fixed ? adversarial_cases()[static_cast<std::size_t>(number)]
                        : random_case(plan.seed, number - fixed);
}

bool matches(const std::string& filter, const Kernel& kernel) {
  return filter.empty() || filter == kernel.name || filter == full_name(kernel);
}

std::string why_not_checked(const Kernel& kernel, const Case& c) {
  const bool nonfinite = c.fill == Fill::nonfinite || c.fill == Fill::nonfinite_v;
  return kernel.name == "standard-cublas" && nonfinite
             ? "cuBLAS products know no mask, so Inf and NaN behind it spoil their rows"
             : "";
}

void run_checks(const CheckPlan& plan, const std::function<void(const CaseReport&)>& on_case) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) throw CudaError(reason);
  std::vector<int> numbers = plan.only;
  if (numbers.empty())
    for (int i = 0; i < count_cases(plan); ++i) numbers.push_back(i);
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  Preparation preparation(plan, numbers, plan.threads > 0 ? plan.threads : cores);
  for (const int number : numbers) {
    const Prepared prepared = preparation.take();
    CaseReport report{number, prepared.c, {}};
    const DeviceInputs inputs(prepared.c.problem, prepared.inputs);
    for (const Kernel& kernel : kernels()) {
      if (!matches(plan.kernel, kernel) || !why_not_checked(kernel, prepared.c).empty()) continue;
      for (const Variant& variant : variants_of(kernel, prepared.c.problem, plan.order)) {
        KernelReport checked = check_kernel(kernel, variant, inputs, prepared.reference);
        if (!checked.comparisons.empty() || !checked.error.empty())
          report.kernels.push_back(std::move(checked));
      }
    }
    on_case(report);
  }
}

}  // namespace flashsim::gpu
