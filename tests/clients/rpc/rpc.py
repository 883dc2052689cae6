"""gRPC: Triton's client, and stubs that grpcio-tools makes of the server's own messages."""
import json
import pathlib
import subprocess
import sys
import tempfile

import grpc
import numpy
import tritonclient.grpc as triton

from checks import EMBEDDER, GRPC_PORT, HOST, MODEL, TEXTS, Client, agree, agree_pieces, agree_vectors, expected_completion

ADDRESS = f"{HOST}:{GRPC_PORT}"
PROMPT = "The capital of France is"
PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"


def tensor(name, *values):
    made = triton.InferInput(name, [len(values)], "BYTES")
    made.set_data_from_numpy(numpy.array([value.encode() for value in values], dtype=object))
    return made


def flag(name):
    made = triton.InferInput(name, [1], "BOOL")
    made.set_data_from_numpy(numpy.array([True]))
    return made


@Client("tritonclient[grpc]", section="protocols", distribution="tritonclient").check("kserve_grpc")
def by_triton():
    asked = [tensor("text_input", PROMPT), tensor("sampling_parameters", json.dumps({"max_tokens": 8, "temperature": 0})),
             flag("exclude_input_in_output")]
    with triton.InferenceServerClient(ADDRESS) as api:
        assert api.is_server_ready() and api.is_model_ready(EMBEDDER)
        agree_vectors(api.infer(EMBEDDER, [tensor("text", *TEXTS)]).as_numpy("embedding"))
        agree(api.infer(MODEL, asked).as_numpy("text_output")[0].decode(), expected_completion())
        answers, errors = [], []

        def heard(result, error):
            if error:
                errors.append(error)
            else:
                answers.append(result)
        api.start_stream(heard)
        api.async_stream_infer(MODEL, [*asked, flag("stream")])
        api.stop_stream()
        assert not errors, errors
        texts = [answer.as_numpy("text_output") for answer in answers]
        agree_pieces([text[0].decode() for text in texts if text is not None and len(text)], expected_completion())


@Client("grpcio", section="protocols").check("rpc")
def by_grpcio():
    with tempfile.TemporaryDirectory() as folder:
        files = [str(path) for path in PROTO.rglob("tutti/**/*.proto")]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={folder}",
                        f"--grpc_python_out={folder}", *files], check=True)
        sys.path.insert(0, folder)
        from tutti.v1 import tutti_pb2 as messages
        from tutti.v1 import tutti_pb2_grpc as services
    with grpc.insecure_channel(ADDRESS) as channel:
        api = services.TuttiStub(channel)
        answer = api.Embed(messages.EmbedRequest(model=EMBEDDER, texts=TEXTS))
        assert (answer.count, answer.dimension) == (len(TEXTS), 384), answer
        pieces = [piece.text for piece in api.Generate(messages.GenerateRequest(
            model=MODEL, prompt=PROMPT, max_tokens=8, temperature=0))]
        agree_pieces(pieces, expected_completion())
