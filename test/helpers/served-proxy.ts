import { freePort } from "../../src/engine/port-owner.ts";
import { type ServedProcess, startServedProcess } from "./served-process.ts";

/** `agl proxy` as a process of its own, in front of one server. */
export async function startServedProxy(options: {
  store: string;
  engine: string;
  cwd: string;
  flags?: string[];
}): Promise<ServedProcess> {
  const { store, engine, cwd, flags = [] } = options;
  const where = ["--store-url", store, "--engine-url", engine, "--proxy-port", String(freePort())];
  return await startServedProcess("proxy", ["proxy", "--model-name", "agent-model", ...where, ...flags], {
    cwd,
  });
}
