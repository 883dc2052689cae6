#include <string>
#include <utility>

#include "tokenizer/regex/automaton.h"

namespace tutti::tokenizer::regex {
namespace {

class Builder {
 public:
  explicit Builder(const Syntax& syntax) : syntax_(syntax) {}

  Result<Program> Run() {
    open_.emplace_back();
    const StepId accept = Add({.kind = Step::Kind::kAccept});
    program_.start = Build(syntax_.root, accept);
    program_.strata.push_back(std::move(open_.back()));
    if (full_) {
      return InvalidArgument("tokenizer_limit", "split expression has more than " +
                                                    std::to_string(kMaxSteps) +
                                                    " steps when its counts are written out");
    }
    if (empty_loops_ > kMaxEmptyLoops) {
      return InvalidArgument("tokenizer_limit", "split expression has " +
                                                    std::to_string(empty_loops_) +
                                                    " loops over what may be empty, limit " +
                                                    std::to_string(kMaxEmptyLoops));
    }
    program_.has_empty_loops = empty_loops_ > 0;
    return std::move(program_);
  }

 private:
  StepId Add(Step step) {
    if (program_.steps.size() >= kMaxSteps) {
      full_ = true;
      return 0;
    }
    program_.steps.push_back(step);
    const auto id = static_cast<StepId>(program_.steps.size() - 1);
    open_.back().push_back(id);
    return id;
  }

  // The first step of `node`, whose last steps lead to `next`. Recursion is as deep as the tree,
  // which kMaxNesting bounds.
  StepId Build(NodeId id, StepId next) {
    if (full_) return next;
    const Node& node = syntax_.nodes[id];
    switch (node.kind) {
      case Node::Kind::kEmpty:
        return next;
      case Node::Kind::kSet:
        return Add({.kind = Step::Kind::kConsume, .set = node.set, .next = next});
      case Node::Kind::kConcat:
        for (size_t i = node.children.size(); i-- > 0;) next = Build(node.children[i], next);
        return next;
      case Node::Kind::kAlternate: {
        StepId rest = Build(node.children.back(), next);
        for (size_t i = node.children.size() - 1; i-- > 0;) {
          const StepId branch = Build(node.children[i], next);
          rest = Add({.kind = Step::Kind::kSplit, .next = branch, .other = rest});
        }
        return rest;
      }
      case Node::Kind::kRepeat:
        return BuildRepeat(node, next);
      case Node::Kind::kLook: {
        open_.emplace_back();
        const StepId accept = Add({.kind = Step::Kind::kAccept});
        const StepId body = Build(node.children[0], accept);
        program_.strata.push_back(std::move(open_.back()));
        open_.pop_back();
        return Add(
            {.kind = Step::Kind::kLook, .negative = node.negative, .next = next, .other = body});
      }
      case Node::Kind::kBehind:
        return Add({.kind = Step::Kind::kBehind,
                    .negative = node.negative,
                    .set = node.set,
                    .next = next});
    }
    return next;
  }

  StepId Split(bool greedy, StepId more, StepId leave) {
    return Add({.kind = Step::Kind::kSplit,
                .next = greedy ? more : leave,
                .other = greedy ? leave : more});
  }

  StepId BuildRepeat(const Node& node, StepId next) {
    const NodeId child = node.children[0];
    StepId first = next;
    if (node.max == kUnlimited) {
      // The start of the loop is created before its body, which leads back to it.
      first = Add({.kind = Step::Kind::kSplit});
      StepId body;
      if (syntax_.nodes[child].nullable) {
        const auto loop = static_cast<uint32_t>(empty_loops_++);
        const StepId end =
            Add({.kind = Step::Kind::kLoopEnd, .set = loop, .next = first, .other = next});
        body = Add({.kind = Step::Kind::kLoopBegin, .set = loop, .next = Build(child, end)});
      } else {
        body = Build(child, first);
      }
      if (full_) return first;
      Step& split = program_.steps[first];
      split.next = node.greedy ? body : next;
      split.other = node.greedy ? next : body;
    } else {
      for (uint32_t i = node.min; i < node.max && !full_; ++i)
        first = Split(node.greedy, Build(child, first), next);
    }
    for (uint32_t i = 0; i < node.min && !full_; ++i) first = Build(child, first);
    return first;
  }

  const Syntax& syntax_;
  Program program_;
  std::vector<std::vector<StepId>> open_;  // strata that are being built, the innermost last
  size_t empty_loops_ = 0;
  bool full_ = false;
};

}  // namespace

Result<Program> MakeProgram(const Syntax& syntax) { return Builder(syntax).Run(); }

}  // namespace tutti::tokenizer::regex
