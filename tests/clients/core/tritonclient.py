"""Triton's client over HTTP: an encoder, and a decoder's answer."""
import json

import numpy
import tritonclient.http as triton

from checks import EMBEDDER, HOST, MODEL, PORT, TEXTS, Client, agree, agree_vectors, expected_completion

client = Client("tritonclient[http]", section="protocols", distribution="tritonclient")


def tensor(name, *values):
    made = triton.InferInput(name, [len(values)], "BYTES")
    made.set_data_from_numpy(numpy.array([value.encode() for value in values], dtype=object))
    return made


@client.check("kserve_http")
def kserve_http():
    with triton.InferenceServerClient(f"{HOST}:{PORT}") as api:
        assert api.is_server_ready() and api.is_model_ready(EMBEDDER)
        agree_vectors(api.infer(EMBEDDER, [tensor("text", *TEXTS)]).as_numpy("embedding"))
        asked = json.dumps({"max_tokens": 8, "temperature": 0})
        hidden = triton.InferInput("exclude_input_in_output", [1], "BOOL")
        hidden.set_data_from_numpy(numpy.array([True]))
        answer = api.infer(MODEL, [tensor("text_input", "The capital of France is"), tensor("sampling_parameters", asked), hidden])
        agree(answer.as_numpy("text_output")[0].decode(), expected_completion())
