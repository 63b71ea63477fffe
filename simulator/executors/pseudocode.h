// Writes an operation as the papers would: "S_ij = Q_i K_j^T * scale". The text comes from the operation that
// ran, so it cannot differ from what was executed.
#pragma once

#include <string>
#include <vector>

#include "simulator/machine/operation.h"

namespace flashsim {

class Pseudocode {
 public:
  void begin_block() { names_.clear(); }
  /// The operation as a line of plain ASCII. Tiles keep the name of the line that made them.
  std::string line(const Operation& o);
  /// A new maximum becomes m_i when the old one dies, as in `mi = std::move(m_new)`.
  void release(const TileRef& t) noexcept;
  /// What a live tile is called: "m_i", "correction", ...
  const std::string& name_of(const TileRef& t) { return name(t); }

 private:
  std::string& name(const TileRef& t);
  std::string text(const Operation& o);

  std::vector<std::string> names_;  ///< by slot; empty where no tile lives
};

/// The name of a tensor's block: "Q_i", "K_j", "S_ij".
std::string block_name(Tensor x);

}  // namespace flashsim
