#include "simulator/executors/listing.h"

#include <algorithm>
#include <set>

namespace flashsim {
namespace {

bool joins(Op kind) { return kind == Op::load || kind == Op::take || kind == Op::fill || kind == Op::store; }

/// "load K_j" and "load V_j" become "load K_j, V_j"; fills are listed as they are.
std::string joined(const std::string& a, Op kind, const std::string& b) {
  const bool verb = kind != Op::fill;
  return a + ", " + (verb ? b.substr(b.find(' ') + 1) : b);
}

/// "store O_i" after "O_i = O_i / l_i".
bool stores_result(Op kind, const std::string& text, const std::string& above) {
  return kind == Op::store && text.find('=') == std::string::npos &&
         above.rfind(text.substr(text.find(' ') + 1) + " =", 0) == 0;
}

}  // namespace

void Listing::begin_block() {
  at_ = -1;
  role_ = 1;
  now_ = {};
}

/// New lines stand after the last known line, unless the role's text ended with them.
void Listing::place_pending(bool at_end) {
  std::vector<int>& order = order_[role_ == 0];
  const auto place = at_end ? order.end() : order.begin() + at_ + 1;
  at_ = (place - order.begin()) + static_cast<std::ptrdiff_t>(pending_.size()) - 1;
  order.insert(place, pending_.begin(), pending_.end());
  pending_.clear();
}

int Listing::add(const std::string& text, Op kind, int role, bool in_visit) {
  const bool producer = role == 0;
  if (role != role_) {
    place_pending(true);
    role_ = role;
    at_ = -1;
  }
  const auto [found, is_new] =
      number_.try_emplace({producer, kind == Op::fill && in_visit, text}, static_cast<int>(lines_.size()));
  const int line = found->second;
  if (is_new) {
    lines_.push_back({text, kind, producer, in_visit});
    pending_.push_back(line);
  } else {
    // A line that is itself pending closes a loop of new lines, which follows all that is known.
    if (!pending_.empty()) place_pending(std::find(pending_.begin(), pending_.end(), line) != pending_.end());
    const std::vector<int>& order = order_[producer];
    at_ = std::find(order.begin(), order.end(), line) - order.begin();
  }
  if (role <= 1) {
    now_.times.resize(std::max<std::size_t>(now_.times.size(), line + 1));
    ++now_.times[line];
    ++now_.total;
  }
  return line;
}

void Listing::end_step(const StepPosition& at) {
  if (at.visits_tile() && at.role <= 1) now_.visits.emplace_back(at.rows.begin, at.cols.begin);
}

void Listing::end_block() {
  place_pending(true);
  if (now_.total > longest_.total) longest_ = now_;
}

/// The producer's lines, then the consumers'.
std::vector<int> Listing::in_order() const {
  std::vector<int> all = order_[1];
  all.insert(all.end(), order_[0].begin(), order_[0].end());
  return all;
}

int Listing::times(int line) const {
  return static_cast<std::size_t>(line) < longest_.times.size() ? longest_.times[line] : 0;
}

/// Consecutive visits differ in their rows: the loop over i is the inner one.
bool Listing::rows_inside() const {
  const auto& v = longest_.visits;
  return v.size() > 1 && v[0].second == v[1].second;
}

/// How often the outer of two loops over tiles turned; 1 where there is only one loop.
int Listing::outer_steps() const {
  std::set<int> outer, inner;
  for (const auto& [row, col] : longest_.visits) {
    outer.insert(rows_inside() ? col : row);
    inner.insert(rows_inside() ? row : col);
  }
  return inner.size() > 1 ? static_cast<int>(outer.size()) : 1;
}

/// How many loops each line stands in. A line that ran once stands in none, one that ran as often as the
/// outer loop turned in one; what visits do between lines of the innermost loop belongs to it, however rarely
/// it ran (a mask).
std::vector<int> Listing::depths(const std::vector<int>& order) const {
  const int outer = outer_steps(), innermost = outer > 1 ? 2 : 1;
  std::vector<int> depth(order.size(), 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const int n = times(order[k]);
    depth[k] = n <= 1 ? 0 : outer > 1 && n <= outer ? 1 : innermost;
  }
  for (const bool producer : {true, false}) {
    const auto here = [&](std::size_t k) { return lines_[order[k]].producer == producer; };
    std::size_t first = order.size(), last = 0;
    for (std::size_t k = 0; k < order.size(); ++k)
      if (depth[k] == innermost && here(k)) {
        first = std::min(first, k);
        last = k;
      }
    for (std::size_t k = first; k < last; ++k)
      if (here(k) && lines_[order[k]].in_visit) depth[k] = innermost;
  }
  return depth;
}

std::string Listing::loop_head(const std::vector<int>& order, const std::vector<int>& depth, std::size_t from,
                               int level) const {
  bool tiles = false;
  for (std::size_t k = from; k < order.size() && depth[k] >= level; ++k) {
    const Line& line = lines_[order[k]];
    tiles = tiles || line.producer || line.text.find("_ij") != std::string::npos;
  }
  if (!tiles) return "for each part s:";
  const std::set<std::pair<int, int>> different(longest_.visits.begin(), longest_.visits.end());
  if (different.size() <= 1) return "for each row:";
  const bool rows = (level == 1 && outer_steps() > 1) != rows_inside();
  return rows ? "for each tile i of Q:" : "for each tile j of K, V:";
}

std::vector<ListingLine> Listing::finish(std::vector<int>& line_of) const {
  const std::vector<int> order = in_order(), depth = depths(order);
  std::vector<ListingLine> text;
  line_of.assign(lines_.size(), 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Line& line = lines_[order[k]];
    const Line* above = k > 0 ? &lines_[order[k - 1]] : nullptr;
    const bool above_has_store = above != nullptr && text.back().text.find("; store") != std::string::npos;
    const bool same_section = above != nullptr && above->producer == line.producer;
    if (same_section && depth[k] == depth[k - 1] && line.kind == above->kind && joins(line.kind) &&
        !above_has_store && times(order[k]) == times(order[k - 1])) {
      text.back().text = joined(text.back().text, line.kind, line.text);
    } else if (same_section && depth[k] == depth[k - 1] && times(order[k]) == times(order[k - 1]) &&
               stores_result(line.kind, line.text, above->text)) {
      text.back().text += "; store";
    } else {
      for (int level = (same_section ? depth[k - 1] : 0) + 1; level <= depth[k]; ++level)
        text.push_back({loop_head(order, depth, k, level), level - 1, line.producer, true});
      text.push_back({line.text, depth[k], line.producer, false});
    }
    line_of[order[k]] = static_cast<int>(text.size()) - 1;
  }
  return text;
}

}  // namespace flashsim
