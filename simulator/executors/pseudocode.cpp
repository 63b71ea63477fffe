#include "simulator/executors/pseudocode.h"

#include <cmath>
#include <cstdio>

namespace flashsim {
namespace {

std::string number(double x) {
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.4g", x);
  return digits;
}

/// "256 P_ij"; the factor 1 is left out.
std::string times(double factor, const std::string& x) { return factor == 1 ? x : number(factor) + " " + x; }

/// A product's factor by its name: it is the softmax scale wherever the schedules put one.
std::string scaled(double factor, const std::string& product) {
  return factor == 1 ? product : "scale * " + product;
}

}  // namespace

std::string block_name(Tensor x) {
  std::string text(name_of(x));
  if (x == Tensor::correction) return text;
  if (x == Tensor::V_scale) return text;
  return text + (is_part(x) ? "_is" : is_score_shaped(x) ? "_ij" : is_key_side(x) ? "_j" : "_i");
}

std::string& Pseudocode::name(const TileRef& t) {
  if (t.slot >= names_.size()) names_.resize(t.slot + 1);
  return names_[t.slot];
}

void Pseudocode::release(const TileRef& t) noexcept {
  if (t.slot >= names_.size()) return;
  if (names_[t.slot] == "m_i")
    for (std::string& n : names_)
      if (n == "m_new") n.resize(3), n[2] = 'i';  // shorter, so nothing is thrown
  names_[t.slot].clear();
}

std::string Pseudocode::line(const Operation& o) {
  const bool arrives = o.kind == Op::load && o.async;
  return (o.async && !arrives ? "start " : "") + text(o);
}

std::string Pseudocode::text(const Operation& o) {
  const auto in = [&](const TileRef* t) { return t == nullptr ? std::string() : name(*t); };
  const auto named = [&](std::string n) -> const std::string& { return name(*o.out) = std::move(n); };
  switch (o.kind) {
    case Op::load:
      if (o.out->slot == TileRef::no_slot) return "prefetch " + block_name(o.tensor);
      return "load " + named(block_name(o.tensor));
    case Op::take: return "take " + named(block_name(o.tensor));
    case Op::store: {
      const std::string to = block_name(o.tensor), from = in(o.a);
      return from == to ? "store " + to : "store " + to + " = " + from;
    }
    case Op::reduce_add: return "add " + in(o.a) + " to " + block_name(o.tensor) + " in memory";
    case Op::reduce_max: return "store the larger of " + in(o.a) + " and " + block_name(o.tensor);
    case Op::fill: return named(block_name(o.out->tensor)) + " = " + number(o.scale);
    case Op::copy: return named(block_name(o.out->tensor)) + " = " + in(o.a);
    case Op::convert:
      return in(o.out) + " = " + flashsim::name_of(o.out->dtype) + "(" + times(o.scale, in(o.out)) + ")";
    case Op::matmul_nt: {
      const std::string product = in(o.a) + " " + in(o.b) + "^T";
      return named(block_name(o.out->tensor)) + " = " + scaled(o.scale, product);
    }
    case Op::add_matmul: return in(o.out) + " += " + scaled(o.scale, in(o.a) + " " + in(o.b));
    case Op::add_matmul_tn: return in(o.out) + " += " + scaled(o.scale, in(o.a) + "^T " + in(o.b));
    case Op::mask: return "mask " + in(o.out);
    case Op::dropout: return in(o.out) + " = dropout(" + in(o.out) + ")";
    case Op::exp: {
      const std::string s = in(o.out);
      return named("P_ij") + " = exp(" + s + " - " + in(o.a) + ")";
    }
    case Op::exp_difference:
      return named(in(o.a) == "m_i" ? "correction" : "weight") + " = exp(" + in(o.a) + " - " + in(o.b) + ")";
    case Op::softmax_gradient: {
      const std::string dp = in(o.out);
      return named("dS_ij") + " = " + in(o.a) + " o (" + dp + " - " + in(o.b) + ")";
    }
    case Op::multiply:
      if (o.a != nullptr) return in(o.out) + " = " + in(o.out) + " o " + in(o.a);
      return in(o.out) + " = " + times(o.scale, in(o.out));
    case Op::row_max: return named("m_tile") + " = rowmax(" + in(o.a) + ")";
    case Op::row_sum: return named("l_tile") + " = rowsum(" + in(o.a) + ")";
    case Op::add_row_sum: return in(o.out) + " += rowsum(" + in(o.a) + ")";
    case Op::row_dot: return named("D_i") + " = rowsum(" + in(o.a) + " o " + in(o.b) + ")";
    case Op::max: return named("m_new") + " = max(" + in(o.a) + ", " + in(o.b) + ")";
    case Op::add: return in(o.out) + " += " + in(o.a);
    case Op::scale_rows: return in(o.out) + " = " + in(o.a) + " * " + in(o.out);
    case Op::divide_rows: return in(o.out) + " = " + in(o.out) + " / " + in(o.a);
    case Op::log_sum: {
      const std::string m = in(o.out);
      return named("LSE_i") + " = " + m + " + log(" + in(o.a) + ")";
    }
    case Op::rotate: return in(o.out) + " = Hadamard(" + in(o.out) + ")";
    case Op::abs_max: return named(block_name(o.out->tensor)) + " = max |" + in(o.a) + "|";
    case Op::quantise: {
      const std::string x = in(o.out);
      return named(block_name(o.out->tensor)) + " = e4m3(448 " + x + " / " + in(o.a) + ")";
    }
    case Op::scale_all: return in(o.out) + " = " + in(o.a) + " * " + times(o.scale, in(o.out));
    case Op::wait: return "wait for " + in(o.out);
    case Op::count: break;
  }
  return std::string(flashsim::name_of(o.kind));
}

}  // namespace flashsim
