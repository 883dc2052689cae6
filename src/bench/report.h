// The result of a bench: figures for programs, a table for people, and the verdict.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace tutti::bench {

struct Report {
  boost::json::object json;           // carries "schema"
  std::string text;                   // ends with a newline
  std::vector<std::string> failures;  // gates missed, answers that differ; empty = passed
};

}  // namespace tutti::bench
