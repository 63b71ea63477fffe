#include "simulator/compare/card_record.h"

#include <cctype>
#include <nlohmann/json.hpp>

namespace flashsim {
namespace {

using Json = nlohmann::ordered_json;

/// "0010...": the side of each thread block of a launch.
std::string digits(const std::vector<int>& sides) {
  std::string text;
  for (const int side : sides) text += side == 0 ? '0' : '1';
  return text;
}
std::vector<int> sides_from(const std::string& text) {
  std::vector<int> sides;
  for (const char c : text) {
    if (c != '0' && c != '1')
      throw RecordError("sides \"" + text + "\"; expected a digit 0 or 1 for each thread block");
    sides.push_back(c - '0');
  }
  return sides;
}

std::string fault_of(const Card& c) {
  if (c.device.empty()) return "device is empty; expected the driver's name of the card";
  if (c.l2_bytes <= 0) return "l2_bytes is " + std::to_string(c.l2_bytes) + "; expected at least 1";
  if (c.partitions != 1 && c.partitions != 2)
    return "partitions is " + std::to_string(c.partitions) + "; expected 1 or 2";
  if (!(c.usable > 0 && c.usable <= 1))
    return "usable is " + std::to_string(c.usable) + "; expected a share in (0, 1]";
  for (std::size_t i = 0; i < c.sides.size(); ++i)
    if (c.sides[i].empty() || (i > 0 && c.sides[i].size() <= c.sides[i - 1].size()))
      return "sides: launch " + std::to_string(i + 1) + " has " + std::to_string(c.sides[i].size()) +
             " thread blocks; expected more than the one before";
  return {};
}

}  // namespace

std::string to_json(const Card& c) {
  Json j = {{"schema_version", card_schema_version},
            {"device", c.device},
            {"driver", c.driver},
            {"cuda", c.cuda},
            {"date", c.date},
            {"commit", c.commit},
            {"command", c.command},
            {"l2_bytes", c.l2_bytes},
            {"partitions", c.partitions},
            {"usable", c.usable},
            {"repeats", c.repeats},
            {"points", Json::array()},
            {"sides", Json::array()}};
  for (const RereadPoint& p : c.points)
    j["points"].push_back({{"buffer_bytes", p.buffer_bytes},
                           {"dram_read", p.dram_read},
                           {"l2_read", p.l2_read},
                           {"fabric", p.fabric},
                           {"miss_share", p.miss_share}});
  for (const std::vector<int>& launch : c.sides) j["sides"].push_back(digits(launch));
  return j.dump(1) + "\n";
}

Card card_from_json(const std::string& text) {
  Card c;
  try {
    const Json j = Json::parse(text);
    if (const int version = j.at("schema_version").get<int>(); version != card_schema_version)
      throw RecordError("schema_version " + std::to_string(version) + "; this program reads version " +
                        std::to_string(card_schema_version));
    j.at("device").get_to(c.device);
    c.driver = j.value("driver", std::string());
    c.cuda = j.value("cuda", std::string());
    c.date = j.value("date", std::string());
    c.commit = j.value("commit", std::string());
    c.command = j.value("command", std::string());
    j.at("l2_bytes").get_to(c.l2_bytes);
    j.at("partitions").get_to(c.partitions);
    j.at("usable").get_to(c.usable);
    j.at("repeats").get_to(c.repeats);
    for (const Json& p : j.at("points"))
      c.points.push_back({p.at("buffer_bytes").get<std::int64_t>(), p.at("dram_read").get<double>(),
                          p.at("l2_read").get<double>(), p.at("fabric").get<double>(),
                          p.at("miss_share").get<double>()});
    for (const Json& launch : j.at("sides")) c.sides.push_back(sides_from(launch.get<std::string>()));
  } catch (const nlohmann::json::exception& e) {
    std::string what = e.what();
    if (const std::size_t name = what.find("] "); name != std::string::npos) what.erase(0, name + 2);
    throw RecordError(what + "; expected what `flashsim sweep-l2` writes");
  }
  if (const std::string fault = fault_of(c); !fault.empty()) throw RecordError(fault);
  return c;
}

std::string card_file_name(const std::string& device) {
  std::string name;
  for (const char c : device) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      name += static_cast<char>(std::tolower(byte));
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return (name.empty() ? "card" : name) + ".json";
}

}  // namespace flashsim
