// Who is next: a binary heap of (time, who), the earliest on top, whose top is replaced in place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace flashsim::l2 {

class Agenda {
 public:
  struct Entry {
    double time;
    int who;
  };
  explicit Agenda(std::vector<Entry> entries) : heap_(std::move(entries)) {
    std::make_heap(heap_.begin(), heap_.end(),
                   [](const Entry& a, const Entry& b) { return a.time > b.time; });
  }
  bool empty() const { return heap_.empty(); }
  const Entry& top() const { return heap_.front(); }
  void postpone_top(double time) { sift_down({time, heap_.front().who}); }
  void remove_top() {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
  }

 private:
  void sift_down(const Entry entry) {
    std::size_t i = 0;
    const std::size_t n = heap_.size();
    for (;;) {
      std::size_t child = 2 * i + 1;
      if (child >= n) break;
      if (child + 1 < n && heap_[child + 1].time < heap_[child].time) ++child;
      if (heap_[child].time >= entry.time) break;
      heap_[i] = heap_[child];
      i = child;
    }
    heap_[i] = entry;
  }
  std::vector<Entry> heap_;
};

}  // namespace flashsim::l2
