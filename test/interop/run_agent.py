"""A two-call agent under Agent-lightning's runner and tracer: works on the next rollout of the store at URL."""

import asyncio
import sys

from agentlightning import LightningStoreClient, LitAgent, LitAgentRunner, OtelTracer, emit_reward
from openai import OpenAI


class TwoCalls(LitAgent[dict]):
    def rollout(self, task, resources, rollout):
        llm = resources["main_llm"]
        endpoint = llm.get_base_url(rollout.rollout_id, rollout.attempt.attempt_id)
        client = OpenAI(base_url=endpoint, api_key="dummy", max_retries=0)
        messages = [{"role": "user", "content": task["question"]}]
        first = client.chat.completions.create(model=llm.model, messages=messages, **llm.sampling_parameters)
        emit_reward(0.25)
        messages += [
            {"role": "assistant", "content": first.choices[0].message.content},
            {"role": "user", "content": "And?"},
        ]
        stream = client.chat.completions.create(model=llm.model, messages=messages, stream=True)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
        assert text == task["expected"], text
        return 1.0


async def main() -> None:
    store = LightningStoreClient(sys.argv[1])
    runner = LitAgentRunner(OtelTracer(), max_rollouts=1, poll_interval=0.1)
    with runner.run_context(agent=TwoCalls(), store=store, worker_id=0):
        await asyncio.wait_for(runner.iter(), 60)
    await store.close()


asyncio.run(main())
