import { Database } from "bun:sqlite";
import { messageOf } from "./errors.ts";
import type { CheckpointAnswer, CheckpointRequest } from "./checkpoint-thread.ts";

declare const self: Worker;

let db: Database | undefined;

function handle(request: CheckpointRequest): void {
  if (request.type === "stop") {
    db?.close();
    db = undefined;
    return;
  }
  db ??= open(request.path);
  db.run("PRAGMA wal_checkpoint(PASSIVE)");
}

function open(path: string): Database {
  const opened = new Database(path, { create: false, readwrite: true });
  // The file is synced before the log may be written from its beginning again.
  opened.run("PRAGMA synchronous = NORMAL");
  return opened;
}

self.addEventListener("message", ({ data }: MessageEvent<CheckpointRequest>) => {
  try {
    handle(data);
    self.postMessage({ ok: true } satisfies CheckpointAnswer);
  } catch (error) {
    self.postMessage({ ok: false, message: messageOf(error) } satisfies CheckpointAnswer);
  }
});
