// Topics of the table of options: how `--help` groups options, which of them it shows, and what
// `tutti help TOPIC` explains.
//
// Constant; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "app/config/options.h"

namespace tutti::cli {

struct OptionTopic {
  std::string_view name;   // as in `tutti help NAME`; no command has it
  std::string_view title;  // heading of the group in `--help`
};

std::span<const OptionTopic> OptionTopics();  // in the order of `--help-all`
const OptionTopic* FindTopic(std::string_view name);
const OptionTopic& TopicOf(const app::OptionSpec& option);
std::string TopicNames();  // "model, scheduling, ..."

// Whether `--help` shows the option; the others are shown by `--help-all` and by their topic.
bool IsCommonOption(const app::OptionSpec& option);

}  // namespace tutti::cli
