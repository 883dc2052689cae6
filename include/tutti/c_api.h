/* The C interface of Tutti: opaque handles over the C++ library, whose contracts apply here too.
 *
 * Errors: a function that can fail returns a tutti_code. If `error` is not NULL, it stores an error
 * there (free it with tutti_error_free), or NULL on success. Out of memory, the code is
 * TUTTI_RESOURCE_EXHAUSTED and the error may be NULL. Setters without `error` return
 * TUTTI_INVALID_ARGUMENT for NULL or a value that its type cannot hold, and
 * TUTTI_RESOURCE_EXHAUSTED out of memory. No C++ exception leaves a function.
 *
 * Ownership: results are written only on TUTTI_OK. Handles made by *_new, *_load, submit, join and
 * generate must be freed with the matching *_free, which accepts NULL. Strings are UTF-8 and
 * zero-terminated; returned strings belong to the handle that they were requested from.
 *
 * Threads: a tutti_model may be used by several threads at once. All other handles are for one
 * thread at a time; only tutti_job_cancel may be called by any thread.
 */
#ifndef TUTTI_C_API_H_
#define TUTTI_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enumerations that are arguments: C callers may pass any number, which is a value of the type in
 * C++ only if that is fixed. */
#ifdef __cplusplus
#define TUTTI_ENUM_TYPE : int
#else
#define TUTTI_ENUM_TYPE
#endif

/* The canonical codes of gRPC. */
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

/* UTF-8 that need not end in a zero and may hold zeros. */
typedef struct tutti_text {
  const char* bytes; /* may be NULL with size 0 */
  size_t size;
} tutti_text;

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
/* Sets a model option of the `tutti` program by its long name: "threads",
 * "max-num-seqs", "kv-cache-bytes", ... Names and values are checked by tutti_model_load
 * (unknown_parameter, invalid_value). */
TUTTI_API tutti_code tutti_options_set(tutti_options* options, const char* name, const char* value);
/* `progress` is called by tutti_model_load and tutti_encoder_load on the thread that loads, with
 * the bytes packed so far and the total. It returns 0 to go on; any other value ends the load with
 * code TUTTI_ABORTED and reason "handler_failed". NULL: none. */
TUTTI_API tutti_code tutti_options_progress(tutti_options* options,
                                            int (*progress)(void* user, size_t done, size_t total),
                                            void* user);
TUTTI_API void tutti_options_free(tutti_options* options);

TUTTI_API tutti_code tutti_model_load(const tutti_options* options, tutti_model** model,
                                      tutti_error** error);
/* Releases the handle; the model is unloaded when no job or state of it exists. */
TUTTI_API void tutti_model_free(tutti_model* model);
TUTTI_API int tutti_model_context(
    const tutti_model* model); /* tokens, prompt and output together */
TUTTI_API int tutti_model_vocabulary(const tutti_model* model); /* tokens */
TUTTI_API const char* tutti_model_name(const tutti_model* model);

/* Writes at most `capacity` token ids to `ids`, and the number of all ids to `count`; `ids` may be
 * NULL with capacity 0. Begin-of-text is added if the model file demands it. Special tokens that
 * are spelled in the text ("<|im_start|>") are parsed, so do not build prompts from untrusted text
 * with this function; use tutti_request_message. */
TUTTI_API tutti_code tutti_tokenize(const tutti_model* model, const char* text, int32_t* ids,
                                    size_t capacity, size_t* count, tutti_error** error);
/* Special tokens are spelled out. `text` is freed by tutti_string_free. */
TUTTI_API tutti_code tutti_detokenize(const tutti_model* model, const int32_t* ids, size_t count,
                                      char** text, tutti_error** error);
/* The chat of `request` as the model's chat template writes it. `text` as above.
 * TUTTI_INVALID_ARGUMENT: the request has no chat. */
TUTTI_API tutti_code tutti_render(const tutti_model* model, const tutti_request* request,
                                  char** text, tutti_error** error);
TUTTI_API void tutti_string_free(char* text);

/* --- requests: a request may be used several times --- */
typedef enum tutti_role TUTTI_ENUM_TYPE {
  TUTTI_SYSTEM = 0,
  TUTTI_USER = 1,
  TUTTI_ASSISTANT = 2
} tutti_role;

TUTTI_API tutti_request* tutti_request_new(void); /* NULL when out of memory */
TUTTI_API void tutti_request_free(tutti_request* request);
/* Set the prompt: either a text to be continued, or token ids, or a conversation, which is added
 * message by message. A text is parsed as by tutti_tokenize, including special tokens; the content
 * of a message never yields special tokens. */
TUTTI_API tutti_code tutti_request_text(tutti_request* request, const char* text);
/* The same and tutti_request_message for texts with zeros. */
TUTTI_API tutti_code tutti_request_sized_text(tutti_request* request, tutti_text text);
TUTTI_API tutti_code tutti_request_sized_message(tutti_request* request, tutti_role role,
                                                 tutti_text content);
TUTTI_API tutti_code tutti_request_tokens(tutti_request* request, const int32_t* ids, size_t count);
TUTTI_API tutti_code tutti_request_message(tutti_request* request, tutti_role role,
                                           const char* content);
/* Adds a function that the model may call in this conversation. `description` and `parameters` (a
 * JSON schema of the arguments, an object) may be NULL. With `strict` != 0 a schema that cannot be
 * enforced completely is refused. */
TUTTI_API tutti_code tutti_request_tool(tutti_request* request, const char* name,
                                        const char* description, const char* parameters,
                                        int strict);
typedef enum tutti_tool_choice TUTTI_ENUM_TYPE {
  TUTTI_TOOLS_AUTO = 0,     /* the model decides */
  TUTTI_TOOLS_NONE = 1,     /* no call */
  TUTTI_TOOLS_REQUIRED = 2, /* at least one call */
  TUTTI_TOOLS_NAMED = 3     /* a call of `name` */
} tutti_tool_choice;
/* `name` is used by TUTTI_TOOLS_NAMED only. With `parallel` != 0 an answer may hold several
 * calls. */
TUTTI_API tutti_code tutti_request_tool_choice(tutti_request* request, tutti_tool_choice choice,
                                               const char* name, int parallel);
/* Adds a call that the assistant made earlier, to the last message if that is the assistant's, else
 * to a new assistant message without text. */
TUTTI_API tutti_code tutti_request_tool_call(tutti_request* request, const char* id,
                                             const char* name, const char* arguments);
/* Sets what the assistant thought before the last message, which is the assistant's. */
TUTTI_API tutti_code tutti_request_reasoning(tutti_request* request, const char* text);
/* Options of the chat template: a JSON object, such as {"enable_thinking": false}. */
TUTTI_API tutti_code tutti_request_template_arguments(tutti_request* request, const char* json);
/* Adds the result of the call with that id. */
TUTTI_API tutti_code tutti_request_tool_result(tutti_request* request, const char* id,
                                               const char* content);

typedef enum tutti_constraint TUTTI_ENUM_TYPE {
  TUTTI_JSON_OBJECT = 0,   /* any JSON object; `text` may be NULL */
  TUTTI_JSON_SCHEMA = 1,   /* `text`: a JSON schema */
  TUTTI_REGEX = 2,         /* `text`: a regular expression that matches the whole answer */
  TUTTI_CHOICE = 3,        /* `text`: one more alternative; the answer is one of them */
  TUTTI_GRAMMAR = 4,       /* `text`: a grammar in GBNF */
  TUTTI_STRUCTURAL_TAG = 5 /* `text`: {"triggers": [...], "structures": [...]} */
} tutti_constraint;
/* Sets the constraint of the answer and replaces an earlier one; TUTTI_CHOICE instead adds an
 * alternative. Only an answer that was cut (TUTTI_LENGTH) can violate the constraint. */
TUTTI_API tutti_code tutti_request_constrain(tutti_request* request, tutti_constraint kind,
                                             const char* text);

/* Sets a parameter by name: temperature top_p top_k min_p repetition_penalty presence_penalty
 * frequency_penalty seed max_tokens min_tokens ignore_eos skip_special_tokens
 * include_stop_in_output logprobs prompt_logprobs n timeout_ms max_reasoning_tokens
 * truncate_prompt_tokens use_prefix_cache; of a conversation: add_generation_prompt
 * continue_final_message. TUTTI_INVALID_ARGUMENT: unknown name, or a number that the type cannot
 * hold; ranges are checked when the request is used. */
TUTTI_API tutti_code tutti_request_set(tutti_request* request, const char* name, double value);
TUTTI_API tutti_code tutti_request_seed(tutti_request* request, int64_t seed); /* all 64 bits */
TUTTI_API tutti_code tutti_request_stop(tutti_request* request,
                                        const char* text); /* one more stop string */
TUTTI_API tutti_code tutti_request_stop_token(tutti_request* request, int32_t id);
TUTTI_API tutti_code tutti_request_logit_bias(tutti_request* request, int32_t id, float bias);
/* One more token that may be drawn; without any, all may. */
TUTTI_API tutti_code tutti_request_allow_token(tutti_request* request, int32_t id);
TUTTI_API tutti_code tutti_request_ban_token(tutti_request* request, int32_t id); /* never drawn */

/* --- generating --- */
typedef struct tutti_token {
  int32_t id;            /* -1: text that was held back until the end */
  int32_t choice;        /* index of the answer, 0 to n - 1 */
  const char* text;      /* whole characters only; valid until the next call on the same handle */
  size_t text_bytes;     /* without the final zero */
  float logprob;         /* NAN unless asked for */
  const char* reasoning; /* as `text`: what belongs to the model's reasoning */
  size_t reasoning_bytes;
} tutti_token;

/* Callback for each piece. TUTTI_OK continues; TUTTI_CANCELLED stops, which is not an error; any
 * other code fails the generation with that code and reason "handler_failed". */
typedef tutti_code (*tutti_handler)(void* user, const tutti_token* token);

/* Blocks until the answer is complete. `handler` is called on the calling thread; may be NULL. */
TUTTI_API tutti_code tutti_generate(const tutti_model* model, const tutti_request* request,
                                    tutti_handler handler, void* user,
                                    tutti_completion** completion, tutti_error** error);

/* Starts a generation and returns at once. */
TUTTI_API tutti_code tutti_submit(const tutti_model* model, const tutti_request* request,
                                  tutti_job** job, tutti_error** error);
TUTTI_API int tutti_job_next(tutti_job* job,
                             tutti_token* token); /* blocks; 1, or 0 after the last piece */
/* Waits for at most `milliseconds`: 1, 0 after the last piece, or -1 if there was none in time. */
TUTTI_API int tutti_job_next_for(tutti_job* job, int milliseconds, tutti_token* token);
/* Waits for the end for at most `milliseconds` and takes no piece: 1, or 0 if it has not come. */
TUTTI_API int tutti_job_wait(const tutti_job* job, int milliseconds);
TUTTI_API void tutti_job_cancel(tutti_job* job);
TUTTI_API tutti_code tutti_job_join(tutti_job* job, tutti_completion** completion,
                                    tutti_error** error);
TUTTI_API void tutti_job_free(tutti_job* job); /* cancels a running job */

/* Stepwise generation: each tutti_state_step generates one token; *done is 1 with the last. If the
 * generation ended without a further token, the id is -1. */
TUTTI_API tutti_code tutti_state_new(const tutti_model* model, const tutti_request* request,
                                     tutti_state** state, tutti_error** error);
TUTTI_API tutti_code tutti_state_step(tutti_state* state, tutti_token* token, int* done,
                                      tutti_error** error);
/* The answer so far, with reasoning and calls; free it with tutti_completion_free. Its finish
 * reason is valid after *done was 1. */
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
/* `choice` counts from 0; out of range, the functions return NULL, 0 or TUTTI_LENGTH. */
TUTTI_API const char* tutti_completion_text(const tutti_completion* completion, int choice);
TUTTI_API const int32_t* tutti_completion_tokens(const tutti_completion* completion, int choice,
                                                 size_t* count);
TUTTI_API tutti_finish tutti_completion_finish(const tutti_completion* completion, int choice);
/* The model's reasoning before its answer, if it is separated from the text; otherwise "". */
TUTTI_API const char* tutti_completion_reasoning(const tutti_completion* completion, int choice);
TUTTI_API int tutti_completion_tool_calls(const tutti_completion* completion, int choice);
typedef struct tutti_tool_call {
  const char* id;
  const char* name;      /* of the function */
  const char* arguments; /* a JSON object */
} tutti_tool_call;
/* `index` counts from 0. TUTTI_OUT_OF_RANGE: there is no such call. */
TUTTI_API tutti_code tutti_completion_tool_call(const tutti_completion* completion, int choice,
                                                int index, tutti_tool_call* call);
/* What ended the choice: the stop string, or NULL; the stop token, or -1. Neither: the model's end
 * of text, or another reason than TUTTI_STOP. */
TUTTI_API const char* tutti_completion_stop_text(const tutti_completion* completion, int choice);
TUTTI_API int32_t tutti_completion_stop_token(const tutti_completion* completion, int choice);

typedef struct tutti_logprob {
  int32_t id;
  float logprob;     /* natural logarithm, before bias, penalties and temperature; NAN for the first
                      * token of a prompt */
  const char* bytes; /* the token's own bytes, not always valid UTF-8; none for that one */
  size_t byte_count;
} tutti_logprob;
/* The token at `position` (from 0) of a choice, or of the prompt with `choice` -1, and behind it
 * the most probable ones in order, as many as "logprobs" or "prompt_logprobs" asked for. Writes at
 * most `capacity` of them to `entries`, which may be NULL with capacity 0, and the number of all to
 * `count`. TUTTI_OUT_OF_RANGE: there is no such position, or none was asked for. */
TUTTI_API tutti_code tutti_completion_logprobs(const tutti_completion* completion, int choice,
                                               size_t position, tutti_logprob* entries,
                                               size_t capacity, size_t* count);
/* Of the prompt's tokens, those that the prefix cache had. */
TUTTI_API int tutti_completion_cached_tokens(const tutti_completion* completion);
TUTTI_API int tutti_completion_prompt_tokens(const tutti_completion* completion);
TUTTI_API int tutti_completion_completion_tokens(const tutti_completion* completion);
TUTTI_API void tutti_completion_free(tutti_completion* completion);

/* --- vectors and scores of texts --- */
typedef struct tutti_encoder tutti_encoder; /* may be used by several threads at once */

TUTTI_API tutti_code tutti_encoder_load(const tutti_options* options, tutti_encoder** encoder,
                                        tutti_error** error);
TUTTI_API void tutti_encoder_free(tutti_encoder* encoder);
TUTTI_API const char* tutti_encoder_name(const tutti_encoder* encoder);
TUTTI_API int tutti_encoder_context(const tutti_encoder* encoder);    /* tokens of one text */
TUTTI_API int tutti_encoder_dimensions(const tutti_encoder* encoder); /* 0: it gives no vectors */
TUTTI_API int tutti_encoder_pairs(const tutti_encoder* encoder);      /* 1: a cross-encoder */
/* Labels of a classifier, 0: it gives no scores; and the name of each, NULL behind the last. */
TUTTI_API int tutti_encoder_labels(const tutti_encoder* encoder);
TUTTI_API const char* tutti_encoder_label(const tutti_encoder* encoder, int index);
/* The names of prompts that can be put before a text, NULL behind the last. */
TUTTI_API const char* tutti_encoder_prompt(const tutti_encoder* encoder, int index);

/* Where all bytes are 0 these are the defaults. */
typedef struct tutti_encode_options {
  int normalize;  /* vectors to length 1: 1; as the model leaves them: -1; 0: its default */
  int dimensions; /* leading components, of models trained for it; 0: all */
  const char* prompt_name; /* NULL: the model's default */
  int truncate;            /* 1: read the beginning of a text that is too long */
  int raw_scores;          /* 1: scores without sigmoid or softmax */
} tutti_encode_options;

/* The functions below block. `options` may be NULL. Errors name a text by its position:
 * "texts[3]". */

/* Writes a vector for each text to `vectors`: `count` rows of `options->dimensions` floats, or of
 * tutti_encoder_dimensions where that is 0. `tokens`, which may be NULL, gets the number of tokens
 * read of each text. */
TUTTI_API tutti_code tutti_embed(const tutti_encoder* encoder, const tutti_text* texts,
                                 size_t count, const tutti_encode_options* options, float* vectors,
                                 int32_t* tokens, tutti_error** error);
/* Writes to `scores`, `count` floats, how well each document answers the query; more is better. */
TUTTI_API tutti_code tutti_rank(const tutti_encoder* encoder, tutti_text query,
                                const tutti_text* documents, size_t count,
                                const tutti_encode_options* options, float* scores,
                                tutti_error** error);
/* Writes to `scores` the score of each label for each text: `count` rows of tutti_encoder_labels
 * floats. */
TUTTI_API tutti_code tutti_classify(const tutti_encoder* encoder, const tutti_text* texts,
                                    size_t count, const tutti_encode_options* options,
                                    float* scores, tutti_error** error);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_C_API_H_ */
