"""CrewAI's crews over an OpenAI-like model."""
from crewai import LLM, Agent, Crew, Task

from checks import MODEL, PROMPT, REVIEW, TOKENS, V1, Client, agree, judge_review, review_type, said

client = Client("crewai", section="frameworks")


def model(tokens=TOKENS):
    return LLM(model="openai/" + MODEL, base_url=V1, api_key="none", max_tokens=tokens, temperature=0)


@client.check("chat")
def chat():
    agree(model().call([{"role": "user", "content": PROMPT}]))
    agent = Agent(role="clerk", goal="answer", backstory="You answer briefly.", llm=model(60), max_iter=1)
    task = Task(description=PROMPT, expected_output="three colours", agent=agent)
    said(str(Crew(agents=[agent], tasks=[task]).kickoff()))


@client.check("structured")
def structured():
    judge_review(model(60).call([{"role": "user", "content": REVIEW}], response_model=review_type()))
