// `tutti embed`: texts to embeddings, one JSON object a line, or the texts that are most like
// another.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "app/blocking_waker.h"
#include "app/loading/loading.h"
#include "app/local_inference.h"
#include "cli/command_line.h"
#include "cli/number_option.h"
#include "cli/pull.h"
#include "cli/text_lines.h"
#include "protocol/encoding/errors.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {
namespace {

// Texts of one request, at most: a few batches, so that the device is never idle between two
// requests for long and memory stays bounded however long the input is.
constexpr size_t kTextsAtOnce = 512;

class EmbedCommand final : public Command {
 public:
  void Declare(CLI::App& parent) override {
    app_ = parent.add_subcommand("embed", "Turn texts into embeddings");
    app_->footer(
        "Without TEXT each line of standard input is a text; they are answered as they come. "
        "Prints a line\n"
        "of JSON for each text, in their order: its number from 0 (\"index\"), the \"tokens\" that "
        "were read, and\n"
        "its \"embedding\". Errors name a text by that number. Examples:\n"
        "  tutti embed all-minilm-l6-v2 \"A cat sits on the mat\" \"Dogs bark\"\n"
        "  tutti embed all-minilm-l6-v2 < sentences.txt > embeddings.jsonl\n"
        "  tutti embed all-minilm-l6-v2 --like \"where do cats sit?\" --top 3 < sentences.txt");
    app_->add_option("MODEL", model_, "an encoder's folder or a known model")
        ->check(ModelName())
        ->required();
    app_->add_option("TEXT", texts_, "a text; several may follow");
    app_->add_option("--like", like_,
                     "print the texts with their cosine to this one, the nearest first");
    AddNumber(*app_, "--top", top_, 1, 1'000'000,
              "with --like: number of texts that are printed [10]");
    AddNumber(*app_, "--dimensions", dimensions_, 1, 1 << 20,
              "leading components of each embedding; of models trained for it");
    app_->add_option("--prompt-name", prompt_name_, "the model's named prompt to put before texts");
    app_->add_flag("--truncate", truncate_,
                   "read the beginning of a text that is too long, instead of refusing it");
    app_->add_flag("--no-normalize", raw_, "embeddings as the model leaves them");
    options_.AddTo(*app_, app::OptionGroup::kModel);
  }

  int Run() override {
    const Result<app::Settings> settings = options_.Resolve({{"encode.decoders", "on"}});
    if (!settings.ok()) return FailConfig(settings.status());
    if (options_.PrintedConfig(*settings, /*with_server_options=*/false)) return kExitOk;
    const Result<app::ModelRef> ref = FindModel(*settings, model_);
    if (!ref.ok()) return Fail(ref.status());
    name_ = ref->served_name;
    app::LocalInference inference(*settings, nullptr);
    Result<app::OpenedModel> opened = app::OpenOne(inference, *ref);
    if (!opened.ok()) return Fail(opened.status());
    if (const Status status = inference.Load(*std::move(opened)); !status.ok()) return Fail(status);
    if (texts_.empty() && isatty(STDIN_FILENO) == 1)
      std::fputs("tutti: ready for texts, one in each line; Ctrl-D ends\n", stderr);
    const Status status =
        app_->count("--like") > 0 ? Rank(inference.gateway()) : Print(inference.gateway());
    return status.ok() ? kExitOk : Fail(status);
  }

 private:
  // The name of a text in errors.
  std::string NameOf(size_t index) const {
    const std::string name = "text " + std::to_string(index);
    return texts_.empty() ? name + " (line " + std::to_string(index + 1) + " of standard input)"
                          : name;
  }

  // The next texts: arguments, else lines of standard input. Empty at the end.
  Result<std::vector<std::string>> NextTexts() {
    std::vector<std::string> texts;
    if (texts_.empty()) {
      Result<std::vector<std::string>> lines = lines_.Next(kTextsAtOnce);
      if (lines.ok() || lines.status().reason() == "io_error") return lines;
      return InvalidArgument(lines.status().reason(),
                             NameOf(taken_) + " " + lines.status().message());
    }
    while (taken_ + texts.size() < texts_.size() && texts.size() < kTextsAtOnce)
      texts.push_back(texts_[taken_ + texts.size()]);
    return texts;
  }

  // Passes on the vectors of all texts, in order and group by group: `take` gets a group's texts,
  // which it may keep, and their vectors. Vectors before a refused text are passed on too.
  template <typename Take>
  Status ForEachGroup(api::Inference& inference, const Take& take) {
    while (true) {
      ASSIGN_OR_RETURN(std::vector<std::string> texts, NextTexts());
      if (texts.empty()) return OkStatus();
      Result<api::EncodeResult> result = Encode(inference, texts);
      if (result.ok()) {
        RETURN_IF_ERROR(take(texts, *result));
        taken_ += texts.size();
        continue;
      }
      const std::optional<size_t> refused = protocol::BlamedInput(result.status().param());
      if (!refused.has_value() || *refused >= texts.size()) return result.status();
      const Status why = Named(result.status(), *refused);
      texts.resize(*refused);
      if (!texts.empty()) {
        ASSIGN_OR_RETURN(const api::EncodeResult before, Encode(inference, texts));
        RETURN_IF_ERROR(take(texts, before));
      }
      return why;
    }
  }

  // The refusal of a group's text `index` under its own number.
  Status Named(const Status& status, size_t index) const {
    const std::string counted = "input " + std::to_string(index) + " ";
    std::string why = ": " + status.message();
    if (status.message().starts_with(counted)) why = status.message().substr(counted.size() - 1);
    if (status.reason() == "empty_prompt") why = " is empty";
    if (status.reason() == "context_length_exceeded") why += "; --truncate has its beginning read";
    return Status(status.code(), status.reason(), NameOf(taken_ + index) + why);
  }

  Result<api::EncodeResult> Encode(api::Inference& inference,
                                   const std::vector<std::string>& texts) const {
    api::EncodeRequest request;
    request.model = name_;
    request.inputs.assign(texts.begin(), texts.end());
    if (raw_) request.normalize = false;
    if (dimensions_ > 0) request.dimensions = dimensions_;
    if (!prompt_name_.empty()) request.prompt_name = prompt_name_;
    if (truncate_) request.truncation = api::Truncation::kRight;
    auto waker = std::make_shared<app::BlockingWaker>();
    ASSIGN_OR_RETURN(api::Encoding encoding, inference.Encode(std::move(request), waker));
    return waker->Await(encoding);
  }

  Status Print(api::Inference& inference) {
    return ForEachGroup(
        inference,
        [&](const std::vector<std::string>& texts, const api::EncodeResult& result) -> Status {
          const auto width = static_cast<size_t>(result.width);
          for (size_t i = 0; i < texts.size(); ++i) {
            std::string line;
            protocol::JsonWriter json(&line);
            json.BeginObject()
                .Member("index", static_cast<int64_t>(taken_ + i))
                .Member("tokens", result.tokens[i])
                .Key("embedding")
                .BeginArray();
            for (size_t c = 0; c < width; ++c) json.Float(result.values[i * width + c]);
            json.EndArray().EndObject();
            line += '\n';
            RETURN_IF_ERROR(Write(line));
          }
          return std::fflush(stdout) == 0 ? OkStatus() : Unwritten();
        });
  }

  Status Rank(api::Inference& inference) {
    ASSIGN_OR_RETURN(const api::EncodeResult query, Encode(inference, {like_}));
    struct Match {
      double cosine;
      std::string text;
    };
    std::vector<Match> matches;
    // The nearest first, the earlier of equal ones first, and no more than are asked for.
    const auto keep_nearest = [&] {
      std::stable_sort(matches.begin(), matches.end(),
                       [](const Match& a, const Match& b) { return a.cosine > b.cosine; });
      if (matches.size() > static_cast<size_t>(top_))
        matches.erase(matches.begin() + top_, matches.end());
    };
    RETURN_IF_ERROR(ForEachGroup(inference, [&](std::vector<std::string>& texts,
                                                const api::EncodeResult& result) {
      const auto width = static_cast<size_t>(result.width);
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto row = result.values.begin() + static_cast<std::ptrdiff_t>(i * width);
        matches.push_back({Cosine(query.values, {row, row + result.width}), std::move(texts[i])});
      }
      // Not for each group: many may be asked for.
      if (matches.size() >= 2 * static_cast<size_t>(top_)) keep_nearest();
      return OkStatus();
    }));
    keep_nearest();
    for (const Match& match : matches) {
      char cosine[32];
      std::snprintf(cosine, sizeof cosine, "%7.4f  ", match.cosine);
      RETURN_IF_ERROR(Write(cosine + match.text + "\n"));
    }
    return OkStatus();
  }

  static double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
    const auto dot = [](const std::vector<float>& x, const std::vector<float>& y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    };
    return dot(a, b) / std::max(std::sqrt(dot(a, a) * dot(b, b)), 1e-12);
  }

  static Status Write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return OkStatus();
    return Unwritten();
  }
  static Status Unwritten() { return Unavailable("io_error", "the embeddings cannot be written"); }

  SettingsOptions options_;
  std::string model_, name_, like_, prompt_name_;
  std::vector<std::string> texts_;
  TextLines lines_{STDIN_FILENO};
  size_t taken_ = 0;  // texts that were answered
  int top_ = 10, dimensions_ = 0;
  bool truncate_ = false, raw_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeEmbedCommand() { return std::make_unique<EmbedCommand>(); }

}  // namespace tutti::cli
