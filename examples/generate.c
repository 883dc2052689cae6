/* The same in C: an answer, printed as it comes. Usage: generate_c [MODEL [PROMPT]] */
#include <stdio.h>

#include "tutti/c_api.h"

static tutti_code print(void* user, const tutti_token* token) {
  (void)user;
  fwrite(token->text, 1, token->text_bytes, stdout);
  return TUTTI_OK; /* TUTTI_CANCELLED would stop here */
}

static int fail(tutti_error* error) {
  fprintf(stderr, "%s: %s\n", tutti_error_reason(error), tutti_error_message(error));
  tutti_error_free(error);
  return 1;
}

int main(int argc, char** argv) {
  tutti_error* error = NULL;
  tutti_model* model = NULL;
  tutti_completion* answer = NULL;
  int status = 0;

  tutti_options* options = tutti_options_new(argc > 1 ? argv[1] : NULL);
  tutti_options_set(options, "threads", "2");
  tutti_code code = tutti_model_load(options, &model, &error);
  tutti_options_free(options);
  if (code != TUTTI_OK) return fail(error);

  tutti_request* request = tutti_request_new();
  tutti_request_message(request, TUTTI_USER, argc > 2 ? argv[2] : "What is 2 + 2?");
  tutti_request_set(request, "temperature", 0);
  tutti_request_set(request, "max_tokens", 32);
  if (tutti_generate(model, request, print, NULL, &answer, &error) == TUTTI_OK) {
    printf("\n%d tokens in, %d out\n", tutti_completion_prompt_tokens(answer),
           tutti_completion_completion_tokens(answer));
  } else {
    status = fail(error);
  }
  tutti_completion_free(answer);
  tutti_request_free(request);
  tutti_model_free(model);
  return status;
}
