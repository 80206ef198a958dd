import { AglError, messageOf } from "./errors.ts";
import { createLogger } from "./log.ts";
import type { ListenOptions, ServiceAnswer, ServiceRequest } from "./service-workers.ts";

declare const self: Worker;

type Handler = (request: ServiceRequest) => Promise<unknown>;

/** Answers the parent's messages one by one with what `handle` returns or throws. */
export function answerParent(room: string, handle: Handler): void {
  const log = createLogger(room, { level: "warning" });
  process.on("unhandledRejection", (reason) =>
    log.error("unhandled rejection", { reason: messageOf(reason) }),
  );
  self.addEventListener("message", ({ data }: MessageEvent<ServiceRequest>) => {
    handle(data).then(
      (value) => self.postMessage({ id: data.id, ok: true, value } satisfies ServiceAnswer),
      (error: unknown) => self.postMessage(failure(data.id, error)),
    );
  });
}

function failure(id: number, error: unknown): ServiceAnswer {
  if (error instanceof AglError) {
    return { id, ok: false, boundary: error.boundary, message: error.message, remedy: error.remedy };
  }
  return { id, ok: false, boundary: "store", message: messageOf(error), remedy: undefined };
}

/** Serves on the port that was asked for or, where any will do and it is taken, on a free one. */
export function listen<Server>({ port, anyPort }: ListenOptions, serve: (port: number) => Server): Server {
  try {
    return serve(port);
  } catch (error) {
    if (!anyPort) throw error;
    return serve(0);
  }
}
