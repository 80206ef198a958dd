import type { Checkpointer } from "./store/file/checkpoints.ts";

export type CheckpointRequest = { type: "checkpoint"; path: string } | { type: "stop" };
export type CheckpointAnswer = { ok: true } | { ok: false; message: string };

/** Checkpoints of a store's file on a connection and in a thread of their own. */
export function startCheckpointThread(path: string): Checkpointer {
  const worker = new Worker(new URL("./checkpoint-worker.ts", import.meta.url), { ref: false });
  let asked: PromiseWithResolvers<void> | undefined;
  let ended: Error | undefined;
  const end = (reason: string) => {
    ended ??= new Error(reason);
    asked?.reject(ended);
  };
  worker.addEventListener("message", ({ data }: MessageEvent<CheckpointAnswer>) => {
    if (data.ok) asked?.resolve();
    else asked?.reject(new Error(data.message));
  });
  worker.addEventListener("error", ({ message }) => end(message));
  worker.addEventListener("close", () => end("the checkpoint thread has ended"));
  const ask = (request: CheckpointRequest) => {
    if (ended !== undefined) return Promise.reject(ended);
    asked = Promise.withResolvers<void>();
    worker.postMessage(request);
    return asked.promise;
  };
  return {
    checkpoint: () => ask({ type: "checkpoint", path }),
    async stop() {
      try {
        await ask({ type: "stop" });
      } finally {
        worker.terminate();
      }
    },
  };
}
