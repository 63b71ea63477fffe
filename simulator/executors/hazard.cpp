#include "simulator/executors/hazard.h"

#include <algorithm>
#include <utility>

namespace flashsim {

void Hazard::begin_block(const ThreadBlock& b) {
  flying_.clear();
  fault_.clear();
  next_.begin_block(b);
}

void Hazard::raise() {
  if (!fault_.empty()) throw ScheduleError(std::exchange(fault_, {}));
}

void Hazard::require_done(const TileRef* t, bool reads_only, const char* what) {
  if (t == nullptr || t->slot == TileRef::no_slot) return;
  for (const InFlight& f : flying_)
    if (f.slot == t->slot && (f.written || !reads_only))
      throw ScheduleError(std::string(name_of(t->tensor)) + " is " + what +
                          " while an asynchronous operation on it is in flight; wait for it first");
}

void Hazard::execute(const Operation& o) {
  raise();
  if (o.kind == Op::wait) {
    // Operations of a role finish in order: up to the last one on this tile, everything is done.
    const auto last = std::find_if(flying_.rbegin(), flying_.rend(),
                                   [&](const InFlight& f) { return f.written && f.slot == o.out->slot; });
    auto end = last.base();
    while (end != flying_.end() && !end->written) ++end;  // that operation's operands
    flying_.erase(flying_.begin(), last == flying_.rend() ? flying_.begin() : end);
  } else if (!(o.kind == Op::load && o.async)) {
    require_done(o.a, true, "read");
    require_done(o.b, true, "read");
    const bool accumulates = o.async && o.kind == Op::add_matmul;
    if (!accumulates) require_done(o.out, false, o.out == nullptr ? "" : "used");
    if (o.async) {
      flying_.push_back({o.out->slot, o.out->tensor, true});
      for (const TileRef* operand : {o.a, o.b}) flying_.push_back({operand->slot, operand->tensor, false});
    }
  }
  next_.execute(o);
}

void Hazard::release(const TileRef& t, int role) noexcept {
  for (const InFlight& f : flying_)
    if (f.slot == t.slot && fault_.empty()) try {
        fault_ = std::string(name_of(t.tensor)) +
                 " dies while an asynchronous operation on it is in flight; wait for it first";
      } catch (...) {  // out of memory for the message: the schedule's fault goes unnoticed, nothing worse
      }
  next_.release(t, role);
}

void Hazard::end_block() {
  raise();
  for (const InFlight& f : flying_)
    if (f.written)
      throw ScheduleError("the thread block ends while an asynchronous operation on " +
                          std::string(name_of(f.tensor)) + " is in flight; wait for it first");
  next_.end_block();
}

}  // namespace flashsim
