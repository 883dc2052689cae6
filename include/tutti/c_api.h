/* The C interface of Tutti: opaque handles over the C++ library, whose contracts hold here too.
 *
 * A function that can fail returns a tutti_code and, where `error` is not NULL, stores there what
 * went wrong (freed by tutti_error_free) or NULL. Without memory the code is
 * TUTTI_RESOURCE_EXHAUSTED and the error may be NULL. A setter without `error` returns
 * TUTTI_INVALID_ARGUMENT for a NULL or a value out of its type, and that code without memory.
 * Results are written only on TUTTI_OK. Every *_new, *_load, submit, join and generate makes
 * something its *_free frees; *_free takes NULL. Strings are UTF-8 and end with a zero; those that
 * come back belong to the handle they were asked of. A tutti_model is for any thread at once;
 * everything else is for one thread at a time, but tutti_job_cancel, which is for any. No C++
 * exception leaves a function.
 */
#ifndef TUTTI_C_API_H_
#define TUTTI_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The canonical codes of RPC. */
typedef enum tutti_code {
  TUTTI_OK = 0,
  TUTTI_CANCELLED = 1,
  TUTTI_UNKNOWN = 2,
  TUTTI_INVALID_ARGUMENT = 3,
  TUTTI_DEADLINE_EXCEEDED = 4,
  TUTTI_NOT_FOUND = 5,
  TUTTI_ALREADY_EXISTS = 6,
  TUTTI_PERMISSION_DENIED = 7,
  TUTTI_RESOURCE_EXHAUSTED = 8,
  TUTTI_FAILED_PRECONDITION = 9,
  TUTTI_ABORTED = 10,
  TUTTI_OUT_OF_RANGE = 11,
  TUTTI_UNIMPLEMENTED = 12,
  TUTTI_INTERNAL = 13,
  TUTTI_UNAVAILABLE = 14,
  TUTTI_DATA_LOSS = 15,
  TUTTI_UNAUTHENTICATED = 16
} tutti_code;

typedef struct tutti_error tutti_error;
typedef struct tutti_options tutti_options;
typedef struct tutti_model tutti_model;
typedef struct tutti_request tutti_request;
typedef struct tutti_job tutti_job;
typedef struct tutti_state tutti_state;
typedef struct tutti_completion tutti_completion;

TUTTI_API const char* tutti_version(void); /* "0.1.0" */

/* --- errors --- */
TUTTI_API tutti_code tutti_error_code(const tutti_error* error);
TUTTI_API const char* tutti_error_reason(const tutti_error* error); /* "context_length_exceeded" */
TUTTI_API const char* tutti_error_message(const tutti_error* error);
TUTTI_API const char* tutti_error_param(const tutti_error* error); /* the field at fault, or "" */
TUTTI_API void tutti_error_free(tutti_error* error);

/* --- models --- */
/* A .gguf file or the name of a known model; NULL or "" is the default model. NULL when out of
 * memory. */
TUTTI_API tutti_options* tutti_options_new(const char* model);
/* An option of the program's model commands by its long name: "threads", "lanes", "kv-cache-bytes",
 * ... Any name and value are taken; tutti_model_load checks them (unknown_parameter,
 * invalid_value). */
TUTTI_API tutti_code tutti_options_set(tutti_options* options, const char* name, const char* value);
TUTTI_API void tutti_options_free(tutti_options* options);

TUTTI_API tutti_code tutti_model_load(const tutti_options* options, tutti_model** model,
                                      tutti_error** error);
/* Gives the handle back; the model is unloaded when no job or state of it is left. */
TUTTI_API void tutti_model_free(tutti_model* model);
TUTTI_API int tutti_model_context(
    const tutti_model* model); /* tokens, prompt and output together */
TUTTI_API int tutti_model_vocabulary(const tutti_model* model); /* tokens */

/* Writes at most `capacity` token ids and always their number; `ids` may be NULL with capacity 0.
 * Begin-of-text is added where the model file says so, and special tokens written in the text
 * ("<|im_start|>") are taken as such: never put a stranger's text here to build a prompt from,
 * use tutti_request_message. */
TUTTI_API tutti_code tutti_tokenize(const tutti_model* model, const char* text, int32_t* ids,
                                    size_t capacity, size_t* count, tutti_error** error);
/* Special tokens are spelled out. `text` is freed by tutti_string_free. */
TUTTI_API tutti_code tutti_detokenize(const tutti_model* model, const int32_t* ids, size_t count,
                                      char** text, tutti_error** error);
TUTTI_API void tutti_string_free(char* text);

/* --- requests: values, which may be used again --- */
typedef enum tutti_role { TUTTI_SYSTEM = 0, TUTTI_USER = 1, TUTTI_ASSISTANT = 2 } tutti_role;

TUTTI_API tutti_request* tutti_request_new(void); /* NULL when out of memory */
TUTTI_API void tutti_request_free(tutti_request* request);
/* The prompt: one of a text to be continued, token ids, or a conversation, added message by
 * message. A text is read as tutti_tokenize reads it, special tokens and all; what stands in a
 * message never becomes a special token. */
TUTTI_API tutti_code tutti_request_text(tutti_request* request, const char* text);
TUTTI_API tutti_code tutti_request_tokens(tutti_request* request, const int32_t* ids, size_t count);
TUTTI_API tutti_code tutti_request_message(tutti_request* request, tutti_role role,
                                           const char* content);
/* A function that the model may call in this conversation. `description` and `parameters` (a JSON
 * schema of the arguments, an object) may be NULL. `strict` is not 0: a schema that cannot be
 * enforced in full is refused. */
TUTTI_API tutti_code tutti_request_tool(tutti_request* request, const char* name,
                                        const char* description, const char* parameters,
                                        int strict);
typedef enum tutti_tool_choice {
  TUTTI_TOOLS_AUTO = 0,     /* the model decides */
  TUTTI_TOOLS_NONE = 1,     /* no call */
  TUTTI_TOOLS_REQUIRED = 2, /* at least one call */
  TUTTI_TOOLS_NAMED = 3     /* a call of `name` */
} tutti_tool_choice;
/* `name` is needed by TUTTI_TOOLS_NAMED alone. `parallel` is not 0: an answer may hold several
 * calls. */
TUTTI_API tutti_code tutti_request_tool_choice(tutti_request* request, tutti_tool_choice choice,
                                               const char* name, int parallel);
/* A call that the assistant made earlier: part of the last message if that is the assistant's, else
 * of a new one without text. */
TUTTI_API tutti_code tutti_request_tool_call(tutti_request* request, const char* id,
                                             const char* name, const char* arguments);
/* The result of the call with that id. */
TUTTI_API tutti_code tutti_request_tool_result(tutti_request* request, const char* id,
                                               const char* content);

typedef enum tutti_constraint {
  TUTTI_JSON_OBJECT = 0,   /* any JSON object; `text` may be NULL */
  TUTTI_JSON_SCHEMA = 1,   /* `text`: a JSON schema */
  TUTTI_REGEX = 2,         /* `text`: a regular expression that matches the whole answer */
  TUTTI_CHOICE = 3,        /* `text`: one text more of which the answer is one */
  TUTTI_GRAMMAR = 4,       /* `text`: a grammar in GBNF */
  TUTTI_STRUCTURAL_TAG = 5 /* `text`: {"triggers": [...], "structures": [...]} */
} tutti_constraint;
/* What the answer must satisfy, in place of what was set before; but for TUTTI_CHOICE, whose texts
 * add up. An answer outside of it was cut (TUTTI_LENGTH). */
TUTTI_API tutti_code tutti_request_constrain(tutti_request* request, tutti_constraint kind,
                                             const char* text);

/* By name: temperature top_p top_k min_p repetition_penalty presence_penalty frequency_penalty seed
 * max_tokens min_tokens ignore_eos skip_special_tokens logprobs n timeout_ms max_reasoning_tokens.
 * TUTTI_INVALID_ARGUMENT for another name or a number that does not fit; ranges are checked when
 * the request is used. */
TUTTI_API tutti_code tutti_request_set(tutti_request* request, const char* name, double value);
TUTTI_API tutti_code tutti_request_seed(tutti_request* request, int64_t seed); /* all 64 bits */
TUTTI_API tutti_code tutti_request_stop(tutti_request* request,
                                        const char* text); /* one more stop string */
TUTTI_API tutti_code tutti_request_stop_token(tutti_request* request, int32_t id);
TUTTI_API tutti_code tutti_request_logit_bias(tutti_request* request, int32_t id, float bias);

/* --- generating --- */
typedef struct tutti_token {
  int32_t id;        /* -1: text that was held back until the end */
  int32_t choice;    /* which of n answers */
  const char* text;  /* whole characters only; valid until the next call on the same handle */
  size_t text_bytes; /* without the final zero */
  float logprob;     /* NAN unless asked for */
} tutti_token;

/* Called with each piece. TUTTI_OK goes on; TUTTI_CANCELLED stops, which is no error; another code
 * fails the generation with that code and reason "handler_failed". */
typedef tutti_code (*tutti_handler)(void* user, const tutti_token* token);

/* Waits for the whole answer. `handler` may be NULL; it is called on this thread. */
TUTTI_API tutti_code tutti_generate(const tutti_model* model, const tutti_request* request,
                                    tutti_handler handler, void* user,
                                    tutti_completion** completion, tutti_error** error);

/* Starts one and returns at once. */
TUTTI_API tutti_code tutti_submit(const tutti_model* model, const tutti_request* request,
                                  tutti_job** job, tutti_error** error);
TUTTI_API int tutti_job_next(tutti_job* job,
                             tutti_token* token); /* 1, or 0 when there is none to come */
TUTTI_API void tutti_job_cancel(tutti_job* job);
TUTTI_API tutti_code tutti_job_join(tutti_job* job, tutti_completion** completion,
                                    tutti_error** error);
TUTTI_API void tutti_job_free(tutti_job* job); /* cancels what still runs */

/* One token at a time, when asked; *done is 1 with the last. The token's id is -1 when it had ended
 * before. */
TUTTI_API tutti_code tutti_state_new(const tutti_model* model, const tutti_request* request,
                                     tutti_state** state, tutti_error** error);
TUTTI_API tutti_code tutti_state_step(tutti_state* state, tutti_token* token, int* done,
                                      tutti_error** error);
/* What was made so far, with reasoning and calls; freed by tutti_completion_free. How it finished
 * counts once *done was 1. */
TUTTI_API tutti_code tutti_state_completion(const tutti_state* state, tutti_completion** completion,
                                            tutti_error** error);
TUTTI_API void tutti_state_free(tutti_state* state);

/* --- answers --- */
typedef enum tutti_finish {
  TUTTI_STOP = 0,
  TUTTI_LENGTH = 1,
  TUTTI_CANCELLED_BY_CALLER = 2,
  TUTTI_TOOL_CALLS = 3 /* end of text behind at least one call */
} tutti_finish;

TUTTI_API int tutti_completion_choices(const tutti_completion* completion);
/* `choice` from 0; out of range gives NULL, 0 or TUTTI_LENGTH. */
TUTTI_API const char* tutti_completion_text(const tutti_completion* completion, int choice);
TUTTI_API const int32_t* tutti_completion_tokens(const tutti_completion* completion, int choice,
                                                 size_t* count);
TUTTI_API tutti_finish tutti_completion_finish(const tutti_completion* completion, int choice);
/* What the model thought before its answer, where that is separate; "" where there is none. */
TUTTI_API const char* tutti_completion_reasoning(const tutti_completion* completion, int choice);
TUTTI_API int tutti_completion_tool_calls(const tutti_completion* completion, int choice);
typedef struct tutti_tool_call {
  const char* id;
  const char* name;      /* of the function */
  const char* arguments; /* a JSON object */
} tutti_tool_call;
/* Call `index` from 0. TUTTI_OUT_OF_RANGE where there is none. */
TUTTI_API tutti_code tutti_completion_tool_call(const tutti_completion* completion, int choice,
                                                int index, tutti_tool_call* call);
TUTTI_API int tutti_completion_prompt_tokens(const tutti_completion* completion);
TUTTI_API int tutti_completion_completion_tokens(const tutti_completion* completion);
TUTTI_API void tutti_completion_free(tutti_completion* completion);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_C_API_H_ */
