#include "simulator/cli/step_json.h"

#include <cmath>

namespace flashsim::cli {
namespace {

Json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

Json json_of_position(const Recording& r, const Frame& f) {
  Json at = {{"kernel", r.kernels[f.at.kernel].name},
             {"thread_block", {{"row", f.at.block.row.index}, {"col", f.at.block.col.index}}}};
  if (r.kernels[f.at.kernel].roles)
    at["role"] = f.at.role == 0 ? "producer" : "consumer " + std::to_string(f.at.role);
  at["head"] =
      r.packed ? Json() : Json(r.head + (f.at.visits_tile() ? f.at.rows.group : f.at.block.row.group));
  if (!f.at.visits_tile()) {
    at["tile"] = nullptr;
    return at;
  }
  at["tile"] = {{"i", f.at.rows.begin / r.tiling.block_q},
                {"j", f.at.cols.begin / r.tiling.block_k},
                {"rows", {f.at.rows.begin, f.at.rows.end()}},
                {"cols", {f.at.cols.begin, f.at.cols.end()}}};
  return at;
}

Json json_of_rows(const Recording& r, const Frame& f, const std::vector<int>& wanted) {
  static constexpr const char* names[] = {"m_before", "m", "correction", "l_before", "l", "lse", "d"};
  Json all = Json::array();
  const auto add = [&](int row) {
    Json one = {{"row", row}};
    if (r.packed) {
      one["query"] = row / r.problem.group();
      one["head"] = r.head + row % r.problem.group();
    }
    for (int q = 0; q < static_cast<int>(RowQuantity::count); ++q)
      if (!f.rows[q].values.empty()) one[names[q]] = number(f.rows[q].of(row));
    all.push_back(std::move(one));
  };
  if (wanted.empty())
    for (int row = f.first_row; row < f.first_row + f.row_count; ++row) add(row);
  for (const int row : wanted)
    if (row >= f.first_row && row < f.first_row + f.row_count) add(row);
  return all;
}

}  // namespace

Json json_of_frame(const Recording& r, std::size_t frame, const std::vector<int>& rows) {
  const Frame& f = r.frames[frame];
  Json out = {{"step", frame + 1}, {"caption", step_caption(r, frame)}, {"position", json_of_position(r, f)}};
  out["operations"] = Json::array();
  for (const ExecutedLine& x : f.lines)
    out["operations"].push_back(
        {{"text", r.kernels[f.at.kernel].listing[x.line].text}, {"times", x.times}, {"bytes", x.bytes}});
  const SramState& s = r.sram[f.sram];
  out["sram"] = {
      {"in_use", s.sram}, {"capacity", r.capacity}, {"registers", s.registers}, {"tiles", Json::array()}};
  for (const LiveTile& x : s.tiles)
    out["sram"]["tiles"].push_back({{"tensor", name_of(x.tensor)},
                                    {"rows", x.rows},
                                    {"cols", x.cols},
                                    {"bytes", x.bytes},
                                    {"in", x.in_sram ? "sram" : "registers"}});
  out["rows"] = json_of_rows(r, f, rows);
  Json moved = {{"total", r.requested(f)}, {"by_tensor", Json::array()}};
  for (std::size_t k = 0; k < r.moves.size(); ++k) {
    static constexpr const char* names[] = {"read", "written", "reduced"};
    if (const std::int64_t bytes = r.requested(frame, k); bytes > 0)
      moved["by_tensor"].push_back({{"tensor", name_of(r.moves[k].tensor)},
                                    {"direction", names[static_cast<int>(r.moves[k].direction)]},
                                    {"bytes", bytes}});
  }
  if (r.has_standard) {
    moved["standard_same_tiles"] = f.standard;
    moved["standard_n_by_n"] = f.standard_scores;
  }
  out["requested_bytes"] = std::move(moved);
  out["tiles_done"] = f.tiles_done;
  out["outputs"] = Json::array();
  for (std::size_t k = 0; k < r.outputs.size(); ++k) {
    const OutputState& o = f.outputs[k];
    Json one = {{"tensor", name_of(r.outputs[k])}, {"rows_finished", o.finished}};
    if (o.finished > 0) {
      one["largest_error"] = number(o.error);
      one["at"] = {{"head", o.head}, {"row", o.row}, {"col", o.col}};
    }
    if (!(o.distance < 0)) one["sum_so_far_is_off_by"] = number(o.distance);
    out["outputs"].push_back(std::move(one));
  }
  return out;
}

}  // namespace flashsim::cli
