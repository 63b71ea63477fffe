// The JSON of flashsim traffic.
#include "simulator/cli/json.h"
#include "simulator/cli/traffic_options.h"
#include "simulator/report/theory.h"

namespace flashsim::cli {
namespace {

Json tensor_json(const TensorTraffic& t) {
  return {{"read_bytes", t.read.bytes},
          {"written_bytes", t.written.bytes},
          {"reduced_bytes", t.reduced.bytes},
          {"read_elements", t.read.elements},
          {"written_elements", t.written.elements},
          {"reduced_elements", t.reduced.elements}};
}

Json counts_json(const KernelTraffic& k) {
  Json j = {{"name", k.name},
            {"thread_blocks", k.blocks},
            {"requested_bytes", k.requested_bytes()},
            {"sram_filled_bytes", k.sram_filled},
            {"sram_fetched_bytes", k.sram_fetched},
            {"matmul_flops", k.matmul_flops},
            {"exps", k.exps},
            {"other_flops", k.other_flops},
            {"tensors", Json::object()}};
  for (int i = 0; i < tensor_count; ++i)
    if (const TensorTraffic& moved = k.tensor[static_cast<std::size_t>(i)]; moved.bytes() > 0)
      j["tensors"][std::string(name_of(static_cast<Tensor>(i)))] = tensor_json(moved);
  return j;
}

Json pass_json(const PassReport& r, const Gpu& gpu) {
  Json j = {{"algorithm", r.algorithm},
            {"pass", name_of(r.pass)},
            {"tiling", json_of(r.tiling)},
            {"total", counts_json(r.total)},
            {"compulsory_bytes", r.compulsory_bytes},
            {"flops_per_byte", r.flops_per_byte()},
            {"peak_sram_bytes", {{"paper", r.paper.peak_sram}, {"kernel", r.peak_sram()}}},
            {"peak_register_bytes", r.peak_registers()},
            {"extra_hbm_bytes", r.extra_memory},
            {"roofline_seconds", r.roofline_seconds()},
            {"bound", r.bound()},
            {"all_requests_from_hbm_seconds", r.requested_seconds(gpu)},
            {"kernels", Json::array()}};
  for (const KernelReport& k : r.kernels) {
    Json kernel = counts_json(k.traffic);
    kernel["shared_bytes"] = k.sram;
    kernel["register_bytes"] = k.registers;
    kernel["blocks_per_sm"] = k.occupancy.blocks_per_sm;
    kernel["waves"] = k.occupancy.waves;
    kernel["sm_utilisation"] = k.occupancy.sm_utilisation;
    kernel["roofline_seconds"] = {{"tensor_cores", k.roofline.tensor_cores},
                                  {"exp", k.roofline.exponentials},
                                  {"shared_memory", k.roofline.shared_memory},
                                  {"l2", k.roofline.l2},
                                  {"hbm", k.roofline.hbm}};
    j["kernels"].push_back(std::move(kernel));
  }
  return j;
}

}  // namespace

void print_reports_json(const std::vector<PassReport>& reports, const TrafficOptions& o, const Problem& p,
                        Output& out) {
  Json document = json_document("traffic");
  document["problem"] = json_of(p);
  document["gpu"] = o.gpu->name;
  const double heads = double(p.batch) * p.heads_q, m = double(o.paper_sram()) / bytes_of(p.dtype);
  document["theory"] = {{"sram_elements", m},
                        {"nd_plus_n2", heads * theta_standard(p)},
                        {"n2d2_over_m", heads * theta_flash(p, m)},
                        {"n2d2_over_m_applies", theorem_applies(p, m)},
                        {"compulsory_accesses", heads * compulsory_accesses(p)}};
  document["results"] = Json::array();
  for (const PassReport& r : reports) document["results"].push_back(pass_json(r, *o.gpu));
  print_json(out, document);
}

}  // namespace flashsim::cli
