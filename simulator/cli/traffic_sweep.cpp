// flashsim traffic --sweep: how the counts grow with n, the block or the SRAM, beside what the paper proves.
#include <fmt/format.h>

#include <algorithm>

#include "simulator/cli/errors.h"
#include "simulator/cli/json.h"
#include "simulator/cli/picture.h"
#include "simulator/cli/table.h"
#include "simulator/cli/traffic_options.h"
#include "simulator/report/theory.h"

namespace flashsim::cli {
namespace {

struct Point {
  std::int64_t value;
  Problem problem;
  std::int64_t sram;  ///< bytes, M of the paper
  struct Entry {
    Candidate candidate;
    std::string algorithm;
    Tiling tiling;
    TensorTraffic moved;  ///< all passes together
  };
  std::vector<Entry> entries;
};

/// What is counted at this value. Throws UsageError where it cannot be.
Point point_at(const TrafficOptions& o, std::int64_t value) {
  Point point{value, o.problem.problem(), o.paper_sram(), {}};
  Problem& p = point.problem;
  TrafficOptions at = o;
  const Sweep::What what = o.sweep->what;
  if (what == Sweep::What::n) {
    p = o.problem.problem(static_cast<int>(parse_integer("--sweep n", std::to_string(value), 1, 1 << 24)));
  } else if (what == Sweep::What::block) {
    at.tiling.set_block(
        static_cast<int>(parse_integer("--sweep block", std::to_string(value), 1, p.seqlen_q)));
  } else {
    point.sram = value;
  }
  for (const Candidate& c : o.chosen(p)) {
    Tiling t = at.tiling_of(c, p);
    // The paper chooses its blocks by the SRAM.
    if (what == Sweep::What::sram && !(o.streaming && t.block_k == p.seqlen_k))
      t = paper_blocks(t, p, double(value) / bytes_of(p.dtype));
    require_countable(p, t);
    point.entries.push_back({c, c.name(), t, {}});
  }
  return point;
}

void count_accesses(const TrafficOptions& o, Point& point) {
  const Problem& p = point.problem;
  for (Point::Entry& e : point.entries)
    for (const Pass pass : o.passes) {
      const bool backward = pass == Pass::backward;
      if (e.candidate.has(backward))
        e.moved += sum(count_traffic(e.candidate.program(backward, p, e.tiling), p, e.tiling)).total();
    }
}

std::string label_of(Sweep::What what) {
  return what == Sweep::What::n ? "n" : what == Sweep::What::block ? "block" : "SRAM";
}
std::string text_of(Sweep::What what, std::int64_t value) {
  return what == Sweep::What::sram ? binary_bytes(double(value)) : grouped(value);
}

std::string text_of(const TrafficOptions& o, const std::vector<Point>& points, const Style& style,
                    int width) {
  const Sweep::What what = o.sweep->what;
  const Point& first = points.front();
  std::string title = describe(first.problem);
  if (what == Sweep::What::n) {
    const std::string n = std::to_string(first.problem.seqlen_q);
    title.replace(title.find("seqlen " + n), n.size() + 7, "seqlen n");
  }
  std::string text = style.bold(title) + fmt::format(", {} varies\n\n", label_of(what));
  std::vector<Column> columns = {{label_of(what)}};
  for (const Point::Entry& e : first.entries) columns.push_back({e.algorithm});
  columns.insert(columns.end(), {{"inputs, outputs", Align::right, 3},
                                 {"n d + n^2", Align::right, 1},
                                 {"n^2 d^2/M", Align::right, 1},
                                 {"blocks of the last", Align::left, 4},
                                 {"bytes of the last", Align::right, 5}});
  Table table(columns);
  for (const Point& point : points) {
    const double heads = double(point.problem.batch) * point.problem.heads_q;
    std::vector<std::string> cells = {text_of(what, point.value)};
    for (const Point::Entry& e : point.entries) cells.push_back(count(double(e.moved.elements())));
    const double m = double(point.sram) / bytes_of(point.problem.dtype);
    const Point::Entry& last = point.entries.back();
    cells.push_back(count(heads * compulsory_accesses(point.problem)));
    cells.push_back(count(heads * theta_standard(point.problem)));
    cells.push_back(count(heads * theta_flash(point.problem, m)));
    cells.push_back(fmt::format("{} x {}", last.tiling.block_q, last.tiling.block_k));
    cells.push_back(decimal_bytes(double(last.moved.bytes())));
    table.row(cells);
  }
  text +=
      table.text(style, width) + "\n" +
      wrapped(
          fmt::format(
              "Accesses (elements requested) of executed schedules{}. The columns of n and d are the "
              "paper's growth rates, without constant factors; M = {} elements.{}",
              o.passes.size() > 1 ? ", forward and backward together" : "",
              what == Sweep::What::sram ? "SRAM" : grouped(first.sram / bytes_of(first.problem.dtype)),
              what == Sweep::What::sram ? " Blocks follow the SRAM: B_c = ceil(M / 4d), B_r = min(B_c, d)."
                                        : ""),
          std::min(width, 100)) +
      "\n";
  return text;
}

void print_points_json(const TrafficOptions& o, const std::vector<Point>& points, Output& out) {
  Json document = json_document("traffic");
  document["problem"] = json_of(points.front().problem);
  document["sweep"] = label_of(o.sweep->what) == "SRAM" ? "sram" : label_of(o.sweep->what);
  document["points"] = Json::array();
  for (const Point& point : points) {
    const double heads = double(point.problem.batch) * point.problem.heads_q;
    const double m = double(point.sram) / bytes_of(point.problem.dtype);
    Json j = {{"value", point.value},
              {"sram_elements", m},
              {"nd_plus_n2", heads * theta_standard(point.problem)},
              {"n2d2_over_m", heads * theta_flash(point.problem, m)},
              {"compulsory_accesses", heads * compulsory_accesses(point.problem)},
              {"results", Json::array()}};
    for (const Point::Entry& e : point.entries)
      j["results"].push_back({{"algorithm", e.algorithm},
                              {"block_q", e.tiling.block_q},
                              {"block_k", e.tiling.block_k},
                              {"requested_bytes", e.moved.bytes()},
                              {"accesses", e.moved.elements()}});
    document["points"].push_back(std::move(j));
  }
  print_json(out, document);
}

Chart chart_of(const TrafficOptions& o, const std::vector<Point>& points) {
  const Sweep::What what = o.sweep->what;
  Chart chart;
  chart.id = "sweep";
  chart.title = fmt::format("Requested bytes over {}", label_of(what));
  chart.x_label = what == Sweep::What::sram ? "SRAM (KiB)" : label_of(what);
  chart.y_label = "bytes";
  chart.log_x = chart.log_y = true;
  chart.source = "flashsim traffic --sweep; " + describe(points.front().problem);
  for (std::size_t i = 0; i < points.front().entries.size(); ++i) {
    Series s{points.front().entries[i].algorithm, {}, {}};
    for (const Point& point : points) {
      s.x.push_back(double(point.value) / (what == Sweep::What::sram ? 1024 : 1));
      s.y.push_back(double(point.entries[i].moved.bytes()));
    }
    chart.series.push_back(std::move(s));
  }
  return chart;
}

}  // namespace

void run_sweep(const TrafficOptions& o, Output& out) {
  std::vector<Point> points;
  for (const std::int64_t value : o.sweep->values) points.push_back(point_at(o, value));
  for (const Point& point : points)
    if (point.entries.size() != points.front().entries.size())
      throw UsageError("the algorithms differ along the sweep; name those to count with --algorithm");
  for (Point& point : points) count_accesses(o, point);  // after everything that may be refused
  if (!o.chart.empty()) {
    write_chart(chart_of(o, points), o.chart);
    out.note("wrote " + o.chart);
  }
  if (!o.picture.empty()) {
    if (wants_numbers(o.picture))
      write_chart(chart_of(o, points), o.picture);
    else
      write_text_picture(text_of(o, points, Style(), picture_width), "flashsim traffic --sweep", o.picture);
    out.note("wrote " + o.picture);
  }
  if (out.json()) {
    print_points_json(o, points, out);
  } else {
    out.print(text_of(o, points, out.style(), out.width()));
  }
}

}  // namespace flashsim::cli
