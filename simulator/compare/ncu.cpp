#include "simulator/compare/ncu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

namespace flashsim {
namespace {

struct NcuMetric {
  const char* name;
  double Observed::*to;
};
constexpr NcuMetric ncu_metric_list[] = {
    {"l1tex__m_xbar2l1tex_read_bytes.sum", &Observed::requested_read},
    {"l1tex__m_l1tex2xbar_write_bytes.sum", &Observed::requested_written},
    {"dram__bytes_read.sum", &Observed::dram_read},
    {"dram__bytes_write.sum", &Observed::dram_written},
    {"lts__t_sectors_srcunit_tex_op_read.sum", &Observed::l2_read},
    {"lts__t_sectors_srcunit_tex_op_write.sum", &Observed::l2_written},
    {"lts__t_sectors_srcunit_tex_op_red.sum", &Observed::l2_reduced},
    {"lts__t_sectors_srcunit_ltcfabric.sum", &Observed::fabric},
    {"gpu__time_duration.sum", &Observed::seconds},
};

Observed nothing_observed() {
  Observed o;
  for (double Observed::*x :
       {&Observed::requested_read, &Observed::requested_written, &Observed::l2_read, &Observed::l2_written,
        &Observed::l2_reduced, &Observed::fabric, &Observed::dram_read, &Observed::dram_written,
        &Observed::left_dirty, &Observed::shared_wavefronts, &Observed::tensor_instructions,
        &Observed::instructions, &Observed::seconds})
    o.*x = std::numeric_limits<double>::quiet_NaN();
  return o;
}

const NcuMetric* metric_named(const std::string& name) {
  for (const NcuMetric& m : ncu_metric_list)
    if (name == m.name) return &m;
  return nullptr;
}

/// Bytes or seconds of one unit.
double size_of_unit(const std::string& unit, const std::string& place) {
  static const std::map<std::string, double> units = {
      {"byte", 1},     {"Kbyte", 1e3},    {"Mbyte", 1e6},    {"Gbyte", 1e9},
      {"Tbyte", 1e12}, {"sector", 32},    {"Ksector", 32e3}, {"Msector", 32e6},
      {"ns", 1e-9},    {"nsecond", 1e-9}, {"us", 1e-6},      {"usecond", 1e-6},
      {"ms", 1e-3},    {"msecond", 1e-3}, {"s", 1},          {"second", 1}};
  const auto found = units.find(unit);
  if (found == units.end())
    throw RecordError(place + "the unit is \"" + unit +
                      "\"; expected byte, Kbyte, Mbyte, Gbyte, Tbyte, sector or a time (ns, us, ms, s)");
  return found->second;
}

double number_in(std::string text, const std::string& place) {
  text.erase(std::remove(text.begin(), text.end(), ','), text.end());  // thousands
  char* end = nullptr;
  const double x = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size() || !std::isfinite(x))
    throw RecordError(place + "\"" + text + "\" is not a number");
  return x;
}

/// A line's fields; quotes may hold commas, and two quotes stand for one.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"')
      fields.back() += line[++i];
    else if (line[i] == '"')
      quoted = !quoted;
    else if (line[i] == ',' && !quoted)
      fields.emplace_back();
    else if (line[i] != '\r')
      fields.back() += line[i];
  }
  return fields;
}

constexpr std::size_t no_column = static_cast<std::size_t>(-1);
std::size_t column_of(const std::vector<std::string>& heading, const char* name) {
  const auto found = std::find(heading.begin(), heading.end(), name);
  return found == heading.end() ? no_column : static_cast<std::size_t>(found - heading.begin());
}

RecordError lacks_metrics() {
  return RecordError("none of the counters that are compared; profile with `ncu --csv --page raw --metrics " +
                     ncu_metrics() + "`");
}

}  // namespace

std::string ncu_metrics() {
  std::string all;
  for (const NcuMetric& m : ncu_metric_list) all += (all.empty() ? "" : ",") + std::string(m.name);
  return all;
}

std::vector<NcuKernel> ncu_kernels_from_csv(const std::string& text) {
  std::vector<std::string> heading, units;
  std::size_t id = no_column, name = no_column, metric = no_column, unit = no_column, value = no_column;
  bool details = false, found_metric = false;
  std::vector<NcuKernel> kernels;
  std::map<std::string, std::size_t> kernel_of_id;
  std::size_t line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::vector<std::string> fields = fields_of(text.substr(begin, end - begin));
    begin = end + 1;
    const std::string place = "line " + std::to_string(++line_number) + ": ";
    if (heading.empty()) {  // ncu's own messages come first
      id = column_of(fields, "ID"), name = column_of(fields, "Kernel Name");
      if (id == no_column || name == no_column) continue;
      heading = fields;
      metric = column_of(heading, "Metric Name"), unit = column_of(heading, "Metric Unit"),
      value = column_of(heading, "Metric Value");
      details = metric != no_column;
      if (details && (unit == no_column || value == no_column))
        throw RecordError(place +
                          "there is a column \"Metric Name\", but no \"Metric Unit\" or \"Metric Value\"");
      continue;
    }
    if (fields.size() == 1 && fields[0].empty()) continue;
    if (fields.size() != heading.size())
      throw RecordError(place + std::to_string(fields.size()) + " fields; the heading has " +
                        std::to_string(heading.size()));
    if (!details && units.empty()) {
      units = fields;
      if (!units[id].empty())
        throw RecordError(place + "expected the units, as `ncu --page raw` prints them");
      continue;
    }
    const auto [at, is_new] = kernel_of_id.try_emplace(fields[id], kernels.size());
    if (is_new) kernels.push_back({fields[name], nothing_observed()});
    Observed& o = kernels[at->second].observed;
    const auto take = [&](const std::string& metric_name, const std::string& of_unit,
                          const std::string& number) {
      const NcuMetric* m = metric_named(metric_name);
      if (m == nullptr || number.empty()) return;
      found_metric = true;
      const std::string where = place + metric_name + ": ";
      o.*m->to = number_in(number, where) * size_of_unit(of_unit, where);
    };
    if (details)
      take(fields[metric], fields[unit], fields[value]);
    else
      for (std::size_t i = 0; i < fields.size(); ++i) take(heading[i], units[i], fields[i]);
  }
  if (heading.empty())
    throw RecordError(
        "no line with the columns \"ID\" and \"Kernel Name\"; expected what `ncu --csv` prints");
  if (!found_metric) throw lacks_metrics();
  return kernels;
}

Observed sum_of(const std::vector<NcuKernel>& kernels) {
  Observed sum = nothing_observed();
  for (const NcuMetric& m : ncu_metric_list) {
    double all = 0;
    for (const NcuKernel& k : kernels) all += k.observed.*m.to;  // NaN if one lacks it
    if (!kernels.empty()) sum.*m.to = all;
  }
  return sum;
}

}  // namespace flashsim
