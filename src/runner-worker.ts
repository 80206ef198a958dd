import { startWorkerThread } from "./runner/worker-thread.ts";
import type { HostMessage } from "./runner/worker-messages.ts";

declare const self: Worker;

startWorkerThread(
  (message) => self.postMessage(message),
  (take) => {
    self.onmessage = (event: MessageEvent<HostMessage>) => take(event.data);
  },
);
