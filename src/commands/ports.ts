import type { Config } from "../config.ts";
import { describePortOwner, isPortFree } from "../engine/port-owner.ts";
import { AglError, UsageError } from "../errors.ts";
import { flagOf } from "../settings.ts";

const portSettings = ["store.port", "proxy.port", "engine.port"] as const;

/** Throws unless every port is free and none is named twice; a port that is taken is named with who holds it. */
export function checkPorts(config: Config, { store }: { store: boolean }): void {
  const chosen = new Map<number, string>();
  for (const setting of portSettings) {
    const port = config[setting];
    if (port === undefined || !isOurs(setting, config, store)) continue;
    const other = chosen.get(port);
    if (other !== undefined) {
      throw new UsageError(
        `${other} and ${setting} are both ${port}`,
        `choose another port with ${flagOf(setting)}`,
      );
    }
    chosen.set(port, setting);
    checkPort(setting, port);
  }
}

/** Whether the run will listen there. */
function isOurs(setting: (typeof portSettings)[number], config: Config, store: boolean): boolean {
  if (setting === "store.port") return store;
  if (setting === "proxy.port") return !config["proxy.off"] && config["proxy.url"] === undefined;
  return config["engine.url"] === undefined;
}

/** Throws when the port is taken, with who holds it. */
export function checkPort(setting: string, port: number): void {
  if (isPortFree(port)) return;
  throw new AglError("configuration", `${setting}: port ${port} is taken by ${describePortOwner(port)}`, {
    remedy: `stop that process, or choose another port with ${flagOf(setting)}`,
  });
}
