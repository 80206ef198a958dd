import type { AlgorithmContext } from "../../src/algorithm/algorithm.ts";

/** Best-of-all in thirty lines: one round on the rewarded calls, then the new weights are served. */
export default async function ({
  store,
  proxy,
  engine,
  adapter,
  train,
  settings,
  signal,
  say,
}: AlgorithmContext) {
  const { resources_id } = await store.addResources({
    main_llm: proxy.resource(settings.model.sampling_parameters),
  });
  engine.prepareTraining();
  const rollouts = await store.enqueueRollouts(
    train.map((input) => ({
      input,
      mode: "train",
      resources_id,
      metadata: { agent_settings: settings.agentSettings },
    })),
  );
  const pending = new Set(rollouts.map(({ rollout_id }) => rollout_id));
  const rows = [];
  while (pending.size > 0) {
    const done = await store.waitForRollouts({ rollout_ids: [...pending], wait_seconds: 20 }, { signal });
    signal.throwIfAborted();
    for (const { rollout_id } of done) {
      pending.delete(rollout_id);
      const { items } = await store.querySpans({ rollout_id, attempt_id: "latest" });
      const { triplets } = adapter(items);
      if (triplets.at(-1)?.reward !== 1) continue;
      for (const { prompt, response } of triplets) {
        const input_ids = [...prompt.token_ids, ...response.token_ids];
        rows.push({
          input_ids,
          attention_mask: input_ids.map(() => 1),
          labels: [...prompt.token_ids.map(() => -100), ...response.token_ids],
          reward: 1,
        });
      }
    }
  }
  const trained = await engine.train(rows, "mine_1");
  await engine.serve(trained);
  say(`my algorithm: trained on ${rows.length} rows, now serving ${engine.checkpoint.name}`);
}
