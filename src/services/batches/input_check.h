// InputCheck: whether the lines of a batch's input may be run, a piece of the file at a time; what
// is wrong with which of them. Memory is bounded: a line, and the first of the faults.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/batches/batch_rows.h"
#include "services/batches/line_splitter.h"
#include "wire/batch.h"

namespace tutti::batches {

class InputCheck {
 public:
  static constexpr size_t kMostErrors = 100;  // that are told

  // `model`: whether a model may be used, by its name.
  InputCheck(std::string endpoint, std::function<Status(const std::string&)> model)
      : endpoint_(std::move(endpoint)),
        model_(std::move(model)),
        splitter_(static_cast<size_t>(wire::kMostBatchLineBytes)) {}

  // The lines that may run among those that the bytes complete.
  std::vector<NewLine> Feed(std::string_view bytes);
  std::vector<NewLine> End();  // likewise, at the file's end
  // Lines whose custom_id is that of another.
  void AddDuplicates(const std::vector<int64_t>& lines);

  // No further line can change that it fails.
  bool hopeless() const { return hopeless_; }
  const std::vector<wire::BatchError>& errors() const { return errors_; }
  int64_t lines() const { return lines_; }                         // that may run
  const std::string& first_model() const { return first_model_; }  // empty: none is named

 private:
  void OnLine(const LineSplitter::Line& line, std::vector<NewLine>* good);
  void Fault(std::string code, std::string message, std::string param, int64_t line);

  const std::string endpoint_;
  const std::function<Status(const std::string&)> model_;
  LineSplitter splitter_;
  std::vector<wire::BatchError> errors_;
  std::string first_model_, known_model_;
  int64_t lines_ = 0, inputs_ = 0;
  bool hopeless_ = false;
};

}  // namespace tutti::batches
