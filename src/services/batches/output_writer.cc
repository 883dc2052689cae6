#include "services/batches/output_writer.h"

#include <unistd.h>

#include <utility>

#include "base/random.h"
#include "protocol/anthropic/message_batch.h"
#include "protocol/openai/batch.h"
#include "services/responses/responses.h"

namespace tutti::batches {
namespace {

constexpr int64_t kSliceBytes = 1 << 20;

std::string Place(const std::string& batch, int64_t line) {
  return batch.substr(batch.find('_') + 1) + "-" + std::to_string(line);
}

}  // namespace

std::string LineId(const std::string& batch, int64_t line) {
  return "batch_req_" + Place(batch, line);
}
std::string LineRequestId(const std::string& batch, int64_t line) {
  return "req_" + Place(batch, line);
}

void OutputWriter::Write(const BatchRow& row, store::Store& store, Files& files, int64_t now_s,
                         Done done) {
  const std::shared_ptr<OutputWriter> writer(
      new OutputWriter(row, store, files, now_s, std::move(done)));
  writer->Next();
}

void OutputWriter::Next() {
  const store::AskStore ask(store_, files_.strand());
  ask.Read(
      [self = shared_from_this()](store::Database& rows) {
        return ReadResults(rows, self->row_.number, self->after_, kSliceBytes);
      },
      [self = shared_from_this()](const Result<std::vector<LineResult>>& results) {
        if (!results.ok()) return self->done_(results.status());
        if (results->empty()) return self->done_(self->Keep());
        for (const LineResult& result : *results) {
          if (const Status added = self->Add(result); !added.ok()) return self->done_(added);
          self->after_ = result.line;
        }
        self->Next();
      });
}

Status OutputWriter::Add(const LineResult& result) {
  // Anthropic's clients read one list of results, of all requests.
  if (row_.view.endpoint == protocol::kMessagesEndpoint) {
    return Append(&output_, &made_.output, "results",
                  protocol::MessageBatchResultLine(result.custom_id, result.status_code,
                                                   result.body, row_.ending));
  }
  const std::string id = LineId(row_.view.id, result.line);
  if (result.status_code == 0) {
    const bool expired = row_.ending == BatchState::kExpired;
    return Append(&errors_, &made_.errors, "errors",
                  protocol::BatchErrorLine(
                      id, result.custom_id, expired ? "batch_expired" : "batch_cancelled",
                      expired ? "the batch expired before this line had run"
                              : "the batch was cancelled before this line had run"));
  }
  const std::string line =
      protocol::BatchAnswerLine(id, result.custom_id, result.status_code,
                                LineRequestId(row_.view.id, result.line), result.body);
  return result.status_code == 200 ? Append(&output_, &made_.output, "output", line)
                                   : Append(&errors_, &made_.errors, "errors", line);
}

Status OutputWriter::Append(std::optional<DiskFile>* file, std::optional<FileRow>* made,
                            const char* name, const std::string& line) {
  if (!file->has_value()) {
    FileRow row;
    row.view.id = NewId("file-");
    row.view.purpose = protocol::kBatchOutputPurpose;
    row.view.filename = row_.view.id + "_" + name + ".jsonl";
    row.view.created_s = now_s_;
    if (row_.output_expires_s > 0) row.view.expires_s = now_s_ + row_.output_expires_s;
    row.owner = row_.owner;
    ASSIGN_OR_RETURN(DiskFile created, DiskFile::Create(files_.PathOf(row.view.id + ".part")));
    file->emplace(std::move(created));
    *made = std::move(row);
  }
  ++(*made)->lines;
  return (*file)->Append(line);
}

Result<OutputFiles> OutputWriter::Keep() {
  for (const auto& [file, made] : {std::pair{&output_, &made_.output}, {&errors_, &made_.errors}}) {
    if (!file->has_value()) continue;
    (*made)->view.bytes = (*file)->bytes();
    if (const Status kept = (*file)->KeepAs(files_.PathOf((*made)->view.id)); !kept.ok()) {
      if (file == &errors_ && made_.output.has_value())
        unlink(files_.PathOf(made_.output->view.id).c_str());
      return kept;
    }
  }
  return std::move(made_);
}

}  // namespace tutti::batches
