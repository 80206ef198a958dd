import { createStoreApp } from "../../src/server/store-app.ts";
import type { OtlpValue } from "./protobuf-writer.ts";
import { memoryStore } from "./memory-store.ts";

/** A store with one started attempt, and `POST /v1/traces` of its app. */
export async function otlpRequests(options: { maxBodyBytes?: number } = {}) {
  const store = memoryStore();
  const app = createStoreApp(store, options);
  const { rollout_id, attempt } = await store.startRollout({ input: 1 });
  const ids: [string, OtlpValue][] = [
    ["agentlightning.rollout_id", rollout_id],
    ["agentlightning.attempt_id", attempt.attempt_id],
  ];
  const send = async (body: Uint8Array, headers: Record<string, string> = {}) =>
    await app.request("/v1/traces", {
      method: "POST",
      headers: { "content-type": "application/x-protobuf", ...headers },
      body: body as Uint8Array<ArrayBuffer>,
    });
  return {
    ids,
    rollout_id,
    attempt_id: attempt.attempt_id,
    store,
    app,
    send,
    sendJson: (message: unknown, headers: Record<string, string> = {}) => {
      const text = typeof message === "string" ? message : JSON.stringify(message);
      return send(new TextEncoder().encode(text), { "content-type": "application/json", ...headers });
    },
    /** As the wire shows them. */
    spans: async () => {
      const url = `/v1/agl/spans?rollout_id=${rollout_id}`;
      return {
        text: await (await app.request(url)).text(),
        items: (await store.querySpans({ rollout_id })).items,
      };
    },
  };
}
