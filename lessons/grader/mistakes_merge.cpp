// WrongMerge ways to merge the parts of split keys.
#include <utility>

#include "lessons/exercises/given/steps.h"
#include "lessons/grader/rubric.h"

namespace flashsim::lessons {
namespace {

using enum Tensor;

enum class WrongMerge { average, plain_sum, unweighted, no_maximum, no_rescale, first_only };

template <WrongMerge wrong>
void merge_with(Device& gpu, const Problem& p, const Tiling& t) {
  given::decoding_split(gpu, p, t);
  const Blocks splits = key_splits(p, t);
  gpu.kernel("merge", packed_row_blocks(p, t), [&](Machine& sm, Block i) {
    Tile Oi = sm.zeros(O, i), li = sm.zeros(l, i), mi = sm.fill(m, i, -infinity);
    for (Block s : splits) {
      Tile Ls = sm.load(LSE_part, in_part(i, s.index)), Os = sm.load(O_part, in_part(i, s.index));
      if (wrong == WrongMerge::first_only && s.index > 0) continue;
      Tile m_new = wrong == WrongMerge::no_maximum ? sm.fill(m, i, 0) : sm.max(mi, Ls);
      Tile correction = sm.exp_difference(mi, m_new), weight = sm.exp_difference(Ls, m_new);
      if (wrong == WrongMerge::no_maximum) {
        sm.add(li, weight);
        sm.add(Oi, sm.scale_rows(Os, weight));
      } else if (wrong == WrongMerge::average || wrong == WrongMerge::plain_sum) {
        sm.add(sm.scale_rows(li, correction), weight);
        sm.add(Oi, Os);
      } else {
        if (wrong != WrongMerge::no_rescale) sm.scale_rows(li, correction), sm.scale_rows(Oi, correction);
        sm.add(li, weight);
        if (wrong != WrongMerge::unweighted) sm.scale_rows(Os, weight);
        sm.add(Oi, Os);
      }
      mi = std::move(m_new);
    }
    if (wrong == WrongMerge::average) sm.multiply(Oi, 1.0 / splits.count());
    if (wrong != WrongMerge::average && wrong != WrongMerge::plain_sum) sm.divide_rows(Oi, li);
    sm.store(O, i, Oi);
    sm.store(LSE, i, sm.log_sum(mi, li));
  });
}

}  // namespace

std::vector<Mistake> merge_mistakes() {
  return {
      {"the parts are averaged",
       "A part with a larger sum counts more: weight each by exp(LSE_s), and divide by the sum of the "
       "weights.",
       merge_with<WrongMerge::average>},
      {"the parts are added up",
       "Each part is an average already, so a plain sum is too large: weight each by exp(LSE_s) over the sum "
       "of weights.",
       merge_with<WrongMerge::plain_sum>},
      {"the parts of O are not weighted",
       "li collects weights exp(LSE_s - m), so Oi must collect O_s times the same weights.",
       merge_with<WrongMerge::unweighted>},
      {"no maximum is subtracted from LSE",
       "exp(LSE_s) may overflow: take exp(LSE_s - m), with m the largest so far.",
       merge_with<WrongMerge::no_maximum>},
      {"what was merged before is not rescaled when the maximum grows",
       "As in the tile loop: multiply li and Oi by exp(m_old - m_new).", merge_with<WrongMerge::no_rescale>},
      {"only the first part counts", "Take every part of key_splits(p, t) into the sum.",
       merge_with<WrongMerge::first_only>},
  };
}

}  // namespace flashsim::lessons
