import { describePortOwner, isPortFree } from "../engine/port-owner.ts";
import { AglError } from "../errors.ts";
import { flagOf } from "../settings.ts";

/** The port when it is free; otherwise an error that says who holds it. */
export function choosePort(setting: string, port: number): number {
  if (isPortFree(port)) return port;
  throw new AglError("configuration", `${setting}: port ${port} is taken by ${describePortOwner(port)}`, {
    remedy: `stop that process, or choose another port with ${flagOf(setting)}`,
  });
}
