import { freePort } from "../../src/engine/port-owner.ts";
import { type ServedProcess, type ServeOptions, startServedProcess } from "./served-process.ts";

export type ServedStore = ServedProcess;

/** `agl store` as a process of its own, on a free port unless one is given. */
export function startServedStore(
  path: string,
  { port = freePort(), ...options }: ServeOptions & { port?: number } = {},
): Promise<ServedStore> {
  return startServedProcess("store", ["store", "--db", path, "--port", String(port)], options);
}
