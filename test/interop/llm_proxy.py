"""Agent-lightning's own LLM proxy in front of a model server: `llm_proxy.py STORE_URL MODEL_URL PORT`. Adds itself to
the store as the resource `main_llm` when it is ready, and serves until SIGTERM."""

import asyncio
import signal
import sys

from agentlightning import LightningStoreClient, LLMProxy
from agentlightning.utils.server_launcher import PythonServerLauncherArgs


async def main() -> None:
    store_url, model_url, port = sys.argv[1:4]
    terminated = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminated.set)
    store = LightningStoreClient(store_url)
    model = {"model": "hosted_vllm/agent-model", "api_base": model_url, "api_key": "dummy"}
    launch = PythonServerLauncherArgs(
        port=int(port), host="127.0.0.1", launch_mode="mp", healthcheck_url="/health", startup_timeout=180
    )
    proxy = LLMProxy(
        model_list=[{"model_name": "agent-model", "litellm_params": model}], store=store, launcher_args=launch
    )
    await proxy.start()
    try:
        await store.add_resources({"main_llm": proxy.as_resource(sampling_parameters={"temperature": 0.5})})
        await terminated.wait()
    finally:
        await proxy.stop()
        await store.close()


# The proxy's server is a process of its own, which imports this file.
if __name__ == "__main__":
    asyncio.run(main())
