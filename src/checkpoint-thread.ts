import type { Checkpointer } from "./store/checkpoints.ts";

export type CheckpointRequest = { type: "checkpoint"; path: string } | { type: "stop" };
export type CheckpointAnswer = { ok: true } | { ok: false; message: string };

/** Checkpoints of a store's file on a connection and in a thread of their own. */
export function startCheckpointThread(path: string): Checkpointer {
  const worker = new Worker(new URL("./checkpoint-worker.ts", import.meta.url), { ref: false });
  let asked: PromiseWithResolvers<void> | undefined;
  worker.addEventListener("message", ({ data }: MessageEvent<CheckpointAnswer>) => {
    if (data.ok) asked?.resolve();
    else asked?.reject(new Error(data.message));
  });
  worker.addEventListener("error", ({ message }) => asked?.reject(new Error(message)));
  const ask = (request: CheckpointRequest) => {
    asked = Promise.withResolvers<void>();
    worker.postMessage(request);
    return asked.promise;
  };
  return {
    checkpoint: () => ask({ type: "checkpoint", path }),
    async stop() {
      await ask({ type: "stop" });
      worker.terminate();
    },
  };
}
