#include "simulator/cli/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/cli/json.h"
#include "simulator/cli/parse.h"
#include "simulator/cli/table.h"

namespace flashsim::cli {
namespace {

std::string shown(double value, const Figure& f) {
  const std::string number = value == 0 && f.decimals > 6 ? "0"
                             : value != 0 && std::abs(value) < 1e-6
                                 ? fmt::format("{:.1e}", value)
                                 : fmt::format("{:.{}f}", value, f.decimals);
  return f.unit.empty() ? number : number + " " + f.unit;
}

std::string published(const Figure& f) {
  if (!f.published_text.empty()) return f.published_text;
  return f.published ? shown(*f.published, f) : "";
}

void print_names(Output& out) {
  if (out.json()) {
    Json document = json_document("traffic");
    for (const Preset& p : presets())
      document["presets"].push_back({{"name", p.name}, {"summary", p.summary}});
    return print_json(out, document);
  }
  Table table({{"preset", Align::left}, {"what it reproduces", Align::left}});
  for (const Preset& p : presets()) table.row({p.name, p.summary});
  out.print(table.text(out.style(), out.width()));
}

/// A line for every figure.
Table list_of(const std::vector<Figure>& figures) {
  const bool any_published =
      std::any_of(figures.begin(), figures.end(), [](const Figure& f) { return !published(f).empty(); });
  std::vector<Column> columns = {{figures[0].group, Align::left}, {"flashsim"}};
  if (any_published) columns.push_back({"published"});
  Table table(columns);
  for (const Figure& f : figures) table.row({f.what, shown(f.value, f), published(f)});
  return table;
}

/// A line for every row, with a column for each figure in it and one for what was published of them.
Table grid_of(const std::vector<Figure>& figures) {
  std::vector<Column> columns = {{figures[0].group, Align::left}};
  std::vector<std::vector<std::string>> rows;
  bool any_published = false;
  for (const Figure& f : figures) {
    if (rows.empty() || rows.back()[0] != f.row) rows.push_back({f.row});
    rows.back().push_back(shown(f.value, f));
    if (rows.size() == 1) columns.push_back({f.what});
    any_published |= !published(f).empty();
  }
  if (any_published) {
    columns.push_back({"published"});
    for (auto& row : rows) row.emplace_back();
    std::size_t at = 0;
    for (const Figure& f : figures) {
      if (rows[at][0] != f.row) ++at;
      if (!published(f).empty()) rows[at].back() = published(f);
    }
  }
  Table table(columns);
  for (auto& row : rows) table.row(std::move(row));
  return table;
}

void print_result(const Preset& preset, const PresetResult& r, Output& out) {
  const Style& style = out.style();
  out.print(style.bold(wrapped(r.title, std::min(out.width(), 110))) + "\n" +
            wrapped(r.setting, std::min(out.width(), 110)) + "\n");
  for (auto begin = r.figures.begin(); begin != r.figures.end();) {
    const auto end =
        std::find_if(begin, r.figures.end(), [&](const Figure& f) { return f.group != begin->group; });
    const std::vector<Figure> group(begin, end);
    out.print("\n" + (group[0].row.empty() ? list_of(group) : grid_of(group)).text(style, out.width()));
    begin = end;
  }
  out.print("\n");
  for (const std::string& remark : r.remarks)
    out.print("- " + indented(wrapped(remark, std::min(out.width(), 110) - 2), 2) + "\n");
  out.print(style.dim(fmt::format("flashsim traffic --preset {}", preset.name)) + "\n");
}

void print_result_json(const Preset& preset, const PresetResult& r, Output& out) {
  Json document = json_document("traffic");
  document["preset"] = preset.name;
  document["title"] = r.title;
  document["setting"] = r.setting;
  document["figures"] = Json::array();
  for (const Figure& f : r.figures) {
    Json j = {{"id", f.id}, {"group", f.group}, {"what", f.what}, {"value", f.value}, {"unit", f.unit}};
    if (!f.row.empty()) j["row"] = f.row;
    if (f.published) j["published"] = *f.published;
    if (!f.published_text.empty()) j["published_as"] = f.published_text;
    document["figures"].push_back(std::move(j));
  }
  document["remarks"] = r.remarks;
  print_json(out, document);
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"fa1-fig2", "FlashAttention, Figure 2: 40.3 against 4.4 GB, and why", preset_fa1_fig2},
      {"fa1-table21", "FlashAttention, Table 21: memory by sequence length", preset_fa1_table21},
      {"io-theorem", "FlashAttention, Theorem 2: n d + n^2 against n^2 d^2 / M", preset_io_theorem},
      {"softmax-accesses", "Milakov and Gimelshein 2018: memory accesses of softmax",
       preset_softmax_accesses},
      {"explainer", "the numbers of an introduction to FlashAttention in six steps", preset_explainer},
  };
  return all;
}

void run_preset(const std::string& name, Output& out) {
  if (name == "list") return print_names(out);
  std::vector<std::string> names;
  for (const Preset& p : presets()) names.push_back(p.name);
  names.emplace_back("list");
  const Preset& preset = presets()[parse_choice("--preset", name, names)];
  const PresetResult result = preset.run();
  if (out.json()) {
    print_result_json(preset, result, out);
  } else {
    print_result(preset, result, out);
  }
}

}  // namespace flashsim::cli
