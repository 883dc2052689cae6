"""Tutti on Ray: batches with Ray Data and requests with Ray Serve. `pip install 'tutti[ray]'`

    import ray, tutti.ray
    answers = tutti.ray.map_batches(ray.data.read_json("prompts.jsonl"), "smollm2-135m-instruct", prompts="prompt", concurrency=2)
    answers.write_json("answers")

    from ray import serve
    serve.run(tutti.ray.deployment(max_replicas=3).bind("smollm2-135m-instruct"))  # http://127.0.0.1:8000/v1/chat/completions

Ray itself is imported when map_batches() or deployment() is called. Batches runs without it.
"""
from .data import Batches, map_batches
from .serve import Replica, app, deployment

__all__ = ["Batches", "Replica", "app", "deployment", "map_batches"]
