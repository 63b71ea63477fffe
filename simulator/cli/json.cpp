#include "simulator/cli/json.h"

#include "gpu_kernels/check/chosen_order.h"

namespace flashsim::cli {

Json json_document(std::string_view command) {
  return {
      {"schema_version", json_schema_version}, {"flashsim_version", FLASHSIM_VERSION}, {"command", command}};
}

Json json_of(const Problem& p) {
  return {{"batch", p.batch},
          {"heads_q", p.heads_q},
          {"heads_kv", p.heads_kv},
          {"seqlen_q", p.seqlen_q},
          {"seqlen_k", p.seqlen_k},
          {"head_dim", p.head_dim},
          {"dtype", name_of(p.dtype)},
          {"causal", p.causal},
          {"window_left", p.window_left},
          {"window_right", p.window_right},
          {"softmax_scale", scale_of(p)},
          {"dropout", p.dropout_p},
          {"seed", p.dropout_seed}};
}

Json json_of(const Tiling& t) {
  return {{"block_q", t.block_q},
          {"block_k", t.block_k},
          {"stages", t.stages},
          {"warps", t.warps},
          {"warp_split", t.split == WarpSplit::query ? "query" : "key"},
          {"order", gpu::name_of(t.order)},
          {"heads_together", t.heads_together},
          {"late_blocks", t.late_blocks},
          {"key_order", gpu::name_of(t.key_order)},
          {"splits", t.num_splits},
          {"temporaries", name_of(t.temporaries)},
          {"deterministic", t.deterministic},
          {"fp8_block_scales", t.fp8_block_scales},
          {"fp8_incoherent_processing", t.fp8_incoherent_processing}};
}

void print_json(Output& out, const Json& document) { out.print(document.dump(2) + "\n"); }

}  // namespace flashsim::cli
