// Typical wrong solutions: every one is rejected, and the hint names what was done.
#include "lessons/grader/diagnosis.h"
#include "lessons/grader/rubric.h"
#include "tests/lessons/submissions.h"

using namespace flashsim;
using namespace flashsim::testing;
using lessons::Mistake;
using lessons::Rubric;

TEST_CASE("every mistake of every rubric is rejected by it, and recognised by what it does") {
  for (const std::uint64_t seed : {std::uint64_t{0}, lessons::seed_of("another")})
    for (const lessons::Exercise& e : lessons::exercises()) {
      if (e.kind != lessons::Kind::schedule) continue;
      const Rubric rubric = lessons::rubric_of(e.number, seed);
      CAPTURE(e.name);
      CAPTURE(seed);
      std::vector<lessons::Run> references;
      std::vector<Truth> truths;
      for (const lessons::Case& c : rubric.cases) {
        truths.push_back(lessons::truth_of(c));
        references.push_back(lessons::run_reference(rubric.reference, c, truths.back()));
        CHECK_MESSAGE(references.back().right(), c.name);
      }
      for (const Mistake& m : rubric.mistakes) {
        CAPTURE(m.name);
        bool rejected = false, recognised = false;
        std::string taken_for;
        for (std::size_t i = 0; i < rubric.cases.size(); ++i) {
          const lessons::Run run = lessons::run_reference(m.schedule, rubric.cases[i], truths[i]);
          const bool more_bytes = run.traffic.requested_bytes() > references[i].traffic.requested_bytes();
          if (!run.fault.empty() || (m.seen_in != nullptr ? more_bytes : !run.right())) rejected = true;
          if (const Mistake* found =
                  lessons::recognise(rubric, rubric.cases[i], truths[i], run, references[i]);
              found != nullptr) {
            recognised = recognised || found->name == m.name;
            if (found->name != m.name) taken_for = found->name;
          }
        }
        // A mistake that this exercise's cases cannot show is of no use in its list.
        CHECK(rejected);
        CHECK_MESSAGE(recognised, "taken for: ", taken_for);
      }
    }
}

TEST_CASE("wrong solutions as files get the hint that names their mistake") {
  const struct {
    int exercise;
    const char *from, *to, *mistake;
  } wrong[] = {
      {1, "before.l * std::exp(before.m - after.m)", "before.l", "not rescaled"},
      {1, "std::exp(before.m - after.m)", "std::exp(after.m - before.m)", "inverted"},
      {2, "sm.divide_rows(Pr, sm.row_sum(Pr))", "Pr", "not divided"},
      {3, "sm.scale_rows(Oi, correction);", "", "O is not rescaled"},
      {3, "sm.max(mi, sm.row_max(Sij))", "sm.row_max(Sij)", "this tile's"},
      {3, "scale_of(p)", "1", "not scaled"},
      {3, "sm.store(O, i, sm.divide_rows(Oi, li));",
       "sm.divide_rows(Oi, li); sm.store(O, i, sm.divide_rows(Oi, li));", "normalised twice"},
      {3, "col_blocks(p, t)", "blocks(p.seqlen_k / t.block_k * t.block_k, t.block_k)",
       "ragged tile is left out"},
      {3, "sm.add_matmul(Oi, Pij, Vj);", "sm.store(P, i, j, Pij); sm.add_matmul(Oi, Pij, Vj);",
       "S and P go through HBM"},
      {4, "i.end() + p.seqlen_k - p.seqlen_q", "i.end()", "top-left"},
      {4, "sm.mask(Sij, i, j);\n", "", "mask is missing"},
      {6,
       "sm.mask(Sij, i, j);\n      Tile m_new = sm.max(mi, sm.row_max(Sij));\n      Tile& Pij = sm.exp(Sij, "
       "m_new);",
       "Tile m_new = sm.max(mi, sm.row_max(Sij));\n      Tile& Pij = sm.exp(Sij, m_new);\n      sm.mask(Pij, "
       "i, j);",
       "after the softmax"},
      {6, "sm.divide_rows(Oi, li)", "Oi", "never divided"},
      {8, "      sm.dropout(dPij, i, j);\n", "", "dP lacks"},
      {9, "sm.scale_rows(Os, weight)", "Os", "not weighted"},
  };
  for (const auto& w : wrong) {
    CAPTURE(w.exercise);
    CAPTURE(w.to);
    const lessons::Exercise& e = *lessons::find_exercise(w.exercise);
    const lessons::ExerciseGrade g = graded(w.exercise, replaced(text_of(key_of(e)), w.from, w.to));
    INFO(all_text(g));
    CHECK_FALSE(g.passed());
    CHECK(g.mistake.find(w.mistake) != std::string::npos);
    CHECK(g.hint.size() > 20);
  }
}

TEST_CASE("partial credit: half for a quarter more bytes, nothing for what was given") {
  // S and P kept, but V loaded twice: right, and too many bytes.
  const lessons::Exercise& e = *lessons::find_exercise(3);
  const lessons::ExerciseGrade g =
      graded(3, replaced(text_of(key_of(e)), "sm.add_matmul(Oi, Pij, Vj);",
                         "{ Tile again = sm.load(V, j); } sm.add_matmul(Oi, Pij, Vj);"));
  INFO(all_text(g));
  CHECK(g.earned() > 8);
  CHECK(g.earned() < 10);
  for (const lessons::CheckGrade& c : g.checks)
    if (c.name == "requested bytes") {
      CHECK(c.earned < c.points);
      CHECK(c.message.find("times the") != std::string::npos);
    }
}
