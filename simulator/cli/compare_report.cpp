#include "simulator/cli/compare_report.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "simulator/cli/json.h"
#include "simulator/cli/style.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

std::string percent(double difference) {
  return std::isfinite(difference) ? fmt::format("{:+.2f} %", 100 * difference) : "-";
}
std::string bytes_or_dash(double bytes) { return std::isfinite(bytes) ? decimal_bytes(bytes) : "-"; }
std::string name_of(const KernelCase& c) {
  return c.kernel + (c.variant.empty() ? "" : "/" + c.variant) + (c.backward ? " backward" : "");
}

/// Whole days since YYYY-MM-DD; -1 where the text is no date.
int days_since(const std::string& date) {
  int year = 0;
  unsigned month = 0, day = 0;
  if (std::sscanf(date.c_str(), "%d-%u-%u", &year, &month, &day) != 3) return -1;
  using namespace std::chrono;
  const year_month_day then{std::chrono::year{year}, std::chrono::month{month}, std::chrono::day{day}};
  if (!then.ok()) return -1;
  return static_cast<int>((floor<days>(system_clock::now()) - sys_days{then}).count());
}

/// The least time that the GPU could take: its matrix units or its memory, whichever is slower.
double roofline_seconds(const ByteComparison& c, const Gpu& gpu) {
  return std::max(c.flops / gpu.matmul_flops(c.record.what.problem.dtype),
                  c.total().dram() / gpu.hbm_bytes_per_s);
}

Json json_of(const CompareRow& r) {
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  return {{"kernel", r.kernel},
          {"tensor", r.tensor},
          {"level", flashsim::name_of(r.level)},
          {"direction", flashsim::name_of(r.direction)},
          {"simulated", r.simulated},
          {"measured", number(r.measured)},
          {"difference", number(r.difference())}};
}

}  // namespace

std::string provenance(const CompareReport& report) {
  const Records& s = report.source;
  const std::string where = s.device + (s.driver.empty() ? "" : ", driver " + s.driver) +
                            (s.cuda.empty() ? "" : ", CUDA " + s.cuda);
  if (report.live) return "measured now on " + where;
  if (s.date.empty()) return "from " + where;
  const int days = days_since(s.date);
  return "recorded on " + where + ", " + s.date + (days >= 0 ? fmt::format(" ({} days ago)", days) : "") +
         (s.commit.empty() ? "" : ", commit " + s.commit);
}

void print_text(Output& out, const CompareReport& report, bool tensors) {
  Table table({{"kernel", Align::left},
               {"problem", Align::left, 3},
               {"level", Align::left},
               {"", Align::left},
               {"simulated"},
               {"measured"},
               {"difference"},
               {"DRAM, range", Align::left, 2}});
  for (const ByteComparison& c : report.comparisons) {
    if (&c != &report.comparisons.front()) table.rule();
    bool first = true;
    for (const CompareRow& r : c.rows) {
      const bool total = r.kernel == "all" && r.tensor == "all";
      if (!total && !tensors) continue;
      const std::string what = total               ? name_of(c.record.what)
                               : r.kernel == "all" ? "  " + r.tensor
                                                   : "  " + r.kernel + ", " + r.tensor;
      // Read and written together; of the model's seeds in the first row, of the launches in the second.
      std::string range;
      if (total && r.level == Level::dram) {
        if (r.direction == ByteDirection::read && c.simulated.most > 1.01 * c.simulated.least)
          range = "seeds " + decimal_bytes(c.simulated.least) + " to " + decimal_bytes(c.simulated.most);
        if (r.direction == ByteDirection::written && c.record.varies())
          range =
              "launches " + decimal_bytes(c.record.dram_least) + " to " + decimal_bytes(c.record.dram_most);
      }
      table.row({total && !first ? "" : what, total && first ? flashsim::describe(c.record.what.problem) : "",
                 flashsim::name_of(r.level), flashsim::name_of(r.direction), decimal_bytes(r.simulated),
                 bytes_or_dash(r.measured), percent(r.difference()), range});
      if (total) first = false;
    }
    const Observed& o = c.record.observed;
    if (std::isfinite(o.seconds) && o.seconds > 0) {
      const double best = report.gpu != nullptr ? roofline_seconds(c, *report.gpu) : NAN;
      table.row({"", "", "time", std::isfinite(best) ? "at best" : "",
                 std::isfinite(best) ? seconds(best) : "-", seconds(o.seconds), percent(best / o.seconds - 1),
                 ""});
    }
  }
  out.print(wrapped(provenance(report), out.width()) + "\n" + wrapped(report.card, out.width()) + "\n\n" +
            table.text(out.style(), out.width()));
}

void print_compare_json(Output& out, const CompareReport& report) {
  Json document = json_document("compare");
  document["live"] = report.live;
  document["device"] = report.source.device;
  document["date"] = report.source.date;
  document["card"] = report.card;
  document["cases"] = Json::array();
  for (const ByteComparison& c : report.comparisons) {
    Json j = {{"kernel", name_of(c.record.what)},   {"problem", json_of(c.record.what.problem)},
              {"tiling", json_of(c.record.tiling)}, {"flops", c.flops},
              {"compulsory_bytes", c.compulsory},   {"dram_least", c.simulated.least},
              {"dram_most", c.simulated.most},      {"requested_fault", c.requested_fault()}};
    j["launches"] = c.record.launches;
    if (c.record.launches > 1) {
      j["measured_dram_least"] = c.record.dram_least;
      j["measured_dram_most"] = c.record.dram_most;
    }
    j["seconds"] = std::isfinite(c.record.observed.seconds) ? Json(c.record.observed.seconds) : Json(nullptr);
    if (report.gpu != nullptr) j["roofline_seconds"] = roofline_seconds(c, *report.gpu);
    for (const CompareRow& r : c.rows) j["rows"].push_back(json_of(r));
    document["cases"].push_back(std::move(j));
  }
  for (const std::string& reason : report.left_out) document["left_out"].push_back(reason);
  print_json(out, document);
}

std::string csv(const CompareReport& report) {
  std::string text =
      "kernel,pass,batch,heads_q,heads_kv,seqlen_q,seqlen_k,head_dim,dtype,causal,launch,tensor,level,"
      "direction,"
      "simulated,measured\n";
  for (const ByteComparison& c : report.comparisons) {
    const KernelCase& k = c.record.what;
    const Problem& p = k.problem;
    for (const CompareRow& r : c.rows)
      text += fmt::format("{}{}{},{},{},{},{},{},{},{},{},{},\"{}\",{},{},{},{:.0f},{}\n", k.kernel,
                          k.variant.empty() ? "" : "/", k.variant, k.backward ? "backward" : "forward",
                          p.batch, p.heads_q, p.heads_kv, p.seqlen_q, p.seqlen_k, p.head_dim,
                          flashsim::name_of(p.dtype), p.causal ? 1 : 0, r.kernel, r.tensor,
                          flashsim::name_of(r.level), flashsim::name_of(r.direction), r.simulated,
                          std::isfinite(r.measured) ? fmt::format("{:.0f}", r.measured) : "");
  }
  return text;
}

std::string text_of(const Summary& s) {
  const auto bar = [](const char* lengths, const DramBar& b) {
    if (b.cases == 0) return std::string();
    return fmt::format(
        "DRAM bytes, {}: {} cases; error median {:.1f} % (bar {:.0f} %), 95th percentile {:.1f} % ({:.0f} "
        "%), worst "
        "{:.1f} % ({:.0f} %): {}{}\n",
        lengths, b.cases, 100 * b.median, 100 * b.median_bar, 100 * b.percentile_95,
        100 * b.percentile_95_bar, 100 * b.worst, 100 * b.worst_bar, b.met() ? "met" : "NOT met",
        b.met() ? "" : "; worst is " + b.worst_case);
  };
  std::string text = fmt::format("requested bytes: {} of {} cases agree\n",
                                 s.cases - static_cast<int>(s.requested_faults.size()), s.cases);
  for (const std::string& fault : s.requested_faults) text += "  " + fault + "\n";
  for (const std::string& c : s.disturbed)
    text += "DRAM bytes not compared, something else used the GPU meanwhile: " + c + "\n";
  text +=
      "error of DRAM bytes, read and written: the median of the seeds against the median of the launches,\n"
      "larger over smaller, less 1\n";
  return text + bar("n up to 32,768", s.up_to_32k) + bar("n from 65,536", s.from_64k);
}

}  // namespace flashsim::cli
