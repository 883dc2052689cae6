// Two texts that grow in turn, a token at a time, at the program's own pace. Usage: step [MODEL]
#include <iostream>
#include <string>
#include <vector>

#include "tutti/tutti.h"

int main(int argc, char** argv) try {
  const tutti::Model model =
      tutti::Model::Load(tutti::ModelOptions(argc > 1 ? argv[1] : "")).value();

  std::vector<tutti::StepState> states;
  states.push_back(model.CreateState(tutti::Text{"Once upon a time"}, 12).value());
  states.push_back(model.CreateState(tutti::Text{"The capital of Italy is"}, 12).value());
  // Between two steps a state may wait as long as it likes, or move to another thread.
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (tutti::StepState& state : states) {
      const tutti::StepResult step = model.Step(state).value();
      if (step.id != tutti::Token::kNone) std::cout << "[" << step.text << "]";
      all_done = all_done && step.done;
    }
  }
  std::cout << "\n";
  for (const tutti::StepState& state : states) std::cout << state.completion().text() << "\n";
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
