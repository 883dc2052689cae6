#include "engine/request_state.h"

#include <algorithm>
#include <utility>

namespace tutti::engine {

std::unique_ptr<RequestState> MakeRequestState(AdmissionPermit permit, Request request,
                                               std::shared_ptr<api::TokenStream> stream,
                                               const RunnerLimits& limits, const TokenText* text,
                                               bool speculate, bool draft) {
  auto work = std::make_unique<RequestState>();
  work->request = std::move(request);
  work->stream = std::move(stream);
  work->control = permit.control();
  work->permit = std::move(permit);
  const Request& r = work->request;
  work->stops = sampling::StopSet(r.sampling.stop);
  work->usage.prompt_tokens = static_cast<int>(r.prompt.size());
  work->live_choices = r.n;
  const int prompt = static_cast<int>(r.prompt.size());
  // The last token is drawn and never computed, so a full pool serves one token more than it holds.
  const int room = std::min(limits.context, limits.kv_blocks * kBlockTokens + 1) - prompt;
  const int output = r.score_only ? 0 : std::min(r.sampling.max_tokens.value_or(room), room);
  for (int i = 0; i < r.n; ++i) {
    auto choice = std::make_unique<SequenceOutput>();
    Sequence& s = choice->sequence;
    s.choice = i;
    s.request = &work->request;
    s.prompt_tokens = prompt;
    s.target_tokens = prompt + output;
    s.tokens.reserve(static_cast<size_t>(s.target_tokens));
    s.tokens.assign(r.prompt.begin(), r.prompt.end());
    s.scored = std::max(r.score_from - 1, 0);
    // A stepwise request waits for grants between tokens, perhaps forever, so it does not draft.
    if (speculate && !r.stepwise && output > 1) {
      s.lookup.Begin(s.target_tokens, r.prompt);
      s.prediction.Begin(r.prediction, prompt);
      s.draft.on = draft;
      if (draft) s.draft.blocks.reserve(static_cast<size_t>(BlocksFor(s.target_tokens)));
    }
    s.blocks.ReserveCapacity(BlocksFor(s.target_tokens));
    if (limits.window_blocks > 0)
      s.window_blocks.ids.reserve(static_cast<size_t>(BlocksFor(s.target_tokens)));
    s.end_tokens = r.sampling.stop_token_ids;
    if (!r.sampling.ignore_eos)
      s.end_tokens.insert(s.end_tokens.end(), r.end_tokens.begin(), r.end_tokens.end());
    s.sampler.params = &r.sampling;
    s.sampler.prompt = r.prompt;
    s.sampler.end_tokens = s.end_tokens;
    s.sampler.seed = r.seed;
    s.sampler.stream = static_cast<uint32_t>(i);
    if (r.constraint != nullptr) {
      s.matcher = grammar::Matcher(r.constraint);
      s.reasoning = ReasoningBudget(r.reasoning);
      if (!r.stepwise && output > 1) s.forced.Begin(prompt);
    }
    choice->text = TextOutput(text, &work->stops, r.sampling.include_stop_in_output,
                              r.sampling.skip_special_tokens, r.sampling.min_tokens);
    work->sequences.push_back(&s);
    work->choices.push_back(std::move(choice));
  }
  for (const auto& choice : work->choices) choice->sequence.siblings = work->sequences;
  return work;
}

// --- TextOutput ---

std::optional<size_t> TextOutput::Push(TokenId token, std::string& out) {
  bytes_.clear();
  characters_.clear();
  // `first` is false even for the first output token: it continues the prompt, so a leading space
  // belongs to the model's output.
  text_->AppendBytes(token, /*first=*/false, skip_special_, bytes_);
  repair_.Push(bytes_, characters_);
  if (++tokens_ < min_tokens_) {
    out.append(characters_);
    return std::nullopt;
  }
  return matcher_.Push(characters_, out);
}

void TextOutput::Finish(std::string& out) {
  matcher_.Finish(out);
  repair_.Finish(out);
}

}  // namespace tutti::engine
