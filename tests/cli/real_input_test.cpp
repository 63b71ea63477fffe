// The Q, K and V under lessons/data are what their README says.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "cpu_reference/oracle.h"
#include "simulator/cli/npy.h"

using namespace flashsim;

namespace {

const std::string kFolder = FLASHSIM_LESSON_DATA;

struct RealInput {
  Problem p;
  std::vector<double> q, k, v;
  std::vector<std::string> tokens;
};

RealInput real_input() {
  RealInput x;
  const NpyArray q = read_npy(kFolder + "/minilm_q.npy"), k = read_npy(kFolder + "/minilm_k.npy"),
                 v = read_npy(kFolder + "/minilm_v.npy");
  for (const NpyArray* a : {&q, &k, &v}) {
    REQUIRE(a->shape == std::vector<int>{12, 144, 32});
    REQUIRE(a->dtype == Dtype::fp16);
  }
  x.p.heads_q = x.p.heads_kv = 12;
  x.p.seqlen_q = x.p.seqlen_k = 144;
  x.p.head_dim = 32;
  x.q = q.values;
  x.k = k.values;
  x.v = v.values;
  std::ifstream file(kFolder + "/minilm_tokens.txt");
  for (std::string token; std::getline(file, token);) x.tokens.push_back(token);
  return x;
}

AttentionRow row_of(const RealInput& x, int head, int row) {
  return attention_row(x.p, row, matrix_of(x.q, head, 144, 32), matrix_of(x.k, head, 144, 32));
}

}  // namespace

TEST_CASE("head 1 resolves the pronouns") {
  const RealInput x = real_input();
  REQUIRE(x.tokens.size() == 144);
  struct Look {
    int row;
    std::string from, to;
    double weight;
  };
  for (const Look& look : {Look{16, "she", "reader", 0.51}, Look{113, "it", "table", 0.25}}) {
    const AttentionRow a = row_of(x, 1, look.row);
    Eigen::Index at = 0;
    const double weight = a.p.maxCoeff(&at);
    CHECK(x.tokens[look.row] == look.from);
    CHECK(x.tokens[at] == look.to);
    CHECK(std::abs(weight - look.weight) <= 0.005);  // as printed, to two places
  }
}

TEST_CASE("scores and weights are as the README says") {
  const RealInput x = real_input();
  double largest_score = 0, smallest_score = 0, first_column[12] = {}, entropy[12] = {}, largest_weight = 0;
  for (int head = 0; head < 12; ++head)
    for (int row = 0; row < 144; ++row) {
      const AttentionRow a = row_of(x, head, row);
      CHECK(std::abs(a.p.sum() - 1) <= 144 * 0x1p-53);
      largest_score = std::max(largest_score, a.scores.maxCoeff());
      smallest_score = std::min(smallest_score, a.scores.minCoeff());
      if (head == 11) largest_weight = std::max(largest_weight, a.p.maxCoeff());
      for (const double w : a.p) entropy[head] -= w * std::log(w) / std::log(144.0) / 144;
      first_column[head] += a.p(0) / 144;
    }
  CHECK(std::abs(largest_score - 7.4) <= 0.05);
  CHECK(std::abs(smallest_score + 17.1) <= 0.05);
  CHECK(largest_weight < 0.2);
  CHECK(std::abs(entropy[11] - 0.90) <= 0.005);
  CHECK(std::abs(entropy[8] - 0.44) <= 0.005);
  CHECK(*std::min_element(entropy, entropy + 12) == entropy[8]);
  CHECK(std::count_if(first_column, first_column + 12, [](double w) { return w > 0.145 && w < 0.415; }) ==
        11);
}

TEST_CASE("every output is a mean of rows of V") {
  const RealInput x = real_input();
  const TensorForward f = oracle_forward(x.p, x.q, x.k, x.v);
  for (int head = 0; head < 12; ++head) {
    const auto v = matrix_of(x.v, head, 144, 32), o = matrix_of(f.o, head, 144, 32);
    const double rounding = 144 * 0x1p-52 * v.cwiseAbs().maxCoeff();
    for (int col = 0; col < 32; ++col) {
      CHECK(o.col(col).maxCoeff() <= v.col(col).maxCoeff() + rounding);
      CHECK(o.col(col).minCoeff() >= v.col(col).minCoeff() - rounding);
    }
  }
}
