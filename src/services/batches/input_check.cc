#include "services/batches/input_check.h"

#include <utility>

namespace tutti::batches {

std::vector<NewLine> InputCheck::Feed(std::string_view bytes) {
  std::vector<NewLine> good;
  splitter_.Feed(bytes, [&](const LineSplitter::Line& line) { OnLine(line, &good); });
  return good;
}

std::vector<NewLine> InputCheck::End() {
  std::vector<NewLine> good;
  splitter_.End([&](const LineSplitter::Line& line) { OnLine(line, &good); });
  if (lines_ == 0 && errors_.empty()) Fault("empty_file", "the input has no lines", "", 0);
  return good;
}

void InputCheck::AddDuplicates(const std::vector<int64_t>& lines) {
  for (const int64_t line : lines)
    Fault("duplicate_custom_id", "another line has this custom_id", "custom_id", line);
}

void InputCheck::OnLine(const LineSplitter::Line& line, std::vector<NewLine>* good) {
  if (hopeless_) return;
  if (line.too_long) {
    return Fault("line_too_long",
                 "the line has more than the " + std::to_string(protocol::kMaxBatchLineBytes) +
                     " bytes that are accepted",
                 "", line.number);
  }
  if (line.text.find_first_not_of(" \t\r") == std::string_view::npos) return;
  Result<protocol::BatchLine> read = protocol::ReadBatchLine(line.text, endpoint_);
  if (!read.ok()) {
    const Status& why = read.status();
    return Fault(why.reason(), why.message(), why.param(), line.number);
  }
  if (read->model != known_model_) {
    if (const Status known = model_(read->model); !known.ok())
      return Fault(known.reason(), known.message(), "body.model", line.number);
    known_model_ = read->model;
  }
  if (first_model_.empty()) first_model_ = read->model;
  inputs_ += read->inputs;
  if (++lines_ > protocol::kMaxBatchLines) {
    hopeless_ = true;
    return Fault("too_many_lines",
                 "the input has more than the " + std::to_string(protocol::kMaxBatchLines) +
                     " lines that are accepted",
                 "", line.number);
  }
  if (endpoint_ == "/v1/embeddings" && inputs_ > protocol::kMaxBatchInputs) {
    hopeless_ = true;
    return Fault("too_many_inputs",
                 "the lines have more than the " + std::to_string(protocol::kMaxBatchInputs) +
                     " inputs that are accepted in all",
                 "", line.number);
  }
  NewLine made;
  made.line = line.number;
  made.offset = line.offset;
  made.bytes = std::ssize(line.text);
  made.custom_id = std::move(read->custom_id);
  good->push_back(std::move(made));
}

void InputCheck::Fault(std::string code, std::string message, std::string param, int64_t line) {
  if (errors_.size() < kMaxErrors)
    errors_.push_back({std::move(code), std::move(message), std::move(param), line});
}

}  // namespace tutti::batches
