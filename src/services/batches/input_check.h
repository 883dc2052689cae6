// InputCheck: incremental validation of a batch's input file. Memory is bounded: one line and the
// first kMaxErrors errors.
//
// For use by one thread at a time.
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
  static constexpr size_t kMaxErrors = 100;  // that are reported

  // `model`: whether a model may be used, by its name.
  InputCheck(std::string endpoint, std::function<Status(const std::string&)> model)
      : endpoint_(std::move(endpoint)),
        model_(std::move(model)),
        splitter_(static_cast<size_t>(wire::kMaxBatchLineBytes)) {}

  // Reads more bytes and returns the valid lines that they complete.
  std::vector<NewLine> Feed(std::string_view bytes);
  std::vector<NewLine> End();  // at the end of the file; returns a last line without newline
  // Adds errors for lines whose custom_id is not unique.
  void AddDuplicates(const std::vector<int64_t>& lines);

  // True once the file exceeds a limit, so that the rest need not be read.
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
