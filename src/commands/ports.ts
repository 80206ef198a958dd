import type { Config, ResolvedConfig } from "../config.ts";
import { describePortOwner, isPortFree } from "../engine/port-owner.ts";
import { AglError, UsageError } from "../errors.ts";
import { flagOf, type SettingName } from "../settings.ts";

const portSettings = ["store.port", "proxy.port", "engine.port"] as const;

/**
 * Throws unless every port that somebody chose is free and none is named twice; a port that is taken is named with who
 * holds it. A default that is taken is no reason to stop: another one will do.
 */
export function checkPorts(
  config: Config,
  { store, sources }: { store: boolean; sources: ResolvedConfig["sources"] },
): void {
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
    if (!isDefault(setting, sources)) checkPort(setting, port);
  }
}

/** Nobody chose the port, so any other serves as well. */
export function isDefault(setting: SettingName, sources: ResolvedConfig["sources"]): boolean {
  return sources[setting] === "default";
}

/** What to say when another port than the default had to be taken. */
export function describeOtherPort(setting: SettingName, port: number): string {
  return `${setting}: port ${port} is taken by ${describePortOwner(port)}; another one is used`;
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
