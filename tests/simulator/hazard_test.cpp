// A tile used, or dead, before its wait is an error that the executors raise.
#include <doctest/doctest.h>

#include "simulator/executors/hazard.h"
#include "simulator/executors/traffic.h"

using namespace flashsim;
using enum flashsim::Tensor;

namespace {

template <class Body>
std::string fault_of_body(Body body) {
  Problem p;
  p.seqlen_q = p.seqlen_k = 8;
  p.head_dim = 4;
  const Tiling t;
  Traffic counts(p, t);
  Hazard hazard(counts);
  SerialDevice gpu(p, hazard);
  try {
    gpu.kernel("test", row_blocks(p, t), [&](Machine& sm, Block i) { body(sm, i); });
  } catch (const ScheduleError& e) {
    return e.what();
  }
  return "";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("waiting makes asynchronous results usable") {
  CHECK(fault_of_body([](Machine& sm, Block i) {
          Tile q = sm.load(Q, i), k = sm.load(K, i), v = sm.load(V, i), o = sm.zeros(O, i);
          Tile s = sm.matmul_nt_async(S, q, k);
          sm.wait(s);
          Tile next = sm.matmul_nt_async(S, q, k);
          sm.add_matmul_async(o, s, v);
          sm.add_matmul_async(o, s, v);  // products may queue up on one accumulator
          sm.wait(o);                    // and this also waits for `next`, which was issued before
          sm.row_max(next);
          sm.store(O, i, o);
        }) == "");
}

TEST_CASE("reading a result in flight") {
  CHECK(contains(fault_of_body([](Machine& sm, Block i) {
                   Tile q = sm.load(Q, i), k = sm.load(K, i);
                   Tile s = sm.matmul_nt_async(S, q, k);
                   sm.row_max(s);
                   sm.wait(s);
                 }),
                 "S is read while an asynchronous operation on it is in flight"));
}

TEST_CASE("a wait does not cover what was issued after it") {
  CHECK(contains(fault_of_body([](Machine& sm, Block i) {
                   Tile q = sm.load(Q, i), k = sm.load(K, i), v = sm.load(V, i), o = sm.zeros(O, i);
                   Tile s = sm.matmul_nt_async(S, q, k);
                   sm.wait(s);
                   sm.add_matmul_async(o, s, v);
                   sm.store(O, i, o);
                   sm.wait(o);
                 }),
                 "O is read while"));
}

TEST_CASE("changing an operand in flight") {
  CHECK(contains(fault_of_body([](Machine& sm, Block i) {
                   Tile q = sm.load(Q, i), k = sm.load(K, i), v = sm.load(V, i), o = sm.zeros(O, i);
                   Tile s = sm.matmul_nt(S, q, k);
                   sm.add_matmul_async(o, s, v);
                   sm.multiply(s, 2);
                   sm.wait(o);
                 }),
                 "S is used while"));
}

TEST_CASE("an operand that dies in flight") {
  CHECK(contains(fault_of_body([](Machine& sm, Block i) {
                   Tile q = sm.load(Q, i), o = sm.zeros(O, i), k = sm.load(K, i);
                   Tile s = sm.matmul_nt(S, q, k);
                   {
                     Tile v = sm.load(V, i);
                     sm.add_matmul_async(o, s, v);
                   }
                   sm.wait(o);
                 }),
                 "V dies while"));
}

TEST_CASE("a thread block that ends without waiting") {
  CHECK(fault_of_body([](Machine& sm, Block i) {
          Tile q = sm.load(Q, i), k = sm.load(K, i);
          Tile s = sm.matmul_nt_async(S, q, k);
        }) != "");
}

TEST_CASE("a consumer that waits for a load nobody issues") {
  CHECK(contains(fault_of_body([](Machine& sm, Block) {
                   Ring ring = sm.ring(K, 8, 2);
                   sm.consumers(1, [&](Machine& wg, int) { wg.take(ring); });
                 }),
                 "never loads K"));
}

TEST_CASE("shapes that do not fit are named") {
  CHECK(contains(fault_of_body([](Machine& sm, Block i) {
                   Tile q = sm.load(Q, i), k = sm.load(K, i), o = sm.zeros(O, i);
                   sm.add_matmul(o, q, k);
                 }),
                 "add_matmul"));
}
