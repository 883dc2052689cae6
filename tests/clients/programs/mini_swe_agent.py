"""mini-swe-agent's model, through LiteLLM. Its commands are read and not run."""
from minisweagent.models.litellm_model import LitellmModel

from checks import MODEL, V1, Client

client = Client("mini-swe-agent", section="programs")


@client.check("tools")
def tools():
    model = LitellmModel(model_name="openai/" + MODEL, cost_tracking="ignore_errors", model_kwargs={
        "api_base": V1, "api_key": "none", "temperature": 0, "max_tokens": 300, "tool_choice": "required",
        "parallel_tool_calls": False})
    message = model.query([{"role": "user", "content": "List the files of this folder with ls."}])
    action, = message["extra"]["actions"]
    assert isinstance(action["command"], str) and action["command"], action
