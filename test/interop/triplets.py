"""What Agent-lightning's own proxy adapter makes of a rollout: `triplets.py URL ROLLOUT` prints JSON."""

import asyncio
import json
import sys

from agentlightning import LightningStoreClient, LlmProxyTraceToTriplet


async def main() -> None:
    store = LightningStoreClient(sys.argv[1])
    spans = await store.query_spans(sys.argv[2], "latest")
    triplets = LlmProxyTraceToTriplet().adapt(list(spans))
    await store.close()
    print(json.dumps([triplet.model_dump() for triplet in triplets]))


asyncio.run(main())
