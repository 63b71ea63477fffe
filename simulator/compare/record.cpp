#include "simulator/compare/record.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

namespace flashsim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, double Observed::*> counters[] = {
    {"requested_read", &Observed::requested_read},
    {"requested_written", &Observed::requested_written},
    {"l2_read", &Observed::l2_read},
    {"l2_written", &Observed::l2_written},
    {"l2_reduced", &Observed::l2_reduced},
    {"fabric", &Observed::fabric},
    {"dram_read", &Observed::dram_read},
    {"dram_written", &Observed::dram_written},
    {"left_dirty", &Observed::left_dirty},
    {"shared_wavefronts", &Observed::shared_wavefronts},
    {"tensor_instructions", &Observed::tensor_instructions},
    {"instructions", &Observed::instructions},
    {"seconds", &Observed::seconds},
};

constexpr Dtype dtypes[] = {Dtype::fp64, Dtype::fp32, Dtype::fp16, Dtype::bf16, Dtype::e4m3};

Dtype dtype_named(const std::string& name) {
  for (const Dtype d : dtypes)
    if (name == name_of(d)) return d;
  throw RecordError("dtype \"" + name + "\"; expected fp64, fp32, fp16, bf16 or e4m3");
}

Json json_of(const Problem& p) {
  Json j = {{"batch", p.batch},         {"heads_q", p.heads_q},   {"heads_kv", p.heads_kv},
            {"seqlen_q", p.seqlen_q},   {"seqlen_k", p.seqlen_k}, {"head_dim", p.head_dim},
            {"dtype", name_of(p.dtype)}};
  if (p.causal) j["causal"] = true;
  if (p.window_left >= 0) j["window_left"] = p.window_left;
  if (p.window_right >= 0) j["window_right"] = p.window_right;
  if (p.softmax_scale != 0) j["softmax_scale"] = p.softmax_scale;
  if (p.dropout_p > 0) j["dropout_p"] = p.dropout_p, j["dropout_seed"] = p.dropout_seed;
  return j;
}
Problem problem_from(const Json& j) {
  Problem p;
  j.at("batch").get_to(p.batch);
  j.at("heads_q").get_to(p.heads_q);
  j.at("heads_kv").get_to(p.heads_kv);
  j.at("seqlen_q").get_to(p.seqlen_q);
  j.at("seqlen_k").get_to(p.seqlen_k);
  j.at("head_dim").get_to(p.head_dim);
  p.dtype = dtype_named(j.at("dtype").get<std::string>());
  p.causal = j.value("causal", false);
  p.window_left = j.value("window_left", -1);
  p.window_right = j.value("window_right", -1);
  p.softmax_scale = j.value("softmax_scale", 0.f);
  p.dropout_p = j.value("dropout_p", 0.f);
  p.dropout_seed = j.value("dropout_seed", std::uint64_t{0});
  const std::string fault = fault_of(p);
  if (!fault.empty()) throw RecordError("problem: " + fault);
  return p;
}

Json json_of(const Tiling& t) {
  Json j = {{"block_q", t.block_q}, {"block_k", t.block_k}, {"stages", t.stages}, {"warps", t.warps}};
  if (t.split == WarpSplit::key) j["split"] = "key";
  if (t.order == BlockOrder::last_to_first) j["order"] = "last_to_first";
  if (t.key_order == BlockOrder::last_to_first) j["key_order"] = "last_to_first";
  if (t.heads_together != 1) j["heads_together"] = t.heads_together;
  if (t.late_blocks != 0) j["late_blocks"] = t.late_blocks;
  if (t.num_splits != 1) j["num_splits"] = t.num_splits;
  if (t.temporaries != Dtype::fp32) j["temporaries"] = name_of(t.temporaries);
  if (t.deterministic) j["deterministic"] = true;
  if (!t.fp8_block_scales) j["fp8_block_scales"] = false;
  if (!t.fp8_incoherent_processing) j["fp8_incoherent_processing"] = false;
  return j;
}
Tiling tiling_from(const Json& j) {
  Tiling t;
  j.at("block_q").get_to(t.block_q);
  j.at("block_k").get_to(t.block_k);
  j.at("stages").get_to(t.stages);
  j.at("warps").get_to(t.warps);
  if (j.value("split", std::string("query")) == "key") t.split = WarpSplit::key;
  if (j.value("order", std::string("first_to_last")) == "last_to_first") t.order = BlockOrder::last_to_first;
  if (j.value("key_order", std::string("first_to_last")) == "last_to_first")
    t.key_order = BlockOrder::last_to_first;
  t.heads_together = j.value("heads_together", 1);
  t.late_blocks = j.value("late_blocks", 0);
  t.num_splits = j.value("num_splits", 1);
  t.temporaries = dtype_named(j.value("temporaries", std::string("fp32")));
  t.deterministic = j.value("deterministic", false);
  t.fp8_block_scales = j.value("fp8_block_scales", true);
  t.fp8_incoherent_processing = j.value("fp8_incoherent_processing", true);
  const std::string fault = fault_of(t);
  if (!fault.empty()) throw RecordError("tiling: " + fault);
  return t;
}

/// Counts are whole numbers; a time is not. JSON has no NaN: null.
Json number(double x) {
  if (!std::isfinite(x)) return nullptr;
  return x == std::floor(x) && std::fabs(x) < 9e15 ? Json(static_cast<std::int64_t>(x)) : Json(x);
}

Json json_of(const Record& r) {
  Json j = {{"kernel", r.what.kernel}};
  if (!r.what.variant.empty()) j["variant"] = r.what.variant;
  j["pass"] = r.what.backward ? "backward" : "forward";
  j["problem"] = json_of(r.what.problem);
  j["tiling"] = json_of(r.tiling);
  for (const auto& [name, member] : counters) j["observed"][name] = number(r.observed.*member);
  if (r.launches > 1) {
    j["launches"] = r.launches;
    j["dram_least"] = number(r.dram_least);
    j["dram_most"] = number(r.dram_most);
  }
  return j;
}
/// Version 1 did not say how many heads' thread blocks fa3 takes in turn where there is a mask: as many as
/// share 32 MiB of K and V.
void complete_version_1(Record& r) {
  if (r.what.kernel == "fa3" && r.what.problem.masked())
    r.tiling.heads_together = heads_within(r.what.problem, 32 << 20);
}

/// A number that may be missing: NaN.
double finite_or_nan(const Json& j, const char* name) {
  const auto found = j.find(name);
  return found == j.end() || found->is_null() ? std::numeric_limits<double>::quiet_NaN()
                                              : found->get<double>();
}

Record record_from(const Json& j) {
  Record r;
  j.at("kernel").get_to(r.what.kernel);
  r.what.variant = j.value("variant", std::string());
  const auto pass = j.at("pass").get<std::string>();
  if (pass != "forward" && pass != "backward")
    throw RecordError("pass \"" + pass + "\"; expected forward or backward");
  r.what.backward = pass == "backward";
  r.what.problem = problem_from(j.at("problem"));
  r.tiling = tiling_from(j.at("tiling"));
  const Json& observed = j.at("observed");
  for (const auto& [name, member] : counters) r.observed.*member = finite_or_nan(observed, name);
  r.launches = j.value("launches", 1);
  if (r.launches < 1)
    throw RecordError("launches is " + std::to_string(r.launches) + "; expected at least 1");
  if (r.launches > 1) {
    r.dram_least = finite_or_nan(j, "dram_least");
    r.dram_most = finite_or_nan(j, "dram_most");
    if (std::isfinite(r.observed.dram()) &&
        !(r.dram_least <= r.observed.dram() && r.observed.dram() <= r.dram_most))
      throw RecordError("dram_least and dram_most are no range around the DRAM bytes observed");
  }
  return r;
}

}  // namespace

bool disturbed(const Observed& o) {
  return o.dram_written + o.left_dirty > o.requested_written + std::max(0.01 * o.requested_written, 4e6);
}

Record record_of(const KernelCase& what, const Tiling& tiling, std::vector<Observed> launches) {
  if (launches.empty()) throw std::invalid_argument("a record of no launch; expected at least one");
  if (const auto rest = std::partition(launches.begin(), launches.end(), std::not_fn(disturbed));
      rest != launches.begin())
    launches.erase(rest, launches.end());
  std::sort(launches.begin(), launches.end(),
            [](const Observed& a, const Observed& b) { return a.dram() < b.dram(); });
  Record r{what, tiling, launches[(launches.size() - 1) / 2]};
  r.launches = static_cast<int>(launches.size());
  if (r.launches > 1) {
    r.dram_least = launches.front().dram();
    r.dram_most = launches.back().dram();
  }
  return r;
}

std::string describe(const KernelCase& c) {
  return c.kernel + (c.variant.empty() ? "" : "/" + c.variant) + (c.backward ? " backward, " : ", ") +
         describe(c.problem);
}

const Record* Records::find(const KernelCase& c) const {
  for (const Record& r : records)
    if (r.what == c) return &r;
  return nullptr;
}

std::string to_json(const Records& records) {
  Json heading = {{"schema_version", records_schema_version},
                  {"device", records.device},
                  {"driver", records.driver},
                  {"cuda", records.cuda},
                  {"date", records.date},
                  {"commit", records.commit},
                  {"command", records.command},
                  {"tensors_apart", records.tensors_apart}};
  std::string text = heading.dump();
  text.pop_back();  // the closing brace
  text += ",\n\"records\": [";
  for (std::size_t i = 0; i < records.records.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + json_of(records.records[i]).dump();
  return text + "\n]}\n";
}

Records records_from_json(const std::string& text) {
  std::size_t reached = 0;
  try {
    const Json j = Json::parse(text);
    const int version = j.at("schema_version").get<int>();
    if (version != 1 && version != records_schema_version)
      throw RecordError("schema_version " + std::to_string(version) + "; this program reads versions 1 and " +
                        std::to_string(records_schema_version));
    Records all;
    j.at("device").get_to(all.device);
    all.driver = j.value("driver", std::string());
    all.cuda = j.value("cuda", std::string());
    all.date = j.value("date", std::string());
    all.commit = j.value("commit", std::string());
    all.command = j.value("command", std::string());
    all.tensors_apart = j.value("tensors_apart", true);
    for (const Json& record : j.at("records")) {
      ++reached;
      all.records.push_back(record_from(record));
      if (version == 1) complete_version_1(all.records.back());
    }
    return all;
  } catch (const nlohmann::json::exception& e) {
    std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    if (const std::size_t name = what.find("] "); name != std::string::npos) what.erase(0, name + 2);
    throw RecordError((reached > 0 ? "record " + std::to_string(reached) + ": " : std::string()) + what +
                      "; expected what `flashsim measure --record` writes");
  } catch (const RecordError& e) {
    throw RecordError((reached > 0 ? "record " + std::to_string(reached) + ": " : std::string()) + e.what());
  }
}

}  // namespace flashsim
