"""Google's agent kit over LiteLLM."""
from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

from checks import MODEL, PROMPT, QUESTION, REVIEW, TOKENS, V1, Calls, Client, judge_review, review_type, said

client = Client("google-adk", section="frameworks")


async def answer(text, tokens=TOKENS, **options):
    agent = LlmAgent(name="clerk", instruction="Answer briefly.",
                     model=LiteLlm(model="openai/" + MODEL, api_base=V1, api_key="none", max_tokens=tokens, temperature=0,
                                   **({"parallel_tool_calls": False} if "tools" in options else {})), **options)
    runner = InMemoryRunner(agent=agent, app_name="check")
    session = await runner.session_service.create_session(app_name="check", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    parts = []
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        parts += [part.text for part in (event.content.parts if event.content else []) if part.text]
    return "".join(parts)


@client.check("chat")
async def chat():
    said(await answer(PROMPT))


@client.check("tools")
async def tools():
    """The model must call the function until it has been called."""
    calls = Calls()

    def choose(context, request):
        request.config.tool_config = types.ToolConfig(function_calling_config=types.FunctionCallingConfig(
            mode="NONE" if calls.cities else "ANY"))
    said(await answer(QUESTION, 300, tools=[calls.function], before_model_callback=choose))
    calls.judge()


@client.check("structured")
async def structured():
    judge_review(await answer(REVIEW, 60, output_schema=review_type()))
